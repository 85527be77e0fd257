package search

import "math"

// Tail is the upper end of a sample of n latencies: two of its percentiles, between which
// ln(value) is taken to grow in proportion to -ln(1-rank/100), as in the tails of most.
type Tail struct {
	N             int
	Rank, Value   float64 // the percentile that has a limit
	Other, Beside float64 // and one beside it
}

// slope is by how much ln(value) grows when the share beyond it is e times smaller.
func (t Tail) slope() float64 {
	p, q := t.Rank/100, t.Other/100
	if t.N < 1 || !(p > 0 && p < 1 && q > 0 && q < 1) || p == q || !(t.Value > 0 && t.Beside > 0) {
		return 0
	}
	return math.Abs(math.Log(t.Value/t.Beside) / math.Log((1-q)/(1-p)))
}

// Noise is the standard deviation of ln(Value) between samples.
func (t Tail) Noise() float64 {
	slope := t.slope()
	if slope == 0 {
		return 0
	}
	p := t.Rank / 100
	return slope * math.Sqrt(p/((1-p)*float64(t.N)))
}

// Bias is how far ln(Value) is above that of the server's percentile, in the median of samples;
// mostly it is below 0. Clients interpolate between order statistics at rank*(n-1), and the k-th
// of n has a median rank of (k-1/3)/(n+1/3).
func (t Tail) Bias() float64 {
	slope := t.slope()
	if slope == 0 {
		return 0
	}
	p, n := t.Rank/100, float64(t.N)
	reached := (p*(n-1) + 1 - 1.0/3) / (n + 1.0/3)
	return slope * math.Log((1-p)/(1-reached))
}

// MeanNoise is the same of the mean of n values with a standard deviation.
func MeanNoise(n int, mean, sd float64) float64 {
	if n < 1 || !(mean > 0) {
		return 0
	}
	return sd / mean / math.Sqrt(float64(n))
}

// CountNoise is the same of a rate of n events.
func CountNoise(n int) float64 {
	if n < 1 {
		return 1
	}
	return 1 / math.Sqrt(float64(n))
}
