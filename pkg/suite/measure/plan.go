package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/bench/vllmserve"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/suite"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Options say what is measured.
type Options struct {
	Names   []string          // of suites, groups and runs
	Rule    suite.Prompts     // of their prompt counts
	Flags   []string          // of `vllm bench serve`, for every run
	Files   map[string]string // data set → its file, for the runs that read it
	Own     bool              // profllm's client instead of a command
	Any     bool              // arguments that no client takes are not refused
	Release string            // of the vLLM whose client the command is; "" if that is not known
}

// Load is a run with everything that its client is given, but for the server.
type Load struct {
	suite.Run
	Arguments *source.Table
	Label     string

	client *vllmserve.Load
}

// place is where the arguments of a command line stand.
var place = source.Pos{File: "command line"}

// Plan makes the loads. It refuses the whole list if one of its names or arguments is wrong.
func Plan(o Options) ([]Load, error) {
	runs, unknown := suite.Expand(o.Names)
	var c source.Complaints
	for _, name := range unknown {
		c.Add(fmt.Errorf("unknown suite %q\n\thint: %s", name, suite.Suggest(name)))
	}
	over, err := Table(o.Flags)
	c.Add(err)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if key, name := suite.Same(runs, over); key != "" {
		return nil, fmt.Errorf("--%s would make the runs of suite %s the same\n\thint: name one run in place of the suite",
			strings.ReplaceAll(key, "_", "-"), name)
	}
	var loads []Load
	for _, r := range runs {
		load, err := o.load(r, over)
		if err != nil {
			c.Add(fmt.Errorf("%s: %w", r.Name, err))
		}
		loads = append(loads, load)
	}
	return loads, c.Err()
}

// load makes one of them.
func (o Options) load(r suite.Run, over *source.Table) (Load, error) {
	t := source.Merge(suite.Defaults(place), r.Merged(over, place, o.Rule))
	name, _ := t.Get("dataset_name").Text()
	if file := o.Files[name]; file != "" && !t.Has("dataset_path") {
		t.Set("dataset_path", &source.Value{Pos: place, Any: file})
	}
	client := "vllm"
	if o.Own {
		client = "profllm"
	}
	l := Load{Run: r, Arguments: t}
	l.Label, _ = t.Get("label").Text()
	var err error
	if l.client, err = vllmserve.New(client, place, t); err != nil {
		return l, err
	}
	l.client.Release, l.client.Program = o.Release, arguments.BenchServe
	if o.Any {
		return l, nil
	}
	if o.Own {
		return l, vllmserve.CheckOwnArguments(t)
	}
	return l, vllmserve.CheckArguments(t, arguments.BenchServe, o.Release)
}

// Expect is what the result is judged against.
func (l *Load) Expect() plan.Expect { return l.client.Expect() }

// Options are the arguments as plain data, also those that the client's defaults set.
func (l *Load) Options() map[string]any { return l.client.Options() }

// words are the client's command line, without the words that start it.
func (l *Load) words(url, model, dir, file string, metadata []string) []string {
	client := *l.client
	var words []string
	for _, w := range client.Arguments(plan.Text(url), model, dir, file) {
		text, _ := w.Literal()
		words = append(words, text)
	}
	if at := slices.Index(words, "--metadata"); at >= 0 {
		return slices.Insert(words, at+1, metadata...)
	}
	return append(append(words, "--metadata"), metadata...)
}

// Table reads words of a command line, such as --num-prompts 20 --goodput ttft:200 tpot:50, as the
// table of a definition file.
func Table(words []string) (*source.Table, error) {
	t := source.NewTable(place)
	for i := 0; i < len(words); {
		name, value, with := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") || len(name) < 3 {
			return nil, fmt.Errorf("%q is no argument of vllm bench serve\n\thint: write them as --name value, behind --",
				words[i])
		}
		key := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
		i++
		var values []*source.Value
		if with {
			values = append(values, typed(value))
		}
		for ; !with && i < len(words) && !strings.HasPrefix(words[i], "--"); i++ {
			values = append(values, typed(words[i]))
		}
		if t.Has(key) {
			return nil, errors.New(name + " is given twice")
		}
		t.Set(key, valueOf(values))
	}
	return t, nil
}

// valueOf is what stands behind a flag: nothing is true, and several words are a list.
func valueOf(values []*source.Value) *source.Value {
	switch len(values) {
	case 0:
		return &source.Value{Pos: place, Any: true}
	case 1:
		return values[0]
	}
	return &source.Value{Pos: place, Any: values}
}

// typed is a word with the type that a definition file would give it.
func typed(word string) *source.Value {
	v := &source.Value{Pos: place, Any: word}
	if t, err := source.Parse("", []byte("v = "+word)); err == nil {
		switch n := t.Get("v"); n.Any.(type) {
		case int64, float64:
			if !strings.ContainsAny(word, "_xobn\n") { // a number as the client's parser reads it, not inf or nan
				v.Any = n.Any
			}
		}
	}
	return v
}
