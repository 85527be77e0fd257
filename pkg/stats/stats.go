// Package stats says what the numbers of a few runs prove: spread, tests,
// intervals, change points.
//
// The unit is the run: a value is one run's number, never one request's. Every
// answer is exact or has a closed form; nothing is drawn at random, so the same
// values give the same answer everywhere. The package knows no metric, no record
// and no file. What too little data cannot answer is a *TooFewError.
//
//	t, err := stats.MannWhitney(old, new)
//	s, err := stats.HodgesLehmann(old, new) // new less old
//	fmt.Printf("%+.2f [%+.2f, %+.2f], p %.3g\n", s.Estimate, s.Interval.Low, s.Interval.High, t.P)
//
// Functions keep their arguments as they are and are safe for concurrent use.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Alpha is the risk of a false alarm that a test or an interval takes.
const Alpha = 0.05

// Quantiles of the standard normal distribution.
const (
	z975 = 1.959963984540054 // 97.5 %
	z80  = 0.8416212335729143
)

// TooFewError says that a question needs more runs than there are.
type TooFewError struct {
	What string // such as "a Mann-Whitney test"
	Have int    // on the smaller side, where there are two
	Need int    // the fewest, on each side where there are two
}

// Error implements error.
func (e *TooFewError) Error() string {
	return fmt.Sprintf("too little data: %s needs %d, have %d", e.What, e.Need, e.Have)
}

// ErrNotFinite is returned for a value that is NaN or infinite.
var ErrNotFinite = errors.New("a value is not finite")

// ErrRange is returned for a parameter outside of its range.
var ErrRange = errors.New("a parameter is out of range")

// ErrTooMany is returned where an exact answer would take too long to count.
var ErrTooMany = errors.New("too many labelings to count them all")

// check refuses samples that are too small or not finite.
func check(what string, need int, samples ...[]float64) error {
	for _, xs := range samples {
		if len(xs) < need {
			return &TooFewError{what, len(xs), need}
		}
		for _, x := range xs {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return ErrNotFinite
			}
		}
	}
	return nil
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x / float64(len(xs)) // the sum itself may overflow
	}
	return sum
}

// SD is the standard deviation with n-1, of at least two values.
func SD(xs []float64) (float64, error) {
	if err := check("a standard deviation", 2, xs); err != nil {
		return 0, err
	}
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)-1)), nil
}

// CV is the coefficient of variation, SD over the mean's size, as a ratio.
// Of a mean of 0 there is none: ErrRange.
func CV(xs []float64) (float64, error) {
	sd, err := SD(xs)
	if err != nil {
		return 0, err
	}
	m := mean(xs)
	if m == 0 {
		return 0, fmt.Errorf("%w: the mean is 0", ErrRange)
	}
	return sd / math.Abs(m), nil
}

// Percentile is numpy's default, "linear": rank (n-1)p with p of 0 to 1, between
// two values in proportion. Print n beside it.
func Percentile(xs []float64, p float64) (float64, error) {
	if err := check("a percentile", 1, xs); err != nil {
		return 0, err
	}
	if !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%w: percentile %g of 0 to 1", ErrRange, p)
	}
	return percentile(sorted(xs), p), nil
}

func percentile(sorted []float64, p float64) float64 {
	rank := p * float64(len(sorted)-1)
	i := int(rank)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	// numpy counts from the nearer end, so that both ends are met exactly.
	low, high, t := sorted[i], sorted[i+1], rank-float64(i)
	if t >= 0.5 {
		return high - (high-low)*(1-t)
	}
	return low + (high-low)*t
}

// PercentileFromBelow is Percentile of values that are sorted, and 0 of none. It
// always counts from the lower of the two values between which the rank lies, so the
// last bits differ from numpy's.
func PercentileFromBelow(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := float64(len(sorted)-1) * p
	below := math.Floor(rank)
	i := int(below)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*(rank-below)
}

// Median is the percentile 0.5.
func Median(xs []float64) (float64, error) { return Percentile(xs, 0.5) }

// MiddleMean is numpy's median: half the sum of the two values in the middle, which
// are the same value if their number is odd. In its last bits it differs from Median.
// There must be a value.
func MiddleMean(xs []float64) float64 {
	s := sorted(xs)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// UpperMedian is the value in the middle or, of an even number, the higher of the
// middle two, so that it is always one of the values. There must be a value.
func UpperMedian(xs []float64) float64 { return sorted(xs)[len(xs)/2] }

func median(xs []float64) float64 { return percentile(sorted(xs), 0.5) }

func sorted(xs []float64) []float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return s
}

// MedianRun is the index of the run whose value is the median or, of an even
// number, the lower of the middle two; the first of equals. It is -1 of
// none. A median of each field alone would be of no run that ever was.
func MedianRun(xs []float64) int {
	if len(xs) == 0 {
		return -1
	}
	return slices.Index(xs, sorted(xs)[(len(xs)-1)/2])
}

// MAD is the median of the distances from the median, not scaled.
func MAD(xs []float64) (float64, error) {
	if err := check("a median distance", 1, xs); err != nil {
		return 0, err
	}
	m, d := median(xs), make([]float64, len(xs))
	for i, x := range xs {
		d[i] = math.Abs(x - m)
	}
	return median(d), nil
}

// lag1 is the autocorrelation of deviations.
func lag1(d []float64) float64 {
	var product, square float64
	for i, x := range d {
		square += x * x
		if i > 0 {
			product += x * d[i-1]
		}
	}
	if square == 0 {
		return 0
	}
	return product / square
}

// normal is the standard normal distribution's P(Z <= z).
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// atMost is P(Bin(n,p) <= k) of 0 < p < 1.
func atMost(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	if 2*k > n { // the shorter sum, and the more exact one
		return 1 - atMost(n-k-1, n, 1-p)
	}
	all, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(i) + 1)
		b, _ := math.Lgamma(float64(n-i) + 1)
		sum += math.Exp(all - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(1, sum)
}

// choose is the number of subsets of k of n, exact up to 2^53.
func choose(n, k int) float64 {
	k = min(k, n-k)
	c := 1.0
	for i := 1; i <= k; i++ {
		c = c * float64(n-k+i) / float64(i)
	}
	return c
}
