// Package arguments is the catalogue of the options of `vllm serve` and `vllm bench serve`: of each
// option, from which release to which it exists, its kind, choices, limits and default. It reads
// command lines as vLLM's own parser does, and says in vLLM's words what that would refuse.
//
//	_, refusal := arguments.Serve.Check("0.32.0", "--dtype", "bfloat17")
//
// serve.json and bench-serve.json are written by .ci/vllm/options out of the source releases of
// vLLM: names, kinds, choices, limits and defaults. The parsers of a real vLLM 0.32.0 agree with
// them (TestVLLMOptions).
package arguments

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/source"
)

//go:embed serve.json
var serve []byte

//go:embed bench-serve.json
var benchServe []byte

// A Program is a command of vLLM, with its options in all releases that have it.
type Program struct {
	Name     string          // as it is called: "vllm serve"
	model    bool            // its first argument is the model
	lacking  map[string]bool // options that a build does not have
	stored   func() data
	releases func() []*Release // the oldest first
	names    func() []string
}

// The programs.
var (
	Serve      = program("vllm serve", true, serve)
	BenchServe = program("vllm bench serve", false, benchServe)
)

func program(name string, model bool, catalogue []byte) *Program {
	return derived(name, model, sync.OnceValue(func() (d data) {
		if err := json.Unmarshal(catalogue, &d); err != nil {
			panic("arguments: " + err.Error()) // the file is part of the program
		}
		return d
	}))
}

func derived(name string, model bool, stored func() data) *Program {
	p := &Program{Name: name, model: model, stored: stored}
	p.releases = sync.OnceValue(func() (list []*Release) {
		for _, version := range p.stored().Releases {
			list = append(list, &Release{Version: version, program: p})
		}
		return list
	})
	p.names = sync.OnceValue(func() []string { return longNames(p.Options()) })
	return p
}

// An Option is one of a program in all its releases.
type Option struct {
	Name      string `json:"name"`                // the long name, with its dashes
	Group     string `json:"group,omitempty"`     // vLLM's group of options
	Summary   string `json:"summary,omitempty"`   // in a few words
	Successor string `json:"successor,omitempty"` // what does the same in the releases that lack it
	Forms     []Form `json:"forms"`               // in the order of releases
}

// A Form is what an option is from one release to another.
type Form struct {
	Since string `json:"since"`           // the first release of the catalogue that has it
	Until string `json:"until,omitempty"` // the first that has it no longer, "" if the newest does
	// Every spelling, with --no-x where that exists; nil: only the option's name.
	Names []string `json:"names,omitempty"`
	// How many values it takes: "0", "2", "?" for at most one, "+" for one or more, "*" for any
	// number; "" is one.
	Values string `json:"values,omitempty"`
	// int, float, bool, json, json-or-string, human_readable_int, human_readable_int_or_auto; "" is
	// any text.
	Type     string   `json:"type,omitempty"`
	Choices  []string `json:"choices,omitempty"`  // nil: any value
	Optional bool     `json:"optional,omitempty"` // it takes None
	Fold     bool     `json:"fold,omitempty"`     // capitals count as small letters, dashes as underscores
	Default  any      `json:"default,omitempty"`  // nil where it is computed at start-up
	Min      *float64 `json:"min,omitempty"`      // smallest accepted value
	Above    *float64 `json:"above,omitempty"`    // values must be larger
	Max      *float64 `json:"max,omitempty"`      // largest accepted value
	Below    *float64 `json:"below,omitempty"`    // values must be smaller
}

// data is the catalogue as it is stored.
type data struct {
	Releases []string `json:"releases"` // the oldest first
	Options  []Option `json:"options"`
}

// Options are those of every release, in the order of vLLM's parser. They must not be changed.
func (p *Program) Options() []Option { return p.stored().Options }

// Find returns the option of a name: its long name with or without dashes, underscores as good as
// dashes, or another spelling that some release knows.
func (p *Program) Find(name string) (Option, bool) {
	plain := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	for _, o := range p.Options() {
		if o.Name == "--"+plain || o.spelled("--"+plain) || o.spelled("-"+plain) {
			return o, true
		}
	}
	return Option{}, false
}

// Lookup is Find with an error that names a near option.
func (p *Program) Lookup(name string) (Option, error) {
	o, ok := p.Find(name)
	if ok {
		return o, nil
	}
	err := fmt.Errorf("no release of vLLM from %s to %s has the option %s", p.Oldest().Version, p.Newest().Version, name)
	if near := source.Nearest(strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"), p.Names()); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return Option{}, err
}

func (o Option) spelled(name string) bool {
	return slices.ContainsFunc(o.Forms, func(f Form) bool { return slices.Contains(f.Names, name) })
}

// Removed is the first release that lacks an option which earlier ones had, "" if there is none.
func (o Option) Removed() string { return o.Forms[len(o.Forms)-1].Until }

// Removal says since when an option is gone, and what to use instead.
func (o Option) Removal() string {
	if o.Successor == "" {
		return fmt.Sprintf("vLLM %s removed it: remove it here as well", o.Removed())
	}
	return fmt.Sprintf("vLLM %s removed it: use %s", o.Removed(), o.Successor)
}

// Names are the long names of the options of all releases without their dashes, underscores for
// dashes within, also of --no-x.
func (p *Program) Names() []string { return p.names() }

func longNames(options []Option) (list []string) {
	for _, o := range options {
		for _, f := range o.Forms {
			for _, name := range f.spellings(o.Name) {
				if strings.HasPrefix(name, "--") {
					list = append(list, Key(name))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// spellings are the names of the form, the first of which is long.
func (f Form) spellings(name string) []string {
	if f.Names == nil {
		return []string{name}
	}
	return f.Names
}
