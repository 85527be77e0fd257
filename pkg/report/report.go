// Package report shows records to a person: what every run did, runs beside each
// other, the points of a sweep, as text, Markdown, CSV, JSON, and as one HTML
// file that needs no network.
//
// Verdicts and withheld numbers are the record's. A difference of two runs is a
// difference of two numbers; only Pair, given several runs of each side, says
// whether it is more than noise.
//
//	runs, err := report.Load("results/demo_2026-11-22_01-18-52")
//	rep := report.Build(runs, report.Options{})
//	err = rep.Text(os.Stdout)
package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Schema is the version of the JSON form.
const Schema = "profllm.report/1"

// Options say what to show.
type Options struct {
	GroupBy   []string // configuration keys whose values part the runs
	Objective Metric   // what makes a point of a sweep the best; default: output throughput
	Without   []Part
}

// Part is a part of a report that can be left out.
type Part string

// The parts, by CloudAI's names of its reports.
const (
	PartStatus     Part = "status"
	PartPerTest    Part = "per_test"
	PartComparison Part = "vllm_comparison"
	PartSweeps     Part = "dse"
)

// Report is everything that is shown, in order.
type Report struct {
	Schema      string       `json:"schema"`
	Simulated   int          `json:"simulated"` // runs of a simulated engine: no measurements
	Runs        []Entry      `json:"runs"`
	Repeats     []Repeats    `json:"repeats,omitempty"`    // of Build
	Judgements  []Judgement  `json:"judgements,omitempty"` // of Pair
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Sweeps      []Sweep      `json:"sweeps,omitempty"`
	Phases      []Sweep      `json:"phases,omitempty"`   // of each run, those that differ in a setting
	Trends      []Trend      `json:"trends,omitempty"`   // of Trace
	LeftOut     []LeftOut    `json:"left_out,omitempty"` // of Trace
	Notes       []string     `json:"notes,omitempty"`

	without []Part
}

// Entry is one run.
type Entry struct {
	Label   string  `json:"label"` // unique in the report
	Case    Case    `json:"case"`
	Dir     string  `json:"dir"`
	RunID   string  `json:"run_id,omitempty"`
	Group   string  `json:"group,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Kind is set for numbers that are no measurements of the engine: such runs
	// are compared with their like only.
	Kind     Kind              `json:"kind,omitempty"`
	Imported string            `json:"imported,omitempty"` // the program that measured, if it was another
	Usable   bool              `json:"usable"`             // valid or suspect: its numbers may be shown beside others
	Reason   string            `json:"reason,omitempty"`
	Foreign  string            `json:"foreign,omitempty"` // client whose files were found alone
	Metrics  map[string]Value  `json:"metrics,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`

	run *Run
}

// Verdict is a run's state in words: valid, suspect, invalid; before it
// "partial, ", "failed, " or "cancelled, "; or why there is no judgement.
type Verdict string

// Kind tells numbers that are no measurements.
type Kind string

// The kinds. A rehearsal whose simulated time passed 20 times faster is of the kind
// "simulated 20x".
const (
	Measured  Kind = ""
	Simulated Kind = "simulated"
	Profiled  Kind = "profiled"
)

// Simulated reports whether the engine was simulated, at whatever speed.
func (k Kind) Simulated() bool {
	return k == Simulated || strings.HasPrefix(string(k), string(Simulated)+" ")
}

// Speed is how many times faster simulated time passed.
func (k Kind) Speed() int {
	n := 1
	fmt.Sscanf(string(k), string(Simulated)+" %dx", &n) // 1 stays where none is named
	return n
}

// alike reports whether both are simulated, or of one kind.
func (k Kind) alike(other Kind) bool { return k == other || k.Simulated() && other.Simulated() }

// Build arranges runs. It does not keep the order of groups the caller gave, but
// that of their first runs.
func Build(runs []Run, o Options) *Report {
	if o.Objective.of == nil {
		o.Objective = throughput
	}
	r := &Report{Schema: Schema, without: o.Without}
	r.addEntries(runs, o.GroupBy)
	r.addRepeats()
	if r.shows(PartComparison) {
		r.addComparisons(o.GroupBy)
	}
	if r.shows(PartSweeps) {
		r.addSweeps(o.Objective)
		r.addPhases(o.Objective)
	}
	return r
}

func (r *Report) shows(p Part) bool { return !slices.Contains(r.without, p) }

