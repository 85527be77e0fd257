// Package suite knows the suites of loads that profllm brings: which runs each has, and the
// arguments of each run. Their values are those of the benchmark and sweep scripts of the public
// project pysheeet (src/llm/vllm/bench.sh and sweep.sh), so that results can be compared. Those of
// the group "scripts" are our own, after benchmark scripts of vLLM that are no command of it.
//
// A suite is data: a run is a name and a table of arguments of `vllm bench serve`. The package
// measures nothing; [[Tests.phases]] and `profllm bench suite` use the tables.
//
//	runs, unknown := suite.Expand([]string{"latency", "sweep-rate"})
//	table := runs[0].Arguments(pos, suite.Enough)
package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Groups of suites: a group stands for all of its suites.
const (
	Bench = "bench" // the types of a client benchmark
	Sweep = "sweep" // sweeps over one argument of the client
	// Scripts are loads of our own, in place of scripts below vLLM's benchmarks folder.
	Scripts = "scripts"
)

// Names are the names that a list with commas has.
func Names(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Groups are the names of all groups, in the order of their first suites.
func Groups() []string {
	var names []string
	for _, s := range Suites {
		if !slices.Contains(names, s.Group) {
			names = append(names, s.Group)
		}
	}
	return names
}

// A Suite is some loads that belong together.
type Suite struct {
	Name  string
	Group string
	About string // what the suite shows, for people
	Fixed []Value
	Each  []Variant // of one or more; the fixed values are those of every run
}

// A Variant is what tells a run of a suite from its others.
type Variant struct {
	Name   string // "" if the suite has one run
	Values []Value
}

// A Value is an argument of the client, by its name in definition files.
type Value struct {
	Key string
	Any any // int64, float64, string or bool
}

// A Run is one load of a suite.
type Run struct {
	Suite  string
	Name   string   // unique among the runs of all suites
	Varies []string // keys that tell the run from the others of its suite
	values []Value
}

// Prompts says how many requests a run has.
type Prompts bool

// The two rules of prompt counts.
const (
	// Enough raises a count to five times the concurrency, so that the concurrency is reached.
	Enough Prompts = false
	// Parity keeps the count of the scripts that the suite is taken from, even if it is smaller than
	// the concurrency.
	Parity Prompts = true
)

// perConcurrency is how many requests each of the requests in flight stands for, at least.
const perConcurrency = 5

// Unlimited is the value of max_concurrency that sets no limit.
const Unlimited = "none"

// Names of the arguments that the package looks at.
const (
	numPrompts     = "num_prompts"
	maxConcurrency = "max_concurrency"
	labelKey       = "label"
)

// Defaults are the arguments of every run that neither the suite nor the user sets: one seed, and
// the endpoint that chat users see.
func Defaults(pos source.Pos) *source.Table {
	return table(pos, []Value{
		{"backend", "openai-chat"}, {"endpoint", "/v1/chat/completions"}, {"seed", int64(42)},
	})
}

// Expand returns the runs of some suites, groups and single runs, in the order in which they are
// named, and the names that are unknown. A run that is named twice is listed once.
func Expand(names []string) (list []Run, unknown []string) {
	for _, name := range names {
		found := find(name)
		if len(found) == 0 {
			unknown = append(unknown, name)
		}
		for _, r := range found {
			if !slices.ContainsFunc(list, func(have Run) bool { return have.Name == r.Name }) {
				list = append(list, r)
			}
		}
	}
	return list, unknown
}

// Suggest says which name may have been meant by an unknown one.
func Suggest(name string) string {
	known := Groups()
	for _, s := range Suites {
		known = append(known, s.Name)
	}
	for _, s := range Suites { // a run's name only where it is near
		for _, r := range s.Runs() {
			if near := source.Nearest(name, []string{r.Name}); near != "" && !slices.Contains(known, near) {
				return fmt.Sprintf("did you mean %q?", near)
			}
		}
	}
	return source.Suggest(name, known)
}

// find returns the runs of a group or a suite, or the run of that name.
func find(name string) []Run {
	var list []Run
	for _, s := range Suites {
		for _, r := range s.Runs() {
			if name == s.Group || name == s.Name || name == r.Name {
				list = append(list, r)
			}
		}
	}
	return list
}

// Runs are the runs of a suite.
func (s *Suite) Runs() []Run {
	if len(s.Each) == 0 {
		return []Run{{Suite: s.Name, Name: s.Name, values: s.Fixed}}
	}
	var list []Run
	for _, v := range s.Each {
		r := Run{Suite: s.Name, Name: s.Name + "-" + v.Name, values: slices.Concat(s.Fixed, v.Values)}
		for _, x := range v.Values {
			r.Varies = append(r.Varies, x.Key)
		}
		list = append(list, r)
	}
	return list
}

// Arguments are the run's own, at a position of the user's.
func (r *Run) Arguments(pos source.Pos, rule Prompts) *source.Table {
	t := table(pos, r.values)
	n, limited := t.Get(maxConcurrency).Int()
	have, _ := t.Get(numPrompts).Int()
	if least := perConcurrency * n; limited && rule == Enough && have < least {
		t.Set(numPrompts, &source.Value{Pos: pos, Any: least})
	}
	return t
}

// Merged are the arguments of a run with those of the user, which come first, and the defaults of all
// suites. Its label says what the run is, unless the user labels it.
func (r *Run) Merged(over *source.Table, pos source.Pos, rule Prompts) *source.Table {
	t := source.Merge(r.Arguments(pos, rule), over)
	if !t.Has(labelKey) {
		t.Set(labelKey, &source.Value{Pos: pos, Any: r.Label(t)})
	}
	return t
}

// Same reports a key of the user's arguments in which several of the runs differ, and the suite
// of these: they would be the same. It is "" for none.
func Same(runs []Run, over *source.Table) (key, name string) {
	number := map[string]int{}
	for _, r := range runs {
		number[r.Suite]++
	}
	for _, r := range runs {
		for _, key := range r.Varies {
			if number[r.Suite] > 1 && over.Has(key) {
				return key, r.Suite
			}
		}
	}
	return "", ""
}

// A label is how an argument is called in labels.
type label struct{ key, short string }

// labelled are the arguments of which a label tells, and how.
var labelled = []label{
	{"random_input_len", "in"}, {"random_output_len", "out"}, {"sonnet_input_len", "in"}, {"sonnet_output_len", "out"},
	{"sonnet_prefix_len", "prefix"}, {"prefix_repetition_prefix_len", "prefix"},
	{"prefix_repetition_suffix_len", "in"}, {"prefix_repetition_output_len", "out"},
	{"prefix_repetition_num_prefixes", "prefixes"},
	{"request_rate", "rate"}, {maxConcurrency, "c"}, {numPrompts, "n"},
}

// Label names the suite and its parameters: prefill-in512-out1-rate4-n100. It can name a file.
func (r *Run) Label(t *source.Table) string {
	words := []string{r.Suite}
	for _, key := range r.Varies {
		if !slices.ContainsFunc(labelled, func(l label) bool { return l.key == key }) {
			words[0] = r.Name // nothing else would tell it from the others
		}
	}
	for _, l := range labelled {
		v := t.Get(l.key)
		if v == nil {
			continue
		}
		text := strings.ReplaceAll(fmt.Sprint(v.Plain()), "/", "_")
		if l.key == maxConcurrency && text == Unlimited {
			continue
		}
		words = append(words, l.short+text)
	}
	return strings.Join(words, "-")
}

func table(pos source.Pos, values []Value) *source.Table {
	t := source.NewTable(pos)
	for _, v := range values {
		t.Set(v.Key, &source.Value{Pos: pos, Any: v.Any})
	}
	return t
}
