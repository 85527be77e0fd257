package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/stats"
)

// Trend is one series: the runs of a test that measure the same, in the order of
// time, metric by metric.
type Trend struct {
	Test    string            `json:"test"` // with phase
	Key     string            `json:"key"`  // of what the runs measure, or of the values asked for
	By      []records.Setting `json:"by,omitempty"`
	Kind    records.Kind      `json:"kind,omitempty"`
	Verdict Outcome           `json:"verdict"` // the worst of the metrics'
	Runs    int               `json:"runs"`
	Starts  int               `json:"starts"` // of the server: the points; runs of one start are one
	// Mixed are the GPUs or drivers, if the runs had several: mixed-hardware.
	Mixed []string `json:"mixed_hardware,omitempty"`
	// Before is what the series of the same test that ended last before this one began
	// had otherwise.
	Before  []Unlike      `json:"before,omitempty"`
	Metrics []MetricTrend `json:"metrics"`

	ByStart []Start `json:"-"` // the runs, the oldest start first
}

// MetricTrend is one metric of a series. Percent are of the median before a cut.
type MetricTrend struct {
	metric.Metric
	Verdict Outcome      `json:"verdict"` // of the last significant cut that matters
	Why     string       `json:"why,omitempty"`
	Marks   []Mark       `json:"marks,omitempty"`
	Floor   float64      `json:"floor_percent"`
	Level   Spread       `json:"level"` // since the last significant cut
	Points  []TrendPoint `json:"points"`
	Cuts    []TrendCut   `json:"cuts,omitempty"`
	// Autocorrelation is that of neighbours within the parts, -1 to 1.
	Autocorrelation float64 `json:"autocorrelation"`
	// StartsNeeded is how many points a change could be found in; 0: there are enough.
	StartsNeeded int `json:"starts_needed,omitempty"`
	// Redefined is why runs are no points: the metric meant something else in them.
	Redefined string `json:"redefined,omitempty"`
	// Lacking is how many starts have no number of it.
	Lacking int `json:"starts_without,omitempty"`

	behind int // of those, how many are newer than every point
}

// TrendPoint is one server start.
type TrendPoint struct {
	Time  time.Time `json:"time"` // of its first run
	Runs  []string  `json:"runs"` // directories
	Value float64   `json:"value"`

	start int
}

// TrendCut is where a series changed.
type TrendCut struct {
	Index     int      `json:"index"` // of the first point of the new part
	Verdict   Outcome  `json:"verdict"`
	Why       string   `json:"why,omitempty"`
	Marks     []Mark   `json:"marks,omitempty"`
	Percent   *float64 `json:"shift_percent"`
	Low       *float64 `json:"low_percent"`
	High      *float64 `json:"high_percent"`
	P         float64  `json:"p"`          // for all places that were searched
	AdjustedP float64  `json:"adjusted_p"` // for all series and metrics of the report
	// Differs is what the first run behind the cut had otherwise than the last before it.
	Differs   []Unlike `json:"differs,omitempty"`
	NotCausal bool     `json:"not_causal,omitempty"`

	estimate float64 // of the shift, in the metric's unit
}

// LeftOut is a run that is in no series, or is not compared.
type LeftOut struct {
	Dir string `json:"dir"`
	Why string `json:"why"`
}

// Start is the runs of one server start that measured the same.
type Start struct{ Runs []*records.Run }

// Trace puts runs into series and says where each changed. A series is the runs of a
// test with the same Key or, if by names settings, with the same values of those.
// Runs that are not valid are left out and listed; simulated ones too, unless no run
// is measured. metrics are what is looked at, nil for the usual ones.
func Trace(runs []records.Run, metrics []metric.Metric, by []string) (*Report, error) {
	r := &Report{Schema: Schema, Without: []Part{PartStatus, PartPerTest, PartComparison, PartSweeps}}
	asked := metrics != nil
	if !asked {
		metrics = metric.Usual
	}
	r.addEntries(runs, nil)
	series, leftOut := Series(pointers(runs), by)
	r.LeftOut = leftOut
	for _, t := range series {
		if err := t.measure(metrics, asked); err != nil {
			return nil, err
		}
		r.Trends = append(r.Trends, *t)
	}
	if err := concludeTrends(r.Trends, ProvenBy(pointers(runs))); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Trends, func(a, b Trend) int { return a.Verdict.rank() - b.Verdict.rank() })
	r.Notes = append(r.Notes, r.trendSummary())
	r.answer()
	return r, nil
}

