package measure

import (
	"fmt"
	"os"
	"path/filepath"
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
	Here    bool              // files that are here are named by their absolute paths, for a client in a container
	Release string            // of the vLLM whose client the command is; "" if that is not known
}

// Split divides the words of a command line into the names of what is measured and the flags of every
// run, which begin with the first dash. Without a name, that is the group of client benchmarks.
func Split(words []string) (names, flags []string) {
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
	if at < 0 {
		at = len(words)
	}
	for _, word := range words[:at] {
		names = append(names, suite.Names(word)...)
	}
	if flags = words[at:]; len(flags) > 0 && flags[0] == "--" {
		flags = flags[1:]
	}
	if len(names) == 0 {
		names = []string{suite.Bench}
	}
	return names, flags
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
	over, _, err := arguments.Reader{Pos: place, Program: arguments.BenchServe, Any: true}.Read(o.Flags)
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
	if file, _ := t.Get("dataset_path").Text(); o.Here && file != "" {
		if _, err := os.Stat(file); err == nil { // else it may be the name of a data set
			if file, err = filepath.Abs(file); err != nil {
				return Load{}, err
			}
			t.Set("dataset_path", &source.Value{Pos: place, Any: file})
		}
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
