package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
)

// Comparison is the runs of one group beside each other.
type Comparison struct {
	Group    string            `json:"group"`
	By       []records.Setting `json:"by,omitempty"`
	Kind     records.Kind      `json:"kind,omitempty"`
	Columns  []Column          `json:"columns"`
	Sections []Section         `json:"sections"`
	Apart    []string          `json:"apart,omitempty"` // labels of the group's runs that are not usable
}

// Column is one run of a comparison.
type Column struct {
	Name       string            `json:"name"`                 // unique in the report
	Label      string            `json:"label"`                // the difference as key=value …, or <group>.<index>
	Difference []records.Setting `json:"difference,omitempty"` // settings in which the group's runs differ
	Verdict    Verdict           `json:"verdict"`
	Dir        string            `json:"dir"`
}

// Section is one table of a comparison.
type Section struct {
	Name string `json:"name"`
	Axis string `json:"axis"`
	Rows []Row  `json:"rows"`
}

// Row is one metric; len(Values) == columns.
type Row struct {
	metric.Metric
	Values     []metric.Value `json:"values"`
	Difference *Difference    `json:"difference,omitempty"` // with exactly two columns
}

// Difference is the second value less the first, as every comparison has it. It says
// nothing about whether another pair of runs would differ as much.
type Difference struct {
	Absolute float64  `json:"absolute"`
	Percent  *float64 `json:"percent,omitempty"` // of the first; nil unless that is above 0
}

// sections of CloudAI's comparison.
var sections = []struct {
	name, axis string
	metrics    []metric.Metric
}{
	{"Latency", "Latency (ms)", slices.Concat(metric.TTFT, metric.TPOT)},
	{"Successful Prompts", "Prompts / %", []metric.Metric{metric.Successful, metric.SuccessShare}},
	{"Throughput", "Throughput", []metric.Metric{metric.Throughput, metric.PerUser, metric.PerGPU}},
	{"Quality", "Score", []metric.Metric{metric.Accuracy}},
}

func (r *Report) addComparisons(keys []string) {
	var order []string
	groups := map[string][]*Entry{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Group == "" || e.OfflineOnly() {
			continue
		}
		if groups[e.Group] == nil {
			order = append(order, e.Group)
		}
		groups[e.Group] = append(groups[e.Group], e)
	}
	for _, name := range order {
		r.Comparisons = append(r.Comparisons, compare(name, groupOf(groups[name][0].Run, keys), groups[name]))
	}
}