// Series parts runs into series without numbers, in the order of their first runs, and
// lists the runs that are in none. The runs of a series are in the order of time.
func Series(runs []*records.Run, by []string) (series []*Trend, leftOut []LeftOut) {
	among := records.Simulated
	for _, run := range runs {
		if run.Result != nil && records.KindOf(run.Result) == records.Measured {
			among = records.Measured
		}
	}
	runs = slices.SortedStableFunc(slices.Values(runs), byTime)
	s := sorter{by: by, trends: map[string]*Trend{}, starts: map[string]int{}}
	seen := records.Copies{}
	for _, run := range runs {
		why := run.Unfit(among)
		switch {
		case why != "":
		case run.Began().IsZero():
			why = "no start time"
		default:
			why = seen.Has(run)
		}
		if why == "" {
			seen.Add(run)
			s.add(run)
			continue
		}
		switch {
		case run.NoJob != "":
			if run.Refusal != "" {
				why += ": " + run.Refusal
			}
		case run.Result == nil:
			why += ": " + run.Problem
		default:
			if more := reason(run.Result); more != "" {
				why += ": " + more
			}
		}
		leftOut = append(leftOut, LeftOut{run.Dir, why})
	}
	for i, t := range s.list {
		t.Before = before(t, s.list[:i])
	}
	return s.list, leftOut
}

func byTime(a, b *records.Run) int { return a.Began().Compare(b.Began()) }

// sorter puts runs into series, and those of one start of the server together.
type sorter struct {
	by     []string
	list   []*Trend
	trends map[string]*Trend // by what makes a series
	starts map[string]int    // in its series
}

func (s *sorter) add(run *records.Run) {
	c, key := records.Case{Test: run.Case.Test, Phase: run.Case.Phase}, run.Key()
	x := &Trend{Test: c.String(), Key: key, Kind: records.KindOf(run.Result)}
	if len(s.by) > 0 {
		x.By = groupOf(run, s.by)
		x.Key = records.Join(x.By)
	}
	id := fmt.Sprintf("%q %q %q %s", run.Case.Scenario, x.Test, x.Key, x.Kind)
	if have := s.trends[id]; have != nil {
		x = have
	} else {
		s.trends[id], s.list = x, append(s.list, x)
	}
	of := fmt.Sprintf("%s %q %s", id, run.ServerStart(), key)
	i, ok := s.starts[of]
	if !ok {
		i = len(x.ByStart)
		s.starts[of], x.ByStart = i, append(x.ByStart, Start{})
	}
	x.ByStart[i].Runs = append(x.ByStart[i].Runs, run)
	x.Runs, x.Starts = x.Runs+1, len(x.ByStart)
}

// before compares the beginning of a series with the end of the series of the same
// test that had the last run before it; nil if there is none.
func before(t *Trend, earlier []*Trend) []Unlike {
	first := t.ByStart[0].Runs[0]
	var last *records.Run
	for _, e := range earlier {
		if e.Test != t.Test {
			continue
		}
		for _, run := range e.All() {
			ended := run.Case.Scenario == first.Case.Scenario && run.Began().Before(first.Began())
			if ended && (last == nil || last.Began().Before(run.Began())) {
				last = run
			}
		}
	}
	if last == nil {
		return nil
	}
	return differences([]*records.Run{last}, []*records.Run{first})
}

// differences is everything in which two sets of runs differ, also what forbids to
// compare them.
func differences(a, b []*records.Run) []Unlike {
	refused, differs := unlike(a, b)
	return slices.Concat(refused, differs)
}

