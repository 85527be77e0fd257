package report

import (
	"errors"
	"slices"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/stats"
)

// Confirm is Pair of two tests whose runs alternated: the runs of one iteration are a
// pair, and the pairs decide. Phases of the same name belong together.
func Confirm(a, b []records.Run, metrics []metric.Metric) (*Report, error) {
	together := func(x, y set) bool { return x.phase == y.phase }
	return hold(sets(a), sets(b), question{metrics: metrics, pairs: true}, together)
}

// Paired is what pairs of runs say of a metric. Percent are of the first's median.
type Paired struct {
	N        int      `json:"n"`             // pairs
	Percent  *float64 `json:"shift_percent"` // the median of the pairs' differences
	Low      *float64 `json:"low_percent"`   // of its interval
	High     *float64 `json:"high_percent"`
	Coverage *float64 `json:"coverage,omitempty"`
	P        *float64 `json:"p"`             // of all choices of signs
	CV       *float64 `json:"cv_percent"`    // of one run, by how much the differences vary
	Finds    *float64 `json:"finds_percent"` // the shift that as many pairs find four times of five

	estimate float64 // of the shift, in the metric's unit
}

// Deciding are the shift in percent, the ends of its interval and the p by which the
// verdict is given.
func (v *MetricVerdict) Deciding() (shift, low, high, p *float64) {
	if x := v.Paired; x != nil {
		return x.Percent, x.Low, x.High, x.P
	}
	return v.Percent, v.Low, v.High, v.P
}

// partners keeps the runs that have one of the same iteration in the other set, and
// says which have none.
func partners(runs, others []*records.Run) (with []*records.Run, apart []LeftOut) {
	for _, r := range runs {
		if slices.ContainsFunc(others, func(o *records.Run) bool { return o.Case.Iteration == r.Case.Iteration }) {
			with = append(with, r)
		} else {
			apart = append(apart, LeftOut{r.Dir, "the other run of its pair is left out"})
		}
	}
	return with, apart
}

// apartPairs counts the pairs whose runs had other nodes.
func apartPairs(a, b []*records.Run) int {
	n := 0
	for _, x := range a {
		for _, y := range b {
			if x.Case.Iteration == y.Case.Iteration && !slices.Equal(x.Nodes(), y.Nodes()) {
				n++
			}
		}
	}
	return n
}

// paired is what the pairs say of a metric: those of which both runs have it.
func paired(m metric.Metric, a, b []*records.Run) (*Paired, error) {
	var first, second, differences []float64
	for _, x := range a {
		for _, y := range b {
			one, two := m.Of(x.Result).Number, m.Of(y.Result).Number
			if x.Case.Iteration == y.Case.Iteration && one != nil && two != nil {
				first, second, differences = append(first, *one), append(second, *two), append(differences, *two-*one)
			}
		}
	}
	p := &Paired{N: len(first)}
	if p.N == 0 {
		return p, nil
	}
	shift, err := stats.PairedShift(first, second)
	if err != nil {
		return nil, err
	}
	p.estimate = shift.Estimate
	p.Percent, p.Low, p.High, p.Coverage = percents(shift)
	if cv, err := stats.PairedCV(first, second); err == nil {
		p.CV = new(100 * cv)
		finds, err := stats.LeastShift(*p.CV, p.N)
		if err != nil {
			return nil, err
		}
		p.Finds = &finds
	}
	var few *stats.TooFewError
	switch t, err := stats.SignFlip(differences); {
	case err == nil:
		p.P = &t.P
	case !errors.As(err, &few):
		return nil, err
	}
	return p, nil
}
