package report

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Judgement says what two sets of runs of the same test prove: by how much the
// second differs from the first, and whether that is more than noise.
type Judgement struct {
	Test    string  `json:"test"` // with phase and step
	Kind    Kind    `json:"kind,omitempty"`
	Verdict Outcome `json:"verdict"` // the worst of the metrics'
	First   Side    `json:"first"`   // what the second is held against
	Second  Side    `json:"second"`
	// NotComparable is why nothing is said of the numbers.
	NotComparable []Unlike `json:"not_comparable,omitempty"`
	Differs       []Unlike `json:"differs,omitempty"`
	// NotCausal is set if so much differs that a change has no one reason.
	NotCausal bool            `json:"not_causal,omitempty"`
	Metrics   []MetricVerdict `json:"metrics,omitempty"`
	// RunsNeeded is how many runs of each side would settle what is open; 0: nothing is.
	RunsNeeded int `json:"runs_needed,omitempty"`
	// Commands make the runs that are missing.
	Commands []string `json:"commands,omitempty"`

	a, b []*Run
}

// Outcome is a verdict in words.
type Outcome string

// The outcomes, worst first.
const (
	NotComparable Outcome = "not-comparable"
	Regressed     Outcome = "regressed"
	Improved      Outcome = "improved"
	TooLittle     Outcome = "too little data"
	Same          Outcome = "same within noise"
)

var outcomes = []Outcome{NotComparable, Regressed, Improved, TooLittle, Same}

// Side is one set of runs.
type Side struct {
	Runs []string `json:"runs"`          // directories
	Key  string   `json:"key,omitempty"` // of what they measure; runs of another are not like them
	Jobs int      `json:"jobs"`          // starts of the server that the runs shared
	// MedianRun is the directory of the run with the median throughput: the one to
	// look into, and to show, because medians of each field are of no run.
	MedianRun string   `json:"median_run,omitempty"`
	Apart     []string `json:"apart,omitempty"`    // directories of runs that are not compared, and why
	Accuracy  *Share   `json:"accuracy,omitempty"` // of a side of one run
}

// Share is an accuracy with what its questions alone say of its noise.
type Share struct {
	Value     float64  `json:"value"` // 0 to 1
	Questions int      `json:"questions"`
	Low       float64  `json:"low"` // Wilson's interval
	High      float64  `json:"high"`
	LeastDrop *float64 `json:"least_drop,omitempty"` // that another such run shows four times of five
}

// shareOf is nil unless a run says how many questions its accuracy is of.
func shareOf(r *Run) *Share {
	v := accuracy.Of(r.Result).Number
	if v == nil || r.Result.Accuracy.Questions == nil {
		return nil
	}
	s := &Share{Value: *v, Questions: *r.Result.Accuracy.Questions}
	i, err := stats.Wilson(int(math.Round(s.Value*float64(s.Questions))), s.Questions)
	if err != nil {
		return nil // no share of questions: the record's checks say so
	}
	s.Low, s.High = i.Low, i.High
	if d, err := stats.LeastDrop(s.Value, s.Questions); err == nil {
		s.LeastDrop = &d
	}
	return s
}

func (s *Share) String() string {
	text := fmt.Sprintf("%.4f of %d questions, 95 %% interval [%.4f, %.4f]", s.Value, s.Questions, s.Low, s.High)
	if s.LeastDrop != nil {
		text += fmt.Sprintf("; a drop below %.1f points is not seen with so many", 100**s.LeastDrop)
	}
	return text
}

// MetricVerdict is one metric of two sets of runs. Percent are of the first's
// median; above 0 the second is larger.
type MetricVerdict struct {
	Metric
	Verdict Outcome  `json:"verdict"`
	Why     string   `json:"why,omitempty"`
	First   Spread   `json:"first"`
	Second  Spread   `json:"second"`
	Percent *float64 `json:"shift_percent"` // Hodges-Lehmann
	Low     *float64 `json:"low_percent"`   // of the shift's interval
	High    *float64 `json:"high_percent"`
	// Coverage is the interval's, 0 to 1.
	Coverage     *float64 `json:"coverage,omitempty"`
	P            *float64 `json:"p"`             // Mann-Whitney's
	AdjustedP    *float64 `json:"adjusted_p"`    // for all tests of the report
	PermutationP *float64 `json:"permutation_p"` // of the means
	Floor        float64  `json:"floor_percent"` // smaller shifts do not matter
	RunsNeeded   int      `json:"runs_needed,omitempty"`
}

// Spread is a metric of one set of runs.
type Spread struct {
	N      int      `json:"n"`
	Median *float64 `json:"median"`
	Low    *float64 `json:"low"` // of the median's interval
	High   *float64 `json:"high"`
	CV     *float64 `json:"cv_percent"`
}

