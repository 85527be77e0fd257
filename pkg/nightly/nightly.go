// Package nightly says what is new in the newest night of a scenario: which runs
// failed, are invalid, or left the range of the nights before.
//
// Its rule for numbers is one place, compare, and is a plain one: beyond a
// tolerance of the median of the last valid nights. It is no test of significance
// and says so by printing how many nights stand behind a median. The package
// reads no file and submits nothing.
package nightly

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// Schema is the value of a verdict's "schema" key.
const Schema = "profllm.nightly/1"

// metrics are what is compared, by their keys in result.json.
var metrics = []string{"output_throughput", "median_ttft_ms", "median_tpot_ms"}

// imageKey is the one setting that may differ between a night and its baselines:
// an image that got slower is what a night looks for.
const imageKey = "cmd_args.docker_image_url"

// Night is one execution of a scenario, all of its runs over.
type Night struct {
	Root    string
	Created time.Time
	Runs    []report.Run
}

// Options are how a night is judged. Nothing has a default.
type Options struct {
	Tolerance float64 // percent of the baseline
	Baselines int     // most nights behind a baseline
	// Failed tells a run that did not do what it should from one whose numbers
	// cannot be believed.
	Failed func(*result.Result) bool
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
	Nights   int     `json:"nights,omitempty"`   // behind the baseline
}

// String is the change in one line.
func (c Change) String() string {
	s := string(c.Kind) + " " + c.Test
	if c.Metric != "" {
		s += fmt.Sprintf(": %s %.4g %s, %+.1f %% against %.4g (median of %s)", c.Metric, c.Value, c.Unit, c.Percent, c.Baseline, count(c.Nights, "night"))
	}
	if c.Why != "" {
		s += ": " + c.Why
	}
	return strings.Join(strings.Fields(s+"  "+c.Dir), " ")
}

// Verdict is what is to be said of a night.
type Verdict struct {
	Schema   string    `json:"schema"` // profllm.nightly/1
	Scenario string    `json:"scenario"`
	Root     string    `json:"root"`
	Created  time.Time `json:"created"`
	Changes  []Change  `json:"changes"` // worst first
	Runs     int       `json:"runs"`
	Compared int       `json:"compared"` // numbers that had a baseline
	Nights   int       `json:"nights"`   // most nights behind one of them
	// Apart are runs without any comparison, and why.
	Apart     []string `json:"apart"`
	Tolerance float64  `json:"tolerance_percent"`
}

// Has reports whether something of that kind is new.
func (v Verdict) Has(k Kind) bool {
	return slices.ContainsFunc(v.Changes, func(c Change) bool { return c.Kind == k })
}