func (r *Report) addEntries(runs []Run, groupBy []string) {
	count := map[string]int{}
	for i := range runs {
		count[runs[i].Case.Title()]++
	}
	nth := map[string]int{}
	for i := range runs {
		run := &runs[i]
		e := newEntry(run)
		if e.Label = run.Case.Title(); count[e.Label] > 1 {
			nth[e.Label]++
			e.Label += fmt.Sprintf(" run=%d", nth[e.Label])
		}
		if run.Result != nil {
			e.Group = groupName(groupOf(run, groupBy), e.Kind)
		}
		if e.Kind.Simulated() {
			r.Simulated++
		}
		if run.remark != "" {
			r.Notes = append(r.Notes, run.remark)
		}
		r.Runs = append(r.Runs, e)
	}
}

func newEntry(run *Run) Entry {
	e := Entry{Case: run.Case, Dir: run.Dir, Settings: run.Settings, run: run}
	r := run.Result
	if r == nil {
		e.Verdict, e.Reason = "no record", run.Problem
		return e
	}
	e.RunID, e.Kind, e.Reason = r.RunID, KindOf(r), reason(r)
	e.Imported = r.Provenance.From()
	e.Verdict, e.Usable = verdict(r)
	if r.Provenance != nil {
		e.Foreign = r.Provenance.Foreign
	}
	e.Metrics = map[string]Value{}
	for _, m := range metrics {
		if v := m.Of(r); v != (Value{}) {
			e.Metrics[m.Key] = v
		}
	}
	return e
}

// KindOf is the kind of a record's numbers.
func KindOf(r *result.Result) Kind {
	switch {
	case r.Simulated && r.SimulatedSpeed > 1:
		return Simulated + Kind(fmt.Sprintf(" %dx", r.SimulatedSpeed))
	case r.Simulated:
		return Simulated
	case r.Profiling != nil && r.Profiling.Enabled:
		return Profiled
	}
	return Measured
}

// verdict sums up a record, and says whether its numbers may be shown beside
// others.
func verdict(r *result.Result) (Verdict, bool) {
	if r.Status == result.Unknown {
		return "not over", false
	}
	word := "not judged"
	if r.Validity != nil {
		word = string(r.Validity.Verdict)
	}
	if r.Status != result.Completed {
		word = string(r.Status) + ", " + word
	}
	usable := r.Validity != nil && r.Validity.Valid && (r.Status == result.Completed || r.Status == result.Partial)
	return Verdict(word), usable
}

// best reports whether a run may be called the best: valid, not only suspect.
func (e *Entry) best() bool { return e.Usable && e.run.Result.Validity.Verdict == result.VerdictValid }

// shown is the verdict with the kind, and whether another program measured.
func (e *Entry) shown() string {
	var words []string
	if e.Kind != Measured {
		words = append(words, string(e.Kind))
	}
	switch {
	case e.Foreign != "":
		words = append(words, "foreign")
	case e.Imported != "":
		words = append(words, "imported")
	}
	if words == nil {
		return string(e.Verdict)
	}
	return fmt.Sprintf("%s (%s)", e.Verdict, strings.Join(words, ", "))
}

// reason says why a run is not simply valid: its cause of failure, and the
// checks that failed.
func reason(r *result.Result) string {
	var parts []string
	if f := r.Failure; f != nil {
		s := "cause " + f.Cause
		if f.Line != "" {
			s += ": " + f.Line
		}
		parts = append(parts, s)
	}
	if v := r.Validity; v != nil && r.Status != result.Unknown {
		for _, c := range v.Checks {
			if c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect) {
				parts = append(parts, c.Word+": "+c.Detail)
			}
		}
	}
	return strings.Join(parts, "; ")
}

const allInOne = "all-in-one"

// groupOf is the values of a run for the keys; n/a where it has none.
func groupOf(run *Run, keys []string) []Setting {
	var by []Setting
	for _, key := range keys {
		v, ok := lookup(run.Settings, key)
		if !ok {
			v = "n/a"
		}
		by = append(by, Setting{key, v})
	}
	return by
}

// groupName names a group. Runs of different kinds are never in one.
func groupName(by []Setting, k Kind) string {
	name := allInOne
	if len(by) > 0 {
		parts := make([]string, len(by))
		for i, s := range by {
			parts[i] = s.String()
		}
		name = strings.Join(parts, " ")
	}
	if k != Measured {
		name += fmt.Sprintf(" (%s)", k)
	}
	return name
}