// judgedMetrics are those that are tested where nothing else is asked: few, because
// each further one makes the others harder to believe.
var judgedMetrics = []Metric{throughput, medianTTFT, p99TTFT, medianTPOT, p99TPOT, accuracy}

// accuracyFloor is in percent of the score: runs of one model differ by up to a
// point.
const accuracyFloor = 1.0

// Floor is the change, in percent, below which the metric's difference does not
// matter.
func (m Metric) Floor() float64 {
	if m.Key == accuracy.Key {
		return accuracyFloor
	}
	_, stat, ok := result.SplitKey(m.Key)
	if !ok {
		return stats.FloorThroughput
	}
	var rank float64
	if stat == "max" || stat == "std" {
		return stats.FloorTail
	}
	if _, err := fmt.Sscanf(stat, "p%g", &rank); err == nil && rank >= 90 {
		return stats.FloorTail
	}
	return stats.FloorMedian
}

// split parts the runs of a set into those that are compared and the others.
func split(runs []*Run, baseline bool) (good []*Run, s Side) {
	seen, jobs := map[string]bool{}, map[string]bool{}
	s.Runs = []string{}
	for _, r := range runs {
		why := ""
		switch e := newEntry(r); {
		case r.Result == nil, !e.Usable:
			why = fmt.Sprintf("%s: %s", e.Verdict, e.Reason)
		case baseline && !e.best():
			why = fmt.Sprintf("%s, and so no baseline: %s", e.Verdict, e.Reason)
		case baseline && e.Imported != "" && !r.Baseline:
			why = fmt.Sprintf("imported from %s, and so no baseline unless that is asked for", e.Imported)
		case r.Result.RunID != "" && seen[r.Result.RunID]:
			why = "a copy: its run id was seen before"
		}
		if why != "" {
			s.Apart = append(s.Apart, r.Dir+": "+why)
			continue
		}
		seen[r.Result.RunID], jobs[r.job] = true, true
		good = append(good, r)
		s.Runs = append(s.Runs, r.Dir)
	}
	if s.Jobs = len(jobs); len(good) > 0 {
		s.Key = good[0].Key()
	}
	if i := medianRun(good); i >= 0 {
		s.MedianRun = good[i].Dir
	}
	if len(good) == 1 {
		s.Accuracy = shareOf(good[0])
	}
	return good, s
}

// medianRun is the index of the run whose throughput is the median; -1 if no run has
// one.
func medianRun(runs []*Run) int {
	var values []float64
	var of []int
	for i, r := range runs {
		if v := throughput.Of(r.Result).Number; v != nil {
			values, of = append(values, *v), append(of, i)
		}
	}
	if i := stats.MedianRun(values); i >= 0 {
		return of[i]
	}
	return -1
}

// judge compares two sets of runs of one kind; conclude gives the verdicts. A suspect
// run is never part of what others are held against, but may stand beside one.
func judge(test string, a, b []*Run, metrics []Metric, one bool) (*Judgement, error) {
	j := &Judgement{Test: test, Kind: kindOf(a)}
	j.a, j.First = split(a, !one)
	j.b, j.Second = split(b, false)
	if len(j.a) == 0 || len(j.b) == 0 {
		return j, nil
	}
	if j.NotComparable, j.Differs = unlike(j.a, j.b); len(j.NotComparable) > 0 {
		return j, nil
	}
	j.NotCausal = causes(j.Differs) > 1
	for _, m := range metrics {
		v, err := newVerdict(m, numbersOf(m, j.a), numbersOf(m, j.b))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", test, m.Key, err)
		}
		if v != nil {
			j.Metrics = append(j.Metrics, *v)
		}
	}
	return j, nil
}

// kindOf is the kind of the first run with a record.
func kindOf(runs []*Run) Kind {
	for _, r := range runs {
		if r.Result != nil {
			return kind(r.Result)
		}
	}
	return Measured
}