// measure finds the cuts of every metric that some run has, of the runs in which it
// means what it does in the newest. One that no run has is there if it was asked for.
func (t *Trend) measure(metrics []metric.Metric, asked bool) error {
	all := t.All()
	newest := slices.MaxFunc(all, byTime)
	t.Mixed = mixed(all)
	for _, m := range metrics {
		x, err := t.points(m, newest)
		if err != nil {
			return err
		}
		if len(x.Points) == 0 && !(asked && x.Redefined == "") {
			continue
		}
		if err := x.cut(); err != nil {
			return fmt.Errorf("%s: %s: %w", t.Test, m.Key, err)
		}
		t.Metrics = append(t.Metrics, *x)
	}
	return nil
}

// points takes the numbers of a metric from the starts in which it means what it does
// in the newest run.
func (t *Trend) points(m metric.Metric, newest *records.Run) (*MetricTrend, error) {
	x := &MetricTrend{Metric: m, Floor: m.Floor()}
	for i, s := range t.ByStart {
		numbers := numbersOf(m, s.Runs)
		if len(numbers) == 0 {
			x.Lacking++
			x.behind++
			continue
		}
		x.behind = 0
		if why := redefined(m, slices.Concat([]*records.Run{newest}, s.Runs)); why != "" {
			x.Redefined = why
			continue
		}
		value, err := stats.Median(numbers)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Runs[0].Dir, m.Key, err)
		}
		x.Points = append(x.Points, TrendPoint{Time: s.Runs[0].Began(), Runs: dirs(s.Runs), Value: value, start: i})
	}
	return x, nil
}

// All are the runs of the series.
func (t *Trend) All() []*records.Run { return t.runs(0, len(t.ByStart)) }

// runs are those of the starts of [from,to).
func (t *Trend) runs(from, to int) []*records.Run {
	var list []*records.Run
	for _, s := range t.ByStart[from:to] {
		list = append(list, s.Runs...)
	}
	return list
}

// dirs are the directories of runs.
func dirs(runs []*records.Run) []string {
	list := make([]string, len(runs))
	for i, r := range runs {
		list[i] = r.Dir
	}
	return list
}

// cut finds the change points; concludeTrends says what they mean.
func (x *MetricTrend) cut() error {
	if len(x.Points) == 0 {
		return nil
	}
	c, err := stats.ChangePoints(x.Values())
	if err != nil {
		return err
	}
	x.Autocorrelation = c.Autocorrelation
	for _, found := range c.Cuts {
		cut := TrendCut{Index: found.Index, P: found.SearchedP, estimate: found.Shift.Estimate}
		cut.Percent, cut.Low, cut.High, _ = percents(found.Shift)
		if found.Watch {
			cut.Verdict, cut.Why = Watch, fmt.Sprintf("neighbouring runs are correlated, autocorrelation %.2f",
				c.Autocorrelation)
		}
		x.Cuts = append(x.Cuts, cut)
	}
	return nil
}

// Values are the numbers of the points.
func (x *MetricTrend) Values() []float64 {
	list := make([]float64, len(x.Points))
	for i, p := range x.Points {
		list[i] = p.Value
	}
	return list
}

