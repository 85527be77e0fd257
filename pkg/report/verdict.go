package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/stats"
)

// MetricVerdict is one metric of two sets of runs. Percent are of the first's
// median; above 0 the second is larger.
type MetricVerdict struct {
	metric.Metric
	Verdict Outcome  `json:"verdict"`
	Why     string   `json:"why,omitempty"`
	Marks   []Mark   `json:"marks,omitempty"`
	First   Spread   `json:"first"`
	Second  Spread   `json:"second"`
	Percent *float64 `json:"shift_percent"` // Hodges-Lehmann
	Low     *float64 `json:"low_percent"`   // of the shift's interval
	High    *float64 `json:"high_percent"`
	// Coverage is the interval's, 0 to 1.
	Coverage     *float64 `json:"coverage,omitempty"`
	P            *float64 `json:"p"`             // Mann-Whitney's
	AdjustedP    *float64 `json:"adjusted_p"`    // of the test that decides, for all tests of the report
	PermutationP *float64 `json:"permutation_p"` // of the means
	// Answers stands in for runs where one accuracy is beside another: the same
	// questions were asked. P is then McNemar's.
	Answers    *PairedAnswers `json:"paired_answers,omitempty"`
	Floor      float64        `json:"floor_percent"` // smaller shifts do not matter
	RunsNeeded int            `json:"runs_needed,omitempty"`
	OutOfReach *Reach         `json:"out_of_reach,omitempty"` // RunsNeeded are too many; nil: they are not
	Paired     *Paired        `json:"paired,omitempty"`       // of Confirm: decides in the place of the above

	Lacks    string  `json:"-"` // which side has no number, "" if both have one
	estimate float64 // of the shift, in the metric's unit
}

// Reach is what the largest sensible number of runs would find.
type Reach struct {
	Runs    int     `json:"runs"`          // of each side, or pairs
	Percent float64 `json:"shift_percent"` // that they find four times of five
	CV      float64 `json:"cv_percent"`    // of the runs that exist
}

// PairedAnswers counts the questions of which two evaluations got only one right.
type PairedAnswers struct {
	Questions  int `json:"questions"`
	OnlyFirst  int `json:"only_first"`
	OnlySecond int `json:"only_second"`
}

// pairAnswers tests one evaluation against another, question by question; nil if they
// were not asked the same.
func pairAnswers(a, b []*records.Run) (*PairedAnswers, *float64, error) {
	if len(a) != 1 || len(b) != 1 || a[0].Result.Accuracy == nil || b[0].Result.Accuracy == nil {
		return nil, nil, nil
	}
	first, second := a[0].Result.Accuracy.Answers, b[0].Result.Accuracy.Answers
	lost, won, ok := first.Against(second)
	if !ok {
		return nil, nil, nil
	}
	p, err := stats.McNemar(lost, won)
	return &PairedAnswers{first.Questions, lost, won}, &p, err
}

// Spread is a metric of one set of runs.
type Spread struct {
	N      int      `json:"n"`
	Median *float64 `json:"median"`
	Low    *float64 `json:"low"` // of the median's interval
	High   *float64 `json:"high"`
	CV     *float64 `json:"cv_percent"`
}

// lacking is the verdict on a metric that a side has no number of.
func (j *Judgement) lacking(m metric.Metric) (*MetricVerdict, error) {
	first, second := j.Called()
	v := &MetricVerdict{Metric: m, Floor: m.Floor()}
	var without []string
	for _, side := range []struct {
		name string
		runs []*records.Run
		to   *Spread
	}{{first, j.a, &v.First}, {second, j.b, &v.Second}} {
		numbers := numbersOf(m, side.runs)
		if len(numbers) > 0 {
			var err error
			if *side.to, err = spread(numbers); err != nil {
				return nil, err
			}
			continue
		}
		word := " has none"
		if slices.ContainsFunc(side.runs, func(r *records.Run) bool { return m.Of(r.Result).Withheld }) {
			word = " has it withheld"
		}
		without = append(without, side.name+word)
	}
	v.Lacks = strings.Join(without, ", ")
	return v, nil
}

// newVerdict has the numbers of a metric and no verdict yet.
func newVerdict(m metric.Metric, a, b []float64) (*MetricVerdict, error) {
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
	v.estimate = shift.Estimate
	v.Percent, v.Low, v.High, v.Coverage = percents(shift)
	var few *stats.TooFewError
	switch t, err := stats.MannWhitney(a, b); {
	case err == nil:
		v.P = &t.P
	case !errors.As(err, &few):
		return nil, err
	}
	return v, nil
}

// percents are a shift, the ends of its interval and the interval's coverage, of the first's
// median; nil where there is none.
func percents(s stats.Shift) (shift, low, high, coverage *float64) {
	if s.Base <= 0 {
		return nil, nil, nil, nil
	}
	shift = new(s.Percent(s.Estimate))
	if i := s.Interval; i != nil {
		low, high, coverage = new(s.Percent(i.Low)), new(s.Percent(i.High)), &i.Coverage
	}
	return shift, low, high, coverage
}

