// Package report concludes from records what their numbers say: what every run did,
// runs beside each other, the points of a sweep, two sets of runs, series of runs. It
// reads no file and writes none; package format writes what is concluded.
//
// Verdicts and withheld numbers are the record's. A difference of two runs is a
// difference of two numbers; only Pair, given several runs of each side, says
// whether it is more than noise.
//
//	runs, err := records.Load("results/demo_2026-11-22_01-18-52")
//	rep := report.Build(runs, report.Options{})
//	err = format.Text(os.Stdout, rep)
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Schema is the version of the JSON form.
const Schema = "profllm.report/1"

// Options say what to show.
type Options struct {
	GroupBy   []string      // configuration keys whose values part the runs
	Objective metric.Metric // what makes a point of a sweep the best; default: output throughput
	Limits    []Limit       // within which the highest load is looked for
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
	Simulated   int          `json:"simulated"`         // runs of a simulated engine: no measurements
	Answers     []Answer     `json:"answers,omitempty"` // the sentences with which the report opens
	Runs        []Entry      `json:"runs"`
	Repeats     []Repeats    `json:"repeats,omitempty"`    // of Build
	Judgements  []Judgement  `json:"judgements,omitempty"` // of Pair
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Sweeps      []Sweep      `json:"sweeps,omitempty"`
	Phases      []Sweep      `json:"phases,omitempty"`   // of each run, those that differ in a setting
	Trends      []Trend      `json:"trends,omitempty"`   // of Trace
	LeftOut     []LeftOut    `json:"left_out,omitempty"` // of Trace
	Choices     []Choice     `json:"choices,omitempty"`  // of Build: what is ranked
	Changes     []Change     `json:"changes,omitempty"`  // of Build: between its groups
	Limits      []Limit      `json:"limits,omitempty"`
	Notes       []string     `json:"notes,omitempty"`

	Without []Part `json:"-"` // what was not asked for
}

// Entry is one run.
type Entry struct {
	Label   string       `json:"label"` // unique in the report
	Case    records.Case `json:"case"`
	Dir     string       `json:"dir"`
	RunID   string       `json:"run_id,omitempty"`
	Group   string       `json:"group,omitempty"`
	Verdict Verdict      `json:"verdict"`
	// Kind is set for numbers that are no measurements of the engine: such runs
	// are compared with their like only.
	Kind     records.Kind            `json:"kind,omitempty"`
	Imported string                  `json:"imported,omitempty"` // the program that measured, if it was another
	Usable   bool                    `json:"usable"`             // valid or suspect: may stand beside others
	Reason   string                  `json:"reason,omitempty"`
	Foreign  string                  `json:"foreign,omitempty"` // client whose files were found alone
	Metrics  map[string]metric.Value `json:"metrics,omitempty"`
	Settings map[string]string       `json:"settings,omitempty"`

	Run *records.Run `json:"-"` // what is summed up
}

// Verdict is a run's state in words: valid, suspect, invalid; before it
// "partial, ", "failed, ", "cancelled, " or "ended as planned, "; or why there is no judgement.
type Verdict string

// Build arranges runs. It does not keep the order of groups the caller gave, but
// that of their first runs.
func Build(runs []records.Run, o Options) *Report {
	if o.Objective.Key == "" {
		o.Objective = metric.Throughput
	}
	r := &Report{Schema: Schema, Without: o.Without, Limits: o.Limits}
	r.addEntries(runs, o.GroupBy)
	r.addRepeats()
	if r.Shows(PartComparison) {
		r.addComparisons(o.GroupBy)
	}
	if r.Shows(PartSweeps) {
		r.addSweeps(o.Objective, o.Limits)
		r.addPhases(o.Objective, o.Limits)
	}
	if len(o.Limits) > 0 && !slices.ContainsFunc(slices.Concat(r.Sweeps, r.Phases), Sweep.limited) {
		r.Notes = append(r.Notes, "no highest load within the limits: no sweep or phases vary max_concurrency or request_rate")
	}
	r.addChoices(o.Objective)
	if len(o.GroupBy) > 0 {
		r.addChanges(o.GroupBy)
	}
	r.answer()
	return r
}

// Shows reports whether a part was asked for.
func (r *Report) Shows(p Part) bool { return !slices.Contains(r.Without, p) }

func (r *Report) addEntries(runs []records.Run, groupBy []string) {
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
		if run.Remark != "" {
			r.Notes = append(r.Notes, run.Remark)
		}
		r.Runs = append(r.Runs, e)
	}
}

func newEntry(run *records.Run) Entry {
	e := Entry{Case: run.Case, Dir: run.Dir, Settings: run.Settings, Run: run}
	r := run.Result
	if r == nil {
		e.Verdict, e.Reason = "no record", run.Problem
		if run.NoJob != "" {
			e.Verdict, e.Reason = Verdict(run.NoJob), run.Refusal
		}
		return e
	}
	e.RunID, e.Kind, e.Reason = r.RunID, records.KindOf(r), reason(r)
	e.Imported = r.Provenance.From()
	if e.Verdict, e.Usable = verdict(r); r.Status == result.Unknown && run.NoJob != "" {
		e.Verdict, e.Reason = Verdict(run.NoJob), run.Refusal
	}
	if r.Provenance != nil {
		e.Foreign = r.Provenance.Foreign
	}
	e.Metrics = map[string]metric.Value{}
	for _, m := range metric.All {
		if v := m.Of(r); v != (metric.Value{}) {
			e.Metrics[m.Key] = v
		}
	}
	return e
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
		word = r.Status.String() + ", " + word
	}
	usable := r.Validity != nil && r.Validity.Valid && (r.Status == result.Completed || r.Status == result.Partial)
	return Verdict(word), usable
}

// Best reports whether a run may be called the best: valid, not only suspect.
func (e *Entry) Best() bool { return e.Usable && e.Run.Result.Validity.Verdict == result.VerdictValid }

// OfflineOnly reports whether a run has no numbers of a served load, so that it has
// nothing to show beside runs that have.
func (e *Entry) OfflineOnly() bool {
	r := e.Run.Result
	return r != nil && r.Results.Offline != nil && r.Results.CompletedRequests == nil
}

// reason says why a run is not simply valid: its cause of failure, and the
// checks that failed.
func reason(r *result.Result) string {
	var parts []string
	if r.Status == result.Ended {
		parts = append(parts, "the runs that it accompanied were over")
	}
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
func groupOf(run *records.Run, keys []string) []records.Setting {
	var by []records.Setting
	for _, key := range keys {
		v, ok := records.Lookup(run.Settings, key)
		if !ok {
			v = "n/a"
		}
		by = append(by, records.Setting{Key: key, Value: v})
	}
	return by
}

// groupName names a group. Runs of different kinds are never in one.
func groupName(by []records.Setting, k records.Kind) string {
	return cmp.Or(records.Join(by), allInOne) + k.Suffix()
}
