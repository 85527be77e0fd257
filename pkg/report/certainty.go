package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/records"
)

// weigh says how sure it is that the first candidate is the best. Each other is tested against
// it, as one of so many tests; what cannot be tested stays open.
func (c *Choice) weigh() {
	if c.Within == 0 || len(c.Unlike) > 0 {
		return
	}
	best := &c.Candidates[0]
	var tests pvalues
	for i := 1; i < c.Within; i++ {
		x := &c.Candidates[i]
		v, err := newVerdict(c.Metric, best.numbers(c.Metric), x.numbers(c.Metric))
		if err != nil {
			v = &MetricVerdict{Metric: c.Metric, Verdict: TooLittle, Why: err.Error(), First: best.Value, Second: x.Value}
		}
		if x.Against = v; v.P != nil {
			tests.add(*v.P, func(p float64) { v.AdjustedP = &p })
		}
	}
	adjusted := tests.adjust() == nil
	for i := 1; i < c.Within; i++ {
		if v := c.Candidates[i].Against; v.Verdict == "" && (!adjusted || v.conclude(len(tests), len(tests)) != nil) {
			v.Verdict = TooLittle
		}
		switch v := c.Candidates[i].Against; {
		case v.Verdict == Same:
			c.Ties = append(c.Ties, i)
		case v.near():
			c.Near = append(c.Near, i)
		case v.Verdict != Regressed:
			c.Open = append(c.Open, i)
		}
	}
	switch {
	case c.Within == 1:
		c.Certainty = Alone
	case len(c.Near) > 0:
		c.Certainty = NotSure
	case len(c.Ties) > 0:
		c.Certainty = Tie
	case len(c.Open) > 0:
		c.Certainty = NotSure
	default:
		c.Certainty = Shown
	}
}

// near reports whether the median of a candidate that is not shown to be worse differs from that of
// the best by no more than what matters.
func (v *MetricVerdict) near() bool {
	switch {
	case v.Verdict == Regressed:
		return false
	case v.Percent == nil:
		return *v.First.Median == *v.Second.Median
	}
	return math.Abs(*v.Percent) <= v.Floor
}

// Level are the places of the candidates that are named with the best: those that are shown to be as
// good, and those that are so near that the order says nothing.
func (c *Choice) Level() []int {
	list := slices.Concat(c.Ties, c.Near)
	slices.Sort(list)
	return list
}

// number is the number of a setting, if it is one.
func number(s records.Setting) (float64, bool) {
	v, err := strconv.ParseFloat(s.Value, 64)
	return v, err == nil && !math.IsNaN(v)
}
