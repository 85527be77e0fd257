// Package nightly finds what is new in the newest night of a scenario: which runs
// failed, are invalid, or left the range of the earlier nights.
//
// One function, compare, has the rule for numbers: a number has changed if its distance
// from the median of the last valid nights is large for their spread and larger than
// what matters. Act submits a night, under a
// lease, and compares the newest night that is over.
package nightly

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Schema is the value of a verdict's "schema" key.
const Schema = "profllm.nightly/1"

// metrics are what is compared, by their keys in result.json.
var metrics = []string{"output_throughput", "median_ttft_ms", "median_tpot_ms"}

// Night is one execution of a scenario, all of its runs over.
type Night struct {
	Root    string
	Created time.Time
	Runs    []records.Run
}

// Options are how a night is judged.
type Options struct {
	Tolerance *float64 // percent of the baseline that do not matter; nil: what each metric's floor is
	Baselines int      // most nights behind a baseline
}

// Kind is what is new about a run.
type Kind string

// The kinds, worst first.
const (
	Failed    Kind = "failed"
	Invalid   Kind = "invalid"
	Regressed Kind = "regressed"
	Suspect   Kind = "suspect" // and was not, for the same reason, the night before
	Recovered Kind = "recovered"
	Improved  Kind = "improved"
)

// Kinds that are not a change, of Verdict.Watch and Verdict.Checked.
const (
	Watch       Kind = "watch" // a number at the edge of what the nights before varied by
	Same        Kind = "same"
	NotCompared Kind = "not compared"
)

var kinds = []Kind{Failed, Invalid, Regressed, Suspect, Recovered, Improved}

// Change is one thing that is new.
type Change struct {
	Kind Kind   `json:"kind"`
	Test string `json:"test"` // with iteration and step, where it has them
	Dir  string `json:"dir"`
	Why  string `json:"why,omitempty"`

	Metric   string  `json:"metric,omitempty"` // key in result.json
	Unit     string  `json:"unit,omitempty"`
	Value    float64 `json:"value,omitempty"`
	Baseline float64 `json:"baseline,omitempty"` // median
	Percent  float64 `json:"percent,omitempty"`  // of the baseline
	Z        float64 `json:"z,omitempty"`        // distance from the baseline by the spread of its nights
	Nights   int     `json:"nights,omitempty"`   // behind the baseline
	// Marks say why an improvement counts for less.
	Marks []report.Mark `json:"marks,omitempty"`
}

// String is the change in one line.
func (c Change) String() string {
	s := string(c.Kind) + " " + c.Test
	if c.Metric != "" {
		s += fmt.Sprintf(": %s %.4g %s, %+.1f %% against %.4g (median of %s, z %+.1f)", c.Metric, c.Value, c.Unit,
			c.Percent, c.Baseline, quantity.Count(c.Nights, "night"), c.Z)
	}
	for _, m := range c.Marks {
		s += ", " + string(m)
	}
	if c.Why != "" {
		s += ": " + c.Why
	}
	if c.Dir != "" {
		s += " (" + c.Dir + ")"
	}
	return strings.Join(strings.Fields(s), " ")
}

// Verdict is the judgement on a night.
type Verdict struct {
	Schema   string    `json:"schema"` // profllm.nightly/1
	Scenario string    `json:"scenario"`
	Root     string    `json:"root"`
	Created  time.Time `json:"created"`
	Changes  []Change  `json:"changes"` // worst first
	// Watch are numbers at the edge of the range of the earlier nights. They are not
	// reported as changes, because one number in twenty gets that far by chance.
	Watch []Change `json:"watch"`
	// Checked is every run and every number that was checked, in order.
	Checked  []Change `json:"checked"`
	Runs     int      `json:"runs"`
	Compared int      `json:"compared"` // numbers that had a baseline
	Nights   int      `json:"nights"`   // most nights behind one of them
	// Apart are runs without any comparison, and why.
	Apart     []string `json:"apart"`
	Tolerance *float64 `json:"tolerance_percent,omitempty"` // instead of the metrics' floors
}