func numbersOf(m Metric, runs []*Run) []float64 {
	var list []float64
	for _, r := range runs {
		if v := m.Of(r.Result).Number; v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// newVerdict has the numbers of a metric and no verdict yet; nil if a side has none.
func newVerdict(m Metric, a, b []float64) (*MetricVerdict, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	v := &MetricVerdict{Metric: m, Floor: m.Floor()}
	var err error
	if v.First, err = spread(a); err != nil {
		return nil, err
	}
	if v.Second, err = spread(b); err != nil {
		return nil, err
	}
	shift, err := stats.HodgesLehmann(a, b)
	if err != nil {
		return nil, err
	}
	if shift.Base != 0 {
		v.Percent = new(shift.Percent(shift.Estimate))
		if i := shift.Interval; i != nil {
			v.Low, v.High, v.Coverage = new(shift.Percent(i.Low)), new(shift.Percent(i.High)), &i.Coverage
		}
	}
	var few *stats.TooFewError
	switch t, err := stats.MannWhitney(a, b); {
	case err == nil:
		v.P = &t.P
	case !errors.As(err, &few):
		return nil, err
	}
	switch t, err := stats.Permutation(a, b); {
	case err == nil:
		v.PermutationP = &t.P
	case !errors.As(err, &few) && !errors.Is(err, stats.ErrTooMany):
		return nil, err
	}
	return v, nil
}

func spread(xs []float64) (Spread, error) {
	m, err := stats.Median(xs)
	if err != nil {
		return Spread{}, err
	}
	s := Spread{N: len(xs), Median: &m}
	if i, err := stats.MedianInterval(xs); err == nil {
		s.Low, s.High = &i.Low, &i.High
	}
	if cv, err := stats.CV(xs); err == nil {
		s.CV = new(100 * cv)
	}
	return s, nil
}

// conclude gives every metric its verdict. A metric is one of all tests that the
// report asks, so this comes last.
func conclude(list []Judgement) error {
	var ps []float64
	var of []*MetricVerdict
	for i := range list {
		for k := range list[i].Metrics {
			if v := &list[i].Metrics[k]; v.P != nil {
				ps, of = append(ps, *v.P), append(of, v)
			}
		}
	}
	adjusted, err := stats.BenjaminiHochberg(ps)
	if err != nil {
		return err
	}
	for i, v := range of {
		v.AdjustedP = &adjusted[i]
	}
	for i := range list {
		j := &list[i]
		if len(j.NotComparable) > 0 {
			j.Verdict = NotComparable
			continue
		}
		j.Verdict = Same
		if len(j.Metrics) == 0 {
			j.Verdict, j.RunsNeeded = TooLittle, usualRuns
		}
		for k := range j.Metrics {
			v := &j.Metrics[k]
			if err := v.conclude(len(ps)); err != nil {
				return err
			}
			j.RunsNeeded = max(j.RunsNeeded, v.RunsNeeded)
			if slices.Index(outcomes, v.Verdict) < slices.Index(outcomes, j.Verdict) {
				j.Verdict = v.Verdict
			}
		}
	}
	return nil
}

// usualRuns of each side are asked for where nothing is known of the noise: the
// fewest of which a median has an interval.
const usualRuns = 6

func (v *MetricVerdict) conclude(tests int) error {
	beyond := v.Percent != nil && math.Abs(*v.Percent) > v.Floor
	switch {
	case v.Percent == nil:
		v.Verdict, v.Why = TooLittle, "the first's median is 0"
		return nil
	case v.P == nil && v.First.N == 1 && v.Second.N == 1:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, "one v one: no test", usualRuns
		return nil
	case v.P == nil:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, fmt.Sprintf("%d v %d: no test", v.First.N, v.Second.N), usualRuns
		return nil
	case *v.AdjustedP <= stats.Alpha && beyond:
		if v.Verdict = Regressed; *v.Percent > 0 == (v.Better == Higher) {
			v.Verdict = Improved
		}
		return nil
	case v.Low != nil && max(-*v.Low, *v.High) <= v.Floor:
		if v.Verdict = Same; *v.AdjustedP <= stats.Alpha {
			v.Why = fmt.Sprintf("differs, by less than the %g %% that matter", v.Floor)
		}
		return nil
	}
	need, err := v.needed(tests)
	if err != nil {
		return err
	}
	v.Verdict, v.RunsNeeded = TooLittle, need
	v.Why = fmt.Sprintf("may differ by more than the %g %% that matter, or not", v.Floor)
	return nil
}

// needed is how many runs of each side find a shift of the floor four times of five,
// by the noise of those that there are.
func (v *MetricVerdict) needed(tests int) (int, error) {
	least := max(usualRuns, stats.LeastRuns(tests), min(v.First.N, v.Second.N)+1)
	sum, sides := 0.0, 0.0
	for _, s := range []Spread{v.First, v.Second} {
		if s.CV != nil {
			sum, sides = sum+*s.CV**s.CV, sides+1
		}
	}
	if sides == 0 {
		return least, nil
	}
	n, err := stats.RunsForShift(math.Sqrt(sum/sides), v.Floor)
	return max(least, n), err
}

// Missing is how many more runs each side needs.
func (j *Judgement) Missing() (first, second int) {
	if j.RunsNeeded == 0 {
		return 0, 0
	}
	return max(0, j.RunsNeeded-len(j.First.Runs)), max(0, j.RunsNeeded-len(j.Second.Runs))
}