// String is the verdict in one line.
func (v Verdict) String() string {
	s := fmt.Sprintf("%s of %s: ", v.Scenario, v.Created.Local().Format("2006-01-02 15:04"))
	switch n := len(v.Changes); n {
	case 0:
		s += "nothing changed"
	case 1:
		s += "1 change"
	default:
		s += fmt.Sprintf("%d changes", n)
	}
	s += fmt.Sprintf("; %s", count(v.Runs, "run"))
	if v.Compared > 0 {
		s += fmt.Sprintf(", %s compared with the median of up to %s, tolerance %g %%", count(v.Compared, "number"), count(v.Nights, "night"), v.Tolerance)
	}
	if len(v.Apart) > 0 {
		s += fmt.Sprintf(", %d without comparison (%s)", len(v.Apart), v.Apart[0])
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Judge compares a night with the nights before it, newest first.
func Judge(night Night, before []Night, o Options) (Verdict, error) {
	v := Verdict{
		Schema: Schema, Root: night.Root, Created: night.Created, Runs: len(night.Runs), Changes: []Change{}, Apart: []string{}, Tolerance: o.Tolerance,
	}
	for i := range night.Runs {
		r := &night.Runs[i]
		if v.Scenario == "" {
			v.Scenario = r.Case.Scenario
		}
		earlier := sameCase(r, before)
		c := Change{Test: r.Case.String(), Dir: r.Dir}
		if c.Kind, c.Why = state(r, o); c.Kind == Failed || c.Kind == Invalid {
			v.Changes = append(v.Changes, c)
			continue
		}
		if was, now := lastState(earlier, o), c.Kind; now != was.kind || c.Why != was.why {
			switch {
			case now == Suspect:
				v.Changes = append(v.Changes, c)
			case was.kind == Failed || was.kind == Invalid:
				c.Kind, c.Why = Recovered, "was "+string(was.kind)+" the night before"
				v.Changes = append(v.Changes, c)
			}
		}
		if err := v.compare(r, earlier, o); err != nil {
			return v, err
		}
	}
	slices.SortStableFunc(v.Changes, func(a, b Change) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	return v, nil
}

// sameCase lists the runs of the same case in other nights, in their order.
func sameCase(r *report.Run, nights []Night) []*report.Run {
	var list []*report.Run
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
func state(r *report.Run, o Options) (Kind, string) {
	res := r.Result
	switch {
	case res == nil:
		return Failed, r.Problem
	case res.Status == result.Unknown:
		return Failed, "nobody knows what became of it"
	case o.Failed(res):
		if f := res.Failure; f != nil {
			return Failed, fmt.Sprintf("%s, cause %s (%s); %s", res.Status, f.Cause, f.Confidence, f.Next)
		}
		return Failed, string(res.Status)
	case res.Validity == nil:
		return Invalid, "nobody judged it"
	case !res.Validity.Valid:
		return Invalid, strings.Join(res.Validity.Words, ", ")
	case res.Validity.Verdict == result.VerdictSuspect:
		return Suspect, strings.Join(res.Validity.Words, ", ")
	}
	return "", ""
}

type past struct {
	kind Kind
	why  string
}

func lastState(earlier []*report.Run, o Options) past {
	if len(earlier) == 0 {
		return past{}
	}
	kind, why := state(earlier[0], o)
	return past{kind, why}
}

// compare adds the numbers of a run that left the range: the one place that says
// what a change of a number is.
func (v *Verdict) compare(r *report.Run, earlier []*report.Run, o Options) error {
	if why := unfit(r); why != "" && why != string(result.VerdictSuspect) {
		v.Apart = append(v.Apart, why)
		return nil
	}
	base := baselines(r, earlier, o.Baselines)
	if len(base) == 0 {
		v.Apart = append(v.Apart, "no valid night before with the same settings")
		return nil
	}
	for _, key := range metrics {
		m, err := report.FindMetric(key)
		if err != nil {
			return err
		}
		now := m.Of(r.Result).Number
		var values []float64
		for _, b := range base {
			if x := m.Of(b.Result).Number; x != nil {
				values = append(values, *x)
			}
		}
		if now == nil || len(values) == 0 || median(values) == 0 {
			continue
		}
		v.Compared++
		v.Nights = max(v.Nights, len(values))
		c := Change{
			Kind: Improved, Test: r.Case.String(), Dir: r.Dir, Metric: key, Unit: m.Unit, Value: *now, Baseline: median(values), Nights: len(values),
		}
		c.Percent = (c.Value - c.Baseline) / c.Baseline * 100
		if max(c.Percent, -c.Percent) <= o.Tolerance {
			continue
		}
		if c.Percent > 0 != (m.Better == report.Higher) {
			c.Kind = Regressed
		}
		c.Why = differences(r, base[0])
		v.Changes = append(v.Changes, c)
	}
	return nil
}

// unfit says why a run is no baseline, or "".
func unfit(r *report.Run) string {
	switch res := r.Result; {
	case res == nil:
		return "no record"
	case res.Simulated:
		return "simulated"
	case res.Status != result.Completed:
		return string(res.Status)
	case res.Validity == nil:
		return "not judged"
	case res.Validity.Verdict != result.VerdictValid:
		return string(res.Validity.Verdict)
	case res.Profiling != nil && res.Profiling.Enabled:
		return "profiled"
	}
	return ""
}

// baselines are the first n that may be compared with r.
func baselines(r *report.Run, earlier []*report.Run, n int) []*report.Run {
	var list []*report.Run
	for _, e := range earlier {
		if len(list) < n && unfit(e) == "" && maps.Equal(asked(r), asked(e)) {
			list = append(list, e)
		}
	}
	return list
}

// asked is what must be the same for two runs to be compared.
func asked(r *report.Run) map[string]string {
	s := maps.Clone(r.Settings)
	delete(s, imageKey)
	return s
}

// differences says where a run ran, and what was not the same as the last time.
func differences(r, last *report.Run) string {
	var parts []string
	now, was := surroundings(r), surroundings(last)
	for i, x := range now {
		switch {
		case x.value == "":
		case x.value != was[i].value && was[i].value != "":
			parts = append(parts, fmt.Sprintf("%s %s (the last time %s)", x.name, x.value, was[i].value))
		case x.name == "nodes":
			parts = append(parts, "nodes "+x.value)
		}
	}
	return strings.Join(parts, ", ")
}

type surrounding struct{ name, value string }

// surroundings lists what may make a number another, always the same names.
func surroundings(r *report.Run) []surrounding {
	var nodes, image, digest, engine, gpu, driver string
	if p := r.Result.Placement; p != nil {
		nodes = hostlist.Format(p.Nodes)
	}
	if p := r.Result.Provenance; p != nil {
		image, digest, engine = p.Image, p.ImageDigest, p.EngineVersion
	}
	if s := r.Result.System; s != nil && s.HardwareInfo != nil {
		gpu, driver = s.HardwareInfo.GPU, s.HardwareInfo.Driver
	}
	return []surrounding{{"nodes", nodes}, {"image", image}, {"digest", digest}, {"engine", engine}, {"GPU", gpu}, {"driver", driver}}
}

// median of at least one value; of an even number the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