// compare puts the usable runs of a group beside each other.
func compare(name string, by []records.Setting, entries []*Entry) Comparison {
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
	runs := make([]*records.Run, len(shown))
	for i, e := range shown {
		runs[i] = e.Run
	}
	keys := records.Differing(runs)
	for i, e := range shown {
		col := Column{Name: e.Label, Verdict: e.Verdict, Dir: e.Dir}
		for _, k := range keys {
			if v, ok := e.Run.Settings[k]; ok {
				col.Difference = append(col.Difference, records.Setting{Key: k, Value: v})
			}
		}
		if col.Label = records.Join(col.Difference); col.Label == "" {
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

func newRow(m metric.Metric, runs []*records.Run) Row {
	row := Row{Metric: m}
	for _, r := range runs {
		row.Values = append(row.Values, m.Of(r.Result))
	}
	if len(runs) == 2 && runs[0].Result != nil && runs[1].Result != nil && redefined(m, runs) == "" {
		row.Difference = difference(row.Values[0], row.Values[1])
	}
	return row
}

// difference is nil unless both values are numbers.
func difference(a, b metric.Value) *Difference {
	if a.Number == nil || b.Number == nil {
		return nil
	}
	d := &Difference{Absolute: *b.Number - *a.Number}
	if *a.Number > 0 {
		d.Percent = new(d.Absolute / *a.Number * 100)
	}
	return d
}

// ErrNoPair is returned by Pair when no run of one side has a partner.
var ErrNoPair = errors.New("no run of the first has a partner in the second")

// Pair holds the second set of runs against the first, test by test. Where both
// sides have one run of a test the two are shown beside each other, else what their
// numbers prove is judged; metrics are what is judged, nil for the usual ones. Tests
// without a partner are notes. Simulated and measured runs are never compared.
func Pair(a, b []records.Run, metrics []metric.Metric) (*Report, error) {
	return PairNamed(a, b, metrics, Names{})
}

// PairNamed is Pair of two sets that have names.
func PairNamed(a, b []records.Run, metrics []metric.Metric, names Names) (*Report, error) {
	first, second := sets(a), sets(b)
	only := len(first) == 1 && len(second) == 1
	q := question{metrics: metrics, names: names}
	return hold(first, second, q, func(x, y set) bool { return only || x.name == y.name })
}

// Names are what two sets of runs are called, such as "H100" and "H200". Without a name a set is "the
// first" or "the second".
type Names struct{ First, Second string }

// orOrder are the names, or else the places.
func (n Names) orOrder() (first, second string) {
	return cmp.Or(n.First, "the first"), cmp.Or(n.Second, "the second")
}

// Called are the names of the two sides as a sentence has them.
func (j *Judgement) Called() (first, second string) {
	return Names{j.First.Name, j.Second.Name}.orOrder()
}

// hold judges the sets that belong together.
func hold(first, second []set, q question, together func(x, y set) bool) (*Report, error) {
	r := &Report{Schema: Schema, Without: []Part{PartStatus, PartPerTest, PartSweeps}}
	if q.asked = q.metrics != nil; !q.asked {
		q.metrics = metric.Usual
	}
	taken := map[string]bool{}
	one, two := q.names.orOrder()
	for _, x := range first {
		at := slices.IndexFunc(second, func(y set) bool { return together(x, y) })
		if at < 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: only in %s (%s)", x.title, one, x.runs[0].Dir))
			continue
		}
		y := second[at]
		taken[y.name] = true
		if err := r.pair(x, y, q); err != nil {
			return nil, err
		}
	}
	for _, y := range second {
		if !taken[y.name] {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: only in %s (%s)", y.title, two, y.runs[0].Dir))
		}
	}
	if len(r.Judgements) == 0 {
		return r, ErrNoPair
	}
	if err := conclude(r.Judgements, ProvenBy(slices.Concat(all(first), all(second)))); err != nil {
		return nil, err
	}
	if len(r.Comparisons) > 0 {
		r.Notes = append(r.Notes, oneBesideOne)
	}
	r.Notes = append(r.Notes, r.summary())
	r.answer()
	return r, nil
}

// all are the runs of sets.
func all(sets []set) []*records.Run {
	var runs []*records.Run
	for _, s := range sets {
		runs = append(runs, s.runs...)
	}
	return runs
}

func pointers(runs []records.Run) []*records.Run {
	list := make([]*records.Run, len(runs))
	for i := range runs {
		list[i] = &runs[i]
	}
	return list
}

// oneBesideOne cites NVIDIA/aicr#1197 and tenstorrent/tt-metal#55047.
const oneBesideOne = "significance is not tested: one run per side does not show how much either varies; " +
	"runs of one configuration differed by a CV of 0.1 to 0.33 % on a fixed machine " +
	"and of 20 % on a shared one, and at a CV of 2 % one pair in 13 differs by more than 5 %"

// set is the runs of a test: its iterations and repeats.
type set struct {
	name  string // as Case.String
	title string // as Case.Title
	phase string
	runs  []*records.Run
}

// sets parts runs by test, phase and step, in their order.
func sets(runs []records.Run) []set {
	var list []set
	for i := range runs {
		r := &runs[i]
		c := r.Case
		c.Iteration, c.Repeat = 0, 0
		at := slices.IndexFunc(list, func(s set) bool { return s.name == c.String() })
		if at < 0 {
			at, list = len(list), append(list, set{name: c.String(), title: c.Title(), phase: c.Phase})
		}
		list[at].runs = append(list[at].runs, r)
	}
	return list
}

// pair judges two sets, and shows them beside each other if they are of one run.
func (r *Report) pair(a, b set, q question) error {
	title := a.title
	if b.title != title {
		title += " and " + b.title
	}
	q.one = len(a.runs) == 1 && len(b.runs) == 1 && !q.pairs
	entries, err := sideBySide(a, b, q.one)
	if err != nil {
		return err
	}
	kind, err := oneKind(entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind.Simulated() {
			r.Simulated++
		}
		if q.one && !e.Best() {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is %s: %s", e.Dir, e.Verdict, e.Reason))
		}
		r.Runs = append(r.Runs, *e)
	}
	if q.one && sameRun(a.runs[0], b.runs[0]) {
		r.Notes = append(r.Notes, b.runs[0].Dir+" "+theSame)
	}
	j, err := judge(title, a.runs, b.runs, q)
	if err != nil {
		return err
	}
	r.Judgements = append(r.Judgements, *j)
	if q.one {
		for _, e := range entries {
			e.Usable = true // asked for by name: shown with its verdict
		}
		title := a.runs[0].Case.Title()
		if other := b.runs[0].Case.Title(); other != title {
			title += " and " + other
		}
		r.Comparisons = append(r.Comparisons, compare(title+kind.Suffix(), nil, entries))
	}
	return nil
}

// theSame is said of a run of the second side that is on the first side too.
const theSame = "is also a run of the first side, so nothing can differ"

// sameRun reports whether two runs are one, or one a copy of the other.
func sameRun(a, b *records.Run) bool {
	seen := records.Copies{}
	if a.Result == nil || b.Result == nil {
		return false
	}
	seen.Add(a)
	return seen.Has(b) != ""
}

// sideBySide are the runs of two sets, A1, A2 and so on against B1 and so on, or A
// against B.
func sideBySide(a, b set, one bool) ([]*Entry, error) {
	var entries []*Entry
	for i, s := range []set{a, b} {
		for k, run := range s.runs {
			if one && run.Result == nil {
				return nil, fmt.Errorf("%s: %s", run.Dir, run.Problem)
			}
			e := newEntry(run)
			if e.Label = string(rune('A' + i)); !one {
				e.Label += strconv.Itoa(k + 1)
			}
			entries = append(entries, &e)
		}
	}
	return entries, nil
}

// oneKind is the kind of the runs that have a record; several are an error.
func oneKind(entries []*Entry) (records.Kind, error) {
	first := entries[0]
	for _, e := range entries {
		if e.Run.Result == nil {
			continue
		}
		if first.Run.Result == nil {
			first = e
		}
		if first.Kind != e.Kind {
			return "", fmt.Errorf("%s is %s and %s is %s: they are never compared",
				first.Dir, first.Kind.Word(), e.Dir, e.Kind.Word())
		}
	}
	return first.Kind, nil
}

// Bad reports whether two sets of runs must not be taken as they are: the second got
// worse, they cannot be compared, or a side has no run that can be believed; or
// whether a series got worse at its end, or none has a run that can be believed.
func (r *Report) Bad() bool {
	return len(r.LeftOut) > 0 && len(r.Trends) == 0 ||
		slices.ContainsFunc(r.Trends, func(t Trend) bool { return t.Verdict == Regressed }) ||
		slices.ContainsFunc(r.Judgements, Judgement.bad)
}

func (j Judgement) bad() bool {
	return j.Verdict == Regressed || j.Verdict == NotComparable || len(j.First.Runs) == 0 || len(j.Second.Runs) == 0
}