// permute adds the test of the means, which is shown and decides nothing.
func (v *MetricVerdict) permute(a, b []float64) error {
	var few *stats.TooFewError
	switch t, err := stats.Permutation(a, b); {
	case err == nil:
		v.PermutationP = &t.P
	case !errors.As(err, &few) && !errors.Is(err, stats.ErrTooMany):
		return err
	}
	return nil
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

// usualRuns of each side are asked for where the noise is unknown: the
// fewest for which a median has an interval.
const usualRuns = 6

func (v *MetricVerdict) conclude(tests, later int) error {
	shift, low, high, p := v.Deciding()
	estimate := v.estimate
	if v.Paired != nil {
		estimate = v.Paired.estimate
	}
	beyond := shift != nil && math.Abs(*shift) > v.Floor
	switch {
	case v.Lacks != "":
		v.Verdict, v.Why = TooLittle, v.Lacks
		return nil
	case shift == nil && v.Paired != nil && v.Paired.N == 0:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, "no pair has it", stats.LeastPairs(later)
		return nil
	case shift == nil && p != nil && *v.AdjustedP <= stats.Alpha && estimate != 0:
		v.Verdict, v.Why = direction(v.Metric, estimate), "the first's median is 0, so no percentage can be given"
		return nil
	case shift == nil:
		v.Verdict, v.Why = TooLittle, "the first's median is 0"
		return nil
	case p == nil && v.Paired != nil:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, fmt.Sprintf("%d pairs: no test",
			v.Paired.N), stats.LeastPairs(later)
		return nil
	case p == nil && v.First.N == 1 && v.Second.N == 1:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, "one run per side: no test", usualRuns
		return nil
	case p == nil:
		v.Verdict, v.Why, v.RunsNeeded = TooLittle, fmt.Sprintf("%d v %d: no test", v.First.N, v.Second.N), usualRuns
		return nil
	case *v.AdjustedP <= stats.Alpha && beyond:
		v.Verdict = direction(v.Metric, *shift)
		return nil
	case v.Answers != nil:
		v.Verdict, v.RunsNeeded = TooLittle, usualRuns
		v.Why = fmt.Sprintf("%d questions: %d right only in the first, %d only in the second",
			v.Answers.Questions, v.Answers.OnlyFirst, v.Answers.OnlySecond)
		return nil
	case low != nil && max(-*low, *high) <= v.Floor:
		if v.Verdict = Same; *v.AdjustedP <= stats.Alpha {
			v.Why = fmt.Sprintf("differs, but by less than %g %%, which does not matter", v.Floor)
		}
		return nil
	}
	v.Verdict = TooLittle
	v.Why = fmt.Sprintf("the data neither show nor exclude a difference above %g %%", v.Floor)
	return v.need(tests)
}

// need says how many runs of each side detect a shift of the floor with 80 % power, given the
// noise of the existing runs, and whether that is out of reach.
func (v *MetricVerdict) need(tests int) error {
	least, most := max(usualRuns, stats.LeastRuns(tests)), stats.MostRuns
	if v.Paired != nil {
		least = max(stats.LeastPairs(tests), v.Paired.N+1)
	} else {
		n := min(v.First.N, v.Second.N)
		least, most = max(least, n+1), max(most, 2*n)
	}
	v.RunsNeeded = least
	cv := v.noise()
	if cv == nil {
		return nil
	}
	n, err := stats.RunsForShift(*cv, v.Floor)
	if err != nil {
		return err
	}
	if v.RunsNeeded = max(least, n); v.RunsNeeded <= most {
		return nil
	}
	shift, err := stats.LeastShift(*cv, most)
	v.OutOfReach = &Reach{Runs: most, Percent: shift, CV: *cv}
	return err
}

// noise is the CV of one run, in percent; nil if it is not known.
func (v *MetricVerdict) noise() *float64 {
	if v.Paired != nil {
		return v.Paired.CV
	}
	sum, sides := 0.0, 0.0
	for _, s := range []Spread{v.First, v.Second} {
		if s.CV != nil {
			sum, sides = sum+*s.CV**s.CV, sides+1
		}
	}
	if sides == 0 {
		return nil
	}
	return new(math.Sqrt(sum / sides))
}

// pvalues are those of all tests of a report: each counts for less the more there are.
type pvalues []struct {
	p   float64
	set func(adjusted float64)
}

func (t *pvalues) add(p float64, set func(adjusted float64)) {
	*t = append(*t, struct {
		p   float64
		set func(float64)
	}{p, set})
}

func (t pvalues) adjust() error {
	ps := make([]float64, len(t))
	for i, x := range t {
		ps[i] = x.p
	}
	adjusted, err := stats.BenjaminiHochberg(ps)
	if err != nil {
		return err
	}
	for i, x := range t {
		x.set(adjusted[i])
	}
	return nil
}

// direction says whether a change of a metric by that much is for the better.
func direction(m metric.Metric, change float64) Outcome {
	if m.Beats(change, 0) {
		return Improved
	}
	return Regressed
}
