package field

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// The tables of a definition file that settings come from.
const (
	engineArgs = "cmd_args."
	clientArgs = "bench_cmd_args."
	envVars    = "extra_env_vars."
)

// options are the settings that every store knows: the options of vLLM's server and client
// in all releases, and the number of nodes asked for.
func options() []*Field {
	list := []*Field{{Name: "NUM_NODES", Group: Placement, Kind: Number, Help: "number of nodes that was asked for"}}
	for _, p := range []struct {
		program *arguments.Program
		head    string
		group   Group
	}{{arguments.Serve, engineArgs, Engine}, {arguments.BenchServe, clientArgs, Load}} {
		for _, o := range p.program.Options() {
			list = append(list, &Field{
				Name: p.head + arguments.Key(o.Name), Group: p.group, Kind: kindOf(o), Help: o.Summary,
			})
		}
	}
	return list
}

// kindOf is a number if every form of the option is.
func kindOf(o arguments.Option) Kind {
	numeric := []string{"int", "float", "human_readable_int", "human_readable_int_or_auto"}
	if slices.ContainsFunc(o.Forms, func(f arguments.Form) bool { return !slices.Contains(numeric, f.Type) }) {
		return Text
	}
	return Number
}

// ofSettings are the settings of a run. A key that is another field's name, or that no field could be found by, is
// none: whoever wrote the record could make it say what its numbers do not.
func ofSettings(r *records.Run) []Cell {
	cells := make([]Cell, 0, len(r.Settings))
	for key, s := range r.Settings {
		f, fixed := known().byName[key]
		if fixed && f.read != nil {
			continue
		}
		if !fixed {
			var ok bool
			if f, ok = free(key); !ok {
				continue
			}
			f.Group = groupOf(key)
		}
		v := Read(s)
		if fixed && f.Kind == Text {
			v = OfText(s)
		}
		if !fixed && v.IsNumber() {
			f.Kind = Number
		}
		if v.Has() {
			cells = append(cells, Cell{f, v})
		}
	}
	return cells
}

// groupOf is the group of a setting that is no option of vLLM.
func groupOf(key string) Group {
	switch {
	case strings.HasPrefix(key, engineArgs):
		return Engine
	case strings.HasPrefix(key, clientArgs):
		return Load
	}
	return Setting
}
