package report

import (
	"errors"
	"fmt"
	"strings"
)

// Comparison is the runs of one group beside each other.
type Comparison struct {
	Group    string    `json:"group"`
	By       []Setting `json:"by,omitempty"`
	Kind     Kind      `json:"kind,omitempty"`
	Columns  []Column  `json:"columns"`
	Sections []Section `json:"sections"`
	Apart    []string  `json:"apart,omitempty"` // labels of the group's runs that are not usable
}

// Column is one run of a comparison.
type Column struct {
	Name       string    `json:"name"`                 // unique in the report
	Label      string    `json:"label"`                // the difference as key=value …, or <group>.<index>
	Difference []Setting `json:"difference,omitempty"` // settings in which the group's runs differ
	Verdict    Verdict   `json:"verdict"`
	Dir        string    `json:"dir"`
}

// Section is one table of a comparison.
type Section struct {
	Name string `json:"name"`
	Axis string `json:"axis"`
	Rows []Row  `json:"rows"`
}

// Row is one metric; len(Values) == columns.
type Row struct {
	Metric
	Values     []Value     `json:"values"`
	Difference *Difference `json:"difference,omitempty"` // with exactly two columns
}

// Difference is the first value less the second. It says nothing about whether
// another pair of runs would differ as much.
type Difference struct {
	Absolute float64  `json:"absolute"`
	Percent  *float64 `json:"percent,omitempty"` // of the second; nil if that is 0
}

// sections of CloudAI's comparison.
var sections = []struct {
	name, axis string
	metrics    []Metric
}{
	{"Latency", "Latency (ms)", []Metric{meanTTFT, medianTTFT, p99TTFT, meanTPOT, medianTPOT, p99TPOT}},
	{"Successful Prompts", "Prompts / %", []Metric{successful, successShare}},
	{"Throughput", "Throughput", []Metric{throughput, perUser, perGPU}},
	{"Quality", "Score", []Metric{accuracy}},
}

func (r *Report) addComparisons(keys []string) {
	var order []string
	groups := map[string][]*Entry{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Group == "" {
			continue
		}
		if groups[e.Group] == nil {
			order = append(order, e.Group)
		}
		groups[e.Group] = append(groups[e.Group], e)
	}
	for _, name := range order {
		r.Comparisons = append(r.Comparisons, compare(name, groupOf(groups[name][0].run, keys), groups[name]))
	}
}

// compare puts the usable runs of a group beside each other.
func compare(name string, by []Setting, entries []*Entry) Comparison {
	c := Comparison{Group: name, By: by, Kind: entries[0].Kind}
	var shown []*Entry
	for _, e := range entries {
		if e.Usable {
			shown = append(shown, e)
		} else {
			c.Apart = append(c.Apart, e.Label)
		}
	}
	if len(shown) == 0 {
		return c
	}
	runs := make([]*Run, len(shown))
	for i, e := range shown {
		runs[i] = e.run
	}
	keys := differing(runs)
	for i, e := range shown {
		col := Column{Name: e.Label, Verdict: e.Verdict, Dir: e.Dir}
		for _, k := range keys {
			if v, ok := e.run.Settings[k]; ok {
				col.Difference = append(col.Difference, Setting{k, v})
			}
		}
		if col.Label = joined(col.Difference); col.Label == "" {
			col.Label = fmt.Sprintf("%s.%d", name, i)
		}
		c.Columns = append(c.Columns, col)
	}
	for _, s := range sections {
		section := Section{Name: s.name, Axis: s.axis}
		for _, m := range s.metrics {
			section.Rows = append(section.Rows, newRow(m, runs))
		}
		c.Sections = append(c.Sections, section)
	}
	return c
}

func joined(settings []Setting) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}

func newRow(m Metric, runs []*Run) Row {
	row := Row{Metric: m}
	for _, r := range runs {
		row.Values = append(row.Values, m.Of(r.Result))
	}
	if len(runs) == 2 {
		row.Difference = difference(row.Values[0], row.Values[1])
	}
	return row
}

// difference is nil unless both values are numbers.
func difference(a, b Value) *Difference {
	if a.Number == nil || b.Number == nil {
		return nil
	}
	d := &Difference{Absolute: *a.Number - *b.Number}
	if *b.Number != 0 {
		d.Percent = new(d.Absolute / *b.Number * 100)
	}
	return d
}

// ErrNoPair is returned by Pair when no run of one side has a partner.
var ErrNoPair = errors.New("no run of the first has a partner in the second")

// Pair compares two sets of runs: run with run where each has one, else each with
// the one of the same test, iteration and step. Runs without a partner are notes.
// Invalid runs are shown too, and said to be; simulated and measured ones are
// never compared.
func Pair(a, b []Run) (*Report, error) {
	r := &Report{Schema: Schema, without: []Part{PartStatus, PartPerTest, PartSweeps}}
	taken := map[int]bool{}
	for i := range a {
		j := partner(a[i], b, taken, len(a) == 1 && len(b) == 1)
		if j < 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: only in the first (%s)", a[i].Case, a[i].Dir))
			continue
		}
		taken[j] = true
		if err := r.pair(&a[i], &b[j]); err != nil {
			return nil, err
		}
	}
	for j := range b {
		if !taken[j] {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: only in the second (%s)", b[j].Case, b[j].Dir))
		}
	}
	if len(r.Comparisons) == 0 {
		return r, ErrNoPair
	}
	r.Notes = append(r.Notes, "no significance is claimed: one run beside one says nothing about how much either varies")
	return r, nil
}

func partner(x Run, among []Run, taken map[int]bool, only bool) int {
	for j := range among {
		same := among[j].Case.String() == x.Case.String()
		if !taken[j] && (same || only) {
			return j
		}
	}
	return -1
}

func (r *Report) pair(a, b *Run) error {
	entries := []*Entry{}
	for i, run := range []*Run{a, b} {
		if run.Result == nil {
			return fmt.Errorf("%s: %s", run.Dir, run.Problem)
		}
		e := newEntry(run)
		e.Label = string(rune('A' + i))
		entries = append(entries, &e)
	}
	if entries[0].Kind != entries[1].Kind {
		return fmt.Errorf("%s is %s and %s is %s: they are never compared", a.Dir, kindWord(entries[0].Kind), b.Dir, kindWord(entries[1].Kind))
	}
	for _, e := range entries {
		if e.Kind == Simulated {
			r.Simulated++
		}
		if !e.best() {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is %s: %s", e.Dir, e.Verdict, e.Reason))
		}
		r.Runs = append(r.Runs, *e)
		e.Usable = true // asked for by name: shown with its verdict
	}
	name := a.Case.String()
	if other := b.Case.String(); other != name {
		name += " and " + other
	}
	if k := entries[0].Kind; k != Measured {
		name += fmt.Sprintf(" (%s)", k)
	}
	r.Comparisons = append(r.Comparisons, compare(name, nil, entries))
	return nil
}

func kindWord(k Kind) string {
	if k == Measured {
		return "measured"
	}
	return string(k)
}

// Invalid reports whether a run of the report is not usable.
func (r *Report) Invalid() bool {
	for _, e := range r.Runs {
		if !e.Usable {
			return true
		}
	}
	return false
}
