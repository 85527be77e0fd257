// Package field names what runs are filtered, sorted and grouped by, and reads it from
// records: what a run is, where it ran, what was asked of it, what was measured, and what
// the checks say.
//
// Settings have the keys of definition files, such as cmd_args.max_num_seqs; every option
// in vLLM's catalogue has a field of its own. Metrics have their keys in a record. The fields
// of a release are fixed, in one order; a run may have others besides, such as the
// options of a role or a variable of the environment.
//
//	for _, c := range field.Of(run) {
//		fmt.Println(c.Field.Name, c.Value)
//	}
package field

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/source"
)

// Group is the kind of question that a field answers.
type Group string

// The groups, in the order in which fields are listed.
const (
	Run       Group = "run"
	Validity  Group = "validity"
	Placement Group = "placement"
	Hardware  Group = "hardware"
	Software  Group = "software"
	Engine    Group = "engine"
	Load      Group = "load"
	Setting   Group = "setting"
	Metric    Group = "metric"
)

// Groups lists every Group in its order.
func Groups() []Group {
	return []Group{Run, Validity, Placement, Hardware, Software, Engine, Load, Setting, Metric}
}

// Kind says which values a field usually has. A number field may have a text all the
// same: request_rate is "inf", max_model_len "auto".
type Kind string

// The kinds.
const (
	Text   Kind = "text"
	Number Kind = "number"
	Time   Kind = "time" // in Unix milliseconds
)

// A Field is one thing that is known of runs by name.
type Field struct {
	Name   string           `json:"name"`
	Group  Group            `json:"group"`
	Kind   Kind             `json:"kind"`
	Title  string           `json:"title,omitempty"` // for a person; "": the name
	Help   string           `json:"help,omitempty"`
	Unit   string           `json:"unit,omitempty"`
	Better metric.Direction `json:"better,omitempty"` // "" if no value is better
	Free   bool             `json:"free,omitempty"`   // it is not among All: some run has it

	read  func(*records.Run) Value // of a fixed field that is no setting
	place int                      // among the fixed fields, from 1; 0 of a free one
}

// A Cell is the value of a field.
type Cell struct {
	Field *Field
	Value Value
}

// All are the fixed fields in their order. Their number and order differ between releases.
func All() []*Field { return slices.Clip(known().fixed) }

// Find returns a field by its name, by that of a setting without cmd_args or bench_cmd_args, or
// by CloudAI's name of a metric.
func Find(name string) (*Field, error) {
	k := known()
	for _, n := range []string{name, engineArgs + name, clientArgs + name} {
		if f, ok := k.byName[n]; ok {
			return f, nil
		}
	}
	if f, ok := free(name); ok {
		return f, nil
	}
	if m, ok := metric.Lookup(name); ok {
		return ofMetric(m), nil
	}
	names := make([]string, 0, len(k.fixed))
	for _, f := range k.fixed {
		names = append(names, f.Name)
	}
	return nil, source.Errorf(source.Pos{File: "field"}, "unknown field %q", shown(name)).
		Hintf("%s", source.Suggest(name, names))
}

// shown is a name as an error has it.
func shown(name string) string {
	const most = 100
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}

// freeHeads begin the names of settings and checks that only some runs have.
var freeHeads = []string{engineArgs, clientArgs, envVars, checkHead}

// free is the field of a name that need not be among the fixed ones.
func free(name string) (*Field, bool) {
	for _, head := range freeHeads {
		if rest, ok := strings.CutPrefix(name, head); ok && rest != "" {
			f := &Field{Name: name, Group: Setting, Kind: Text, Free: true}
			if head == checkHead {
				f.Group, f.Title = Validity, rest
			}
			return f, true
		}
	}
	return nil, false
}

// Of are the values that a run has, fixed fields in their order, then the others by
// their names. A run without a record has those of its settings.
func Of(r *records.Run) []Cell {
	k := known()
	cells := make([]Cell, 0, 128)
	for _, f := range k.fixed {
		if f.read == nil {
			continue
		}
		if v := f.read(r); v.Has() {
			cells = append(cells, Cell{f, v})
		}
	}
	cells = append(cells, ofSettings(r)...)
	cells = append(cells, ofChecks(r)...)
	cells = append(cells, ofLatencies(r)...)
	slices.SortFunc(cells, func(a, b Cell) int {
		if a.Field.place != b.Field.place {
			return cmp.Compare(a.Field.rank(), b.Field.rank())
		}
		return cmp.Compare(a.Field.Name, b.Field.Name)
	})
	return cells
}

// catalogue is every fixed field.
type catalogue struct {
	fixed  []*Field
	byName map[string]*Field
}

// rank is a field's place; free fields stand behind the others.
func (f *Field) rank() int {
	if f.place == 0 {
		return math.MaxInt
	}
	return f.place
}

var known = sync.OnceValue(func() *catalogue {
	c := &catalogue{byName: map[string]*Field{}}
	for _, f := range slices.Concat(ofRuns(), options(), metrics(), measured()) {
		if c.byName[f.Name] != nil {
			panic(fmt.Sprintf("two fields %q", f.Name))
		}
		c.fixed, c.byName[f.Name] = append(c.fixed, f), f
		f.place = len(c.fixed)
	}
	return c
})