// Has reports whether something of that kind is new.
func (v Verdict) Has(k Kind) bool {
	return slices.ContainsFunc(v.Changes, func(c Change) bool { return c.Kind == k })
}

// String is the verdict in one line.
func (v Verdict) String() string {
	s := fmt.Sprintf("%s of %s: ", v.Scenario, v.Created.Local().Format("2006-01-02 15:04"))
	if n := len(v.Changes); n > 0 {
		s += quantity.Count(n, "change")
	} else {
		s += "nothing changed"
	}
	s += fmt.Sprintf("; %s", quantity.Count(v.Runs, "run"))
	if v.Compared > 0 {
		s += fmt.Sprintf(", %s compared with the median of up to %s", quantity.Count(v.Compared, "number"),
			quantity.Count(v.Nights, "night"))
		if v.Tolerance != nil {
			s += fmt.Sprintf(", tolerance %g %%", *v.Tolerance)
		}
	}
	if n := len(v.Watch); n > 0 {
		s += fmt.Sprintf(", %d to watch", n)
	}
	if len(v.Apart) > 0 {
		s += fmt.Sprintf(", %d without comparison (%s)", len(v.Apart), v.Apart[0])
	}
	return s
}

// Judge compares a night with the nights before it, newest first.
func Judge(night Night, before []Night, o Options) (Verdict, error) {
	v := Verdict{
		Schema: Schema, Root: night.Root, Created: night.Created, Runs: len(night.Runs), Changes: []Change{},
		Watch: []Change{}, Checked: []Change{}, Apart: []string{}, Tolerance: o.Tolerance,
	}
	var among []*records.Run
	for _, n := range append([]Night{night}, before...) {
		for i := range n.Runs {
			among = append(among, &n.Runs[i])
		}
	}
	proof := report.ProvenBy(among)
	for i := range night.Runs {
		r := &night.Runs[i]
		if v.Scenario == "" {
			v.Scenario = r.Case.Scenario
		}
		earlier := sameCase(r, before)
		c := Change{Test: r.Case.String(), Dir: r.Dir}
		c.Kind, c.Why = state(r)
		v.check(c)
		if c.Kind == Failed || c.Kind == Invalid {
			v.Changes = append(v.Changes, c)
			continue
		}
		if was, now := lastState(earlier), c.Kind; now != was.kind || c.Why != was.why {
			switch {
			case now == Suspect:
				v.Changes = append(v.Changes, c)
			case was.kind == Failed || was.kind == Invalid:
				c.Kind, c.Why = Recovered, "was "+string(was.kind)+" the night before"
				v.Changes = append(v.Changes, c)
			}
		}
		if err := v.compare(r, earlier, proof, o); err != nil {
			return v, err
		}
	}
	slices.SortStableFunc(v.Changes,
		func(a, b Change) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	return v, nil
}

// check keeps what was looked at.
func (v *Verdict) check(c Change) {
	if c.Kind == "" {
		c.Kind = Same
	}
	v.Checked = append(v.Checked, c)
}

// add keeps what was looked at, and whether it is a change.
func (v *Verdict) add(c Change) {
	v.check(c)
	switch c.Kind {
	case "":
	case Watch:
		v.Watch = append(v.Watch, c)
	default:
		v.Changes = append(v.Changes, c)
	}
}

// apart keeps why a run, or a number of it, has no comparison.
func (v *Verdict) apart(r *records.Run, why string) {
	v.Apart = append(v.Apart, why)
	v.check(Change{Kind: NotCompared, Test: r.Case.String(), Dir: r.Dir, Metric: "numbers", Why: why})
}

// sameCase lists the runs of the same case in other nights, in their order.
func sameCase(r *records.Run, nights []Night) []*records.Run {
	var list []*records.Run
	for _, n := range nights {
		for i := range n.Runs {
			if n.Runs[i].Case == r.Case {
				list = append(list, &n.Runs[i])
			}
		}
	}
	return list
}

// state is what a run is by itself: failed, invalid, suspect, or "".
func state(r *records.Run) (Kind, string) {
	res := r.Result
	switch {
	case res == nil:
		return Failed, r.Problem
	case res.Status == result.Ended: // with the runs that it accompanied: its numbers are compared with none
		return "", ""
	case res.Status == result.Unknown:
		return Failed, "what became of the job is unknown"
	case res.JobFailed():
		if f := res.Failure; f != nil {
			return Failed, fmt.Sprintf("%s, %s; %s", res.Status, f.OneLine(), f.Next)
		}
		return Failed, strings.TrimSuffix(fmt.Sprintf("%s: %s", res.Status,
			withFact(res.Validity, reasons(res.Validity, result.Invalid, result.Suspect))), ": ")
	case res.Validity == nil:
		return Invalid, "the run was not judged"
	case !res.Validity.Valid:
		why := withFact(res.Validity, reasons(res.Validity, result.Invalid))
		if f := res.Failure; f != nil && f.Line != "" && f.Confidence != result.NoCause {
			why += "; " + f.OneLine()
		}
		return Invalid, why
	case res.Validity.Verdict == result.VerdictSuspect:
		return Suspect, reasons(res.Validity, result.Suspect)
	}
	return "", ""
}

// Problems lists the runs that failed or are invalid, each by itself: no other night is
// looked at. Runs that are not over are left out.
func Problems(runs []records.Run) []Change {
	var list []Change
	for i := range runs {
		r := &runs[i]
		if r.Result == nil || r.Result.Status == result.Unknown {
			continue
		}
		if kind, why := state(r); kind == Failed || kind == Invalid {
			list = append(list, Change{Kind: kind, Test: r.Case.String(), Dir: r.Dir, Why: why})
		}
	}
	return list
}

// MostProblems is how many runs an event names: a chat message has a limit.
const MostProblems = 20

// ProblemsBelow has a line for each run in a folder that failed or is invalid, of a night or not:
// what happened, in which role and node, and the line of the log. It is for an event, which also
// says if the records cannot be read.
func ProblemsBelow(root string) (lines []string) {
	runs, err := records.Load(root)
	if err != nil {
		return []string{"what happened in the runs is not known: " + err.Error()}
	}
	problems := Problems(runs)
	for _, p := range problems[:min(len(problems), MostProblems)] {
		lines = append(lines, p.String())
	}
	if n := len(problems) - MostProblems; n > 0 {
		lines = append(lines, fmt.Sprintf("and %s: profllm why %s", quantity.Count(n, "other run"), root))
	}
	return lines
}

// withFact adds to the words of checks what the first that makes the result invalid found.
func withFact(v *result.Validity, words string) string {
	if v == nil {
		return words
	}
	for _, word := range v.Words {
		c := v.Check(word)
		if c == nil || c.Outcome != result.Fail || c.Severity != result.Invalid || c.Detail == "" {
			continue
		}
		if words != word {
			word = words + "; " + word
		}
		return word + ": " + c.Detail
	}
	return words
}

// reasons are the words of the checks that failed with one of these severities; none of a
// result that nobody judged.
func reasons(v *result.Validity, of ...result.Severity) string {
	if v == nil {
		return ""
	}
	words := slices.DeleteFunc(slices.Clone(v.Words), func(word string) bool {
		severe := func(c result.Check) bool {
			return c.Word == word && c.Outcome == result.Fail && slices.Contains(of, c.Severity)
		}
		return v.Check(word) != nil && !slices.ContainsFunc(v.Checks, severe)
	})
	return strings.Join(words, ", ")
}

type past struct {
	kind Kind
	why  string
}

func lastState(earlier []*records.Run) past {
	if len(earlier) == 0 {
		return past{}
	}
	kind, why := state(earlier[0])
	return past{kind, why}
}

// compare adds the numbers of a run that left the range: the one place that says
// what a change of a number is.
func (v *Verdict) compare(r *records.Run, earlier []*records.Run, proof report.Proven, o Options) error {
	if why := r.Unfit(records.Measured); why != "" && why != string(result.VerdictSuspect) {
		v.apart(r, why)
		return nil
	}
	base := baselines(r, earlier, o.Baselines)
	if len(base) == 0 {
		v.apart(r, "no earlier valid night with the same settings")
		return nil
	}
	var few *stats.TooFewError
	redefined := "" // why nights are no baseline of a number
	for _, key := range metrics {
		m, err := metric.Find(key)
		if err != nil {
			return err
		}
		now := m.Of(r.Result).Number
		values, why := before(base, r, m)
		if why != "" {
			redefined = key + ": " + why
		}
		if now == nil || len(values) == 0 {
			if why := lacking(now, values, redefined); why != "" {
				v.apart(r, key+": "+why)
			}
			continue
		}
		d, err := stats.NewRun(values, *now)
		switch {
		case errors.As(err, &few):
			continue
		case err != nil:
			return fmt.Errorf("%s: %s: %w", r.Dir, key, err)
		case d.Median == 0:
			continue
		}
		v.Compared++
		v.Nights = max(v.Nights, len(values))
		c := Change{
			Test: r.Case.String(), Dir: r.Dir, Metric: key, Unit: m.Unit, Value: *now, Baseline: d.Median,
			Percent: d.Percent, Z: d.Z, Nights: len(values),
		}
		if c.Kind = changed(m, d, o.Tolerance); c.Kind != "" {
			c.Why = differences(r, base[0])
		}
		if c.Kind == Improved && !proof.Covers(base, []*records.Run{r}) {
			c.Marks = []report.Mark{report.AccuracyUnchecked}
		}
		v.add(c)
	}
	if redefined != "" {
		v.apart(r, redefined)
	}
	if few != nil {
		v.apart(r, fmt.Sprintf("too little data: %d of the %d valid nights that a baseline needs", few.Have, few.Need))
	}
	return nil
}

// before are the values of a number in the nights before. redefined says why nights are no
// baseline of it, "" if all are.
func before(base []*records.Run, r *records.Run, m metric.Metric) (values []float64, redefined string) {
	for _, b := range base {
		if why := result.Redefined(m.Key, r.Result.MetricsVersion, b.Result.MetricsVersion); why != "" {
			redefined = why
		} else if x := m.Of(b.Result).Number; x != nil {
			values = append(values, *x)
		}
	}
	return values, redefined
}

// lacking says which side has no number to compare; "" if neither has one, or the nights
// before meant something else by it.
func lacking(now *float64, before []float64, redefined string) string {
	switch {
	case now == nil && len(before) > 0:
		return "this night has no value, or the value is withheld"
	case now != nil && len(before) == 0 && redefined == "":
		return "no earlier night has a value"
	}
	return ""
}

// changed says what a distance from the baseline is, "" if it is nothing.
func changed(m metric.Metric, d stats.Distance, tolerance *float64) Kind {
	floor := m.Floor()
	if tolerance != nil {
		floor = *tolerance
	}
	switch far := d.Far(); {
	case far == stats.Watch:
		return Watch
	case far == stats.Ok, max(d.Percent, -d.Percent) <= floor:
		return ""
	case d.Percent > 0 != (m.Better == metric.Higher):
		return Regressed
	}
	return Improved
}

// baselines are the first n that may be compared with r.
func baselines(r *records.Run, earlier []*records.Run, n int) []*records.Run {
	var list []*records.Run
	for _, e := range earlier {
		if len(list) < n && e.Unfit(records.Measured) == "" && r.Key() == e.Key() {
			list = append(list, e)
		}
	}
	return list
}

// differences says where a run ran, and what was not the same as the last time.
func differences(r, last *records.Run) string {
	var parts []string
	now, was := r.Surroundings(), last.Surroundings()
	for i, x := range now {
		switch {
		case x.Value == "":
		case x.Value != was[i].Value && was[i].Value != "":
			parts = append(parts, fmt.Sprintf("%s %s (previously %s)", x.Key, x.Value, was[i].Value))
		case x.Key == "nodes":
			parts = append(parts, "nodes "+x.Value)
		}
	}
	return strings.Join(parts, ", ")
}
