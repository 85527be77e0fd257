package stats

import (
	"fmt"
	"math"
	"slices"
)

// Interval is a range that holds the true value with a chance of at least 95 %.
type Interval struct {
	Low, High float64
	Coverage  float64 // the chance, 0 to 1; 0.95 where it is not exact
}

// Shift is by how much the second of two samples is larger than the first, in the
// unit of the values.
type Shift struct {
	Estimate float64
	Interval *Interval // nil: too little data for one
	Base     float64   // the median of the first sample
}

// Percent is the shift, or one end of its interval, in percent of the first
// sample's median; NaN if that is 0.
func (s Shift) Percent(x float64) float64 {
	if s.Base == 0 {
		return math.NaN()
	}
	return 100 * x / math.Abs(s.Base)
}

// HodgesLehmann is the median of all differences b-a, with the interval that
// Mann-Whitney's test does not refuse. Of fewer than 4 against 4 runs there
// is no interval.
func HodgesLehmann(a, b []float64) (Shift, error) {
	if err := check("a shift", 1, a, b); err != nil {
		return Shift{}, err
	}
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	s := Shift{Estimate: percentile(d, 0.5), Base: median(a)}
	if c, tail := rankCut(len(a), len(b)); c > 0 {
		s.Interval = &Interval{Low: d[c-1], High: d[len(d)-c], Coverage: 1 - 2*tail}
	}
	return s, nil
}

// PairedShift is the median of the differences b-a of pairs, with the interval of a
// median: what both of a pair have in common, such as the hour, is not in it.
// The samples are of the same length, in the order of the pairs.
func PairedShift(a, b []float64) (Shift, error) {
	d, err := differences("a shift of pairs", a, b)
	if err != nil {
		return Shift{}, err
	}
	s := Shift{Estimate: median(d), Base: median(a)}
	if i, err := MedianInterval(d); err == nil {
		s.Interval = &i
	}
	return s, nil
}

// PairedCV is the CV of one run, as a ratio, that explains how much the differences
// of at least two pairs vary: it is what LeastShift and RunsForShift ask for. Of a
// first sample whose median is 0 there is none: ErrRange.
func PairedCV(a, b []float64) (float64, error) {
	d, err := differences("a spread of pairs", a, b)
	if err != nil {
		return 0, err
	}
	sd, err := SD(d)
	if err != nil {
		return 0, err
	}
	m := median(a)
	if m == 0 {
		return 0, fmt.Errorf("%w: the median is 0", ErrRange)
	}
	return sd / math.Sqrt2 / math.Abs(m), nil
}

// differences are b-a of each pair.
func differences(what string, a, b []float64) ([]float64, error) {
	if err := check(what, 1, a, b); err != nil {
		return nil, err
	}
	if len(a) != len(b) {
		return nil, fmt.Errorf("%w: %d and %d values are not pairs", ErrRange, len(a), len(b))
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	return d, nil
}

// rankCut is the largest c with P(U <= c-1) <= 0.025 where values are all
// different, and that chance; 0 if there is none.
func rankCut(n, m int) (c int, tail float64) {
	if n*m > exactProduct {
		mu, sd := float64(n*m)/2, math.Sqrt(float64(n*m)*float64(n+m+1)/12)
		c = int(math.Floor(mu - 0.5 - z975*sd)) // of U <= c-1, with the term for continuity
		return c + 1, normal((float64(c) + 0.5 - mu) / sd)
	}
	return countedCut(n, m)
}

// countedCut is rankCut by counting.
func countedCut(n, m int) (c int, tail float64) {
	counts := untiedCounts(min(n, m), max(n, m))
	all, sum := choose(n+m, n), 0.0
	for _, k := range counts {
		if (sum+k)/all > Alpha/2 {
			break
		}
		sum += k
		c++
	}
	return c, sum / all
}

// MedianInterval is [x(d), x(n+1-d)] of the sorted values; of fewer than
// six runs there is none.
func MedianInterval(xs []float64) (Interval, error) {
	if err := check("an interval of a median", 6, xs); err != nil {
		return Interval{}, err
	}
	d, s := medianCut(len(xs)), sorted(xs)
	return Interval{s[d-1], s[len(s)-d], 1 - 2*atMost(d-1, len(s), 0.5)}, nil
}

// medianCut is the largest d with 1 - 2 P(Bin(n,1/2) <= d-1) >= 0.95; 0: none.
func medianCut(n int) int {
	d := 0
	for d < n/2 && 1-2*atMost(d, n, 0.5) >= 1-Alpha {
		d++
	}
	return d
}