// concludeTrends judges every cut as one of all questions that were asked: each cut
// is one, and each metric of a series without a cut is one with a p of 1.
func concludeTrends(list []Trend, proof Proven) error {
	var all pvalues
	for i := range list {
		for k := range list[i].Metrics {
			x := &list[i].Metrics[k]
			if len(x.Points) == 0 {
				continue // nothing is asked of it
			}
			for c := range x.Cuts {
				cut := &x.Cuts[c]
				all.add(cut.P, func(p float64) { cut.AdjustedP = p })
			}
			if len(x.Cuts) == 0 {
				all.add(1, func(float64) {})
			}
		}
	}
	if err := all.adjust(); err != nil {
		return err
	}
	for i := range list {
		if err := list[i].conclude(len(all), proof); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trend) conclude(tests int, proof Proven) error {
	t.Verdict = NoChange
	if len(t.Metrics) == 0 {
		t.Verdict = TooLittle
	}
	for k := range t.Metrics {
		x := &t.Metrics[k]
		for c := range x.Cuts {
			t.explain(x, c, proof)
		}
		if err := x.conclude(tests); err != nil {
			return err
		}
		if len(t.Mixed) > 0 {
			x.Marks = append(x.Marks, MixedHardware)
		}
		t.Verdict = worst(t.Verdict, x.Verdict)
	}
	return nil
}

// explain gives a cut its verdict, and says what else changed there.
func (t *Trend) explain(x *MetricTrend, c int, proof Proven) {
	cut := &x.Cuts[c]
	cut.conclude(x)
	last, first := x.Points[cut.Index-1].start, x.Points[cut.Index].start
	cut.Differs = differences(t.ByStart[last].Runs, t.ByStart[first].Runs)
	cut.NotCausal = Causes(cut.Differs) > 1
	if cut.Verdict != Improved || x.Key == metric.Accuracy.Key {
		return
	}
	from, to := 0, len(x.Points)
	if c > 0 {
		from = x.Cuts[c-1].Index
	}
	if c+1 < len(x.Cuts) {
		to = x.Cuts[c+1].Index
	}
	if !proof.Covers(t.runs(x.Points[from].start, first), t.runs(first, x.Points[to-1].start+1)) {
		cut.Marks = append(cut.Marks, AccuracyUnchecked)
	}
}

// conclude says whether a cut is significant and whether it matters.
func (c *TrendCut) conclude(x *MetricTrend) {
	switch {
	case c.Verdict == Watch:
	case c.AdjustedP > stats.Alpha:
		c.Verdict, c.Why = Watch, "among this many series, one such change may be chance"
	case c.Percent == nil && c.estimate == 0:
		c.Verdict, c.Why = Watch, "the medians on both sides are 0"
	case c.Percent == nil:
		c.Verdict, c.Why = direction(x.Metric, c.estimate), "the median before it is 0, so no percentage can be given"
	case math.Abs(*c.Percent) <= x.Floor:
		c.Verdict, c.Why = Same, fmt.Sprintf("changed by less than %g %%, which does not matter", x.Floor)
	default:
		c.Verdict = direction(x.Metric, *c.Percent)
	}
}

// conclude takes the verdict of the last cut that matters.
func (x *MetricTrend) conclude(tests int) error {
	x.Verdict = NoChange
	from := 0
	for _, c := range x.Cuts {
		switch c.Verdict {
		case Regressed, Improved:
			x.Verdict, x.Why, x.Marks, from = c.Verdict, c.Why, slices.Clone(c.Marks), c.Index
		case Same:
			from = c.Index
		case Watch:
			if x.Verdict == NoChange {
				x.Verdict, x.Why = Watch, c.Why
			}
		}
	}
	if need := stats.LeastSeries(tests); x.Verdict == NoChange && len(x.Points) < need {
		x.Verdict, x.StartsNeeded = TooLittle, need
		x.Why = fmt.Sprintf("%s, but at least %d are needed to show a change (%d series tested)",
			quantity.Count(len(x.Points), "point"), need, tests)
	}
	if x.behind > 0 && x.Verdict != Regressed {
		x.Verdict, x.Why, x.Marks = TooLittle, "the newest "+quantity.Count(x.behind, "server start")+" lack it", nil
	}
	if len(x.Points) == 0 {
		x.Verdict, x.Why, x.StartsNeeded = TooLittle, "no run has it", 0
		return nil
	}
	var err error
	x.Level, err = spread(x.Values()[from:])
	return err
}

// trendSummary is the verdicts of all series in a line.
func (r *Report) trendSummary() string {
	count := map[Outcome]int{}
	for _, t := range r.Trends {
		for _, x := range t.Metrics {
			count[x.Verdict]++
		}
	}
	return fmt.Sprintf("%s in series, %d left out; metrics of %d series: %s",
		quantity.Count(len(r.Runs)-len(r.LeftOut), "run"), len(r.LeftOut), len(r.Trends), cmp.Or(tally(count), "none"))
}
