package stats

import (
	"fmt"
	"math"
	"slices"
)

// Most values of which all labelings are counted. Lists of 2^18 sums are
// made for them, in some 25 ms.
const (
	MaxPermuted = 36 // both samples together
	MaxPairs    = 30
)

// tolerance is within which two sums are the same, as a share of the largest
// distance from the mean: an order of additions is no evidence.
const tolerance = 1e-9

// Permutation tests whether two means differ: the share of all ways to label the
// values whose difference is at least the observed. Sizes of which no
// outcome could pass Alpha are refused; of more than MaxPermuted values the answer
// is ErrTooMany.
func Permutation(a, b []float64) (Test, error) {
	const what = "a permutation test"
	if err := twoSamples(what, a, b); err != nil {
		return Test{}, err
	}
	n, all := len(a), slices.Concat(a, b)
	if len(all) > MaxPermuted {
		return Test{}, fmt.Errorf("%s of %d values: %w", what, len(all), ErrTooMany)
	}
	// Less the mean of all, the difference of means is a's sum times a constant.
	m, most, observed := mean(all), 0.0, 0.0
	for i := range all {
		all[i] -= m
		most = max(most, math.Abs(all[i]))
		if i < n {
			observed += all[i]
		}
	}
	limit := math.Abs(observed) - tolerance*most
	half := len(all) / 2
	first, second := sumsBySize(all[:half]), sumsBySize(all[half:])
	var extreme float64
	for k := max(0, n-(len(all)-half)); k <= min(n, half); k++ {
		extreme += float64(beyond(first[k], second[n-k], limit))
	}
	return Test{P: extreme / choose(len(all), n), U: uOf(a, b), Exact: true}, nil
}

func uOf(a, b []float64) float64 {
	u := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				u++
			case x == y:
				u += 0.5
			}
		}
	}
	return u
}

// SignFlip tests whether the mean of paired differences is not 0: the share of all
// 2^k choices of signs whose mean is at least as far from 0. Fewer than six
// pairs are refused, because none could pass Alpha; of more than MaxPairs the answer
// is ErrTooMany. The test's U is not set.
func SignFlip(differences []float64) (Test, error) {
	const what = "a test of pairs"
	if err := check(what, leastPairs, differences); err != nil {
		return Test{}, err
	}
	if len(differences) > MaxPairs {
		return Test{}, fmt.Errorf("%s of %d: %w", what, len(differences), ErrTooMany)
	}
	total, most := 0.0, 0.0
	for _, d := range differences {
		total += d
		most = max(most, math.Abs(d))
	}
	// Flipping a subset S leaves total - 2 S; halves are put together as sums of
	// signed values.
	half := len(differences) / 2
	limit := math.Abs(total) - tolerance*most
	extreme := beyond(signedSums(differences[:half]), signedSums(differences[half:]), limit)
	return Test{P: float64(extreme) / math.Exp2(float64(len(differences))), Exact: true}, nil
}

// leastPairs is the smallest k with 2^(1-k) below Alpha.
const leastPairs = 6

// LeastSignFlipP is the smallest p of a test of k pairs, 2^(1-k).
func LeastSignFlipP(k int) float64 { return min(1, math.Exp2(float64(1-k))) }

// LeastPairs is the smallest number of pairs whose test can pass Alpha even if it is
// the only one of so many tests that does: 6 of a single test.
func LeastPairs(tests int) int {
	k := leastPairs
	for LeastSignFlipP(k)*float64(max(tests, 1)) >= Alpha {
		k++
	}
	return k
}

// sumsBySize lists the sums of all subsets, each list sorted; sums[k] is of k
// values.
func sumsBySize(xs []float64) [][]float64 {
	sums := make([][]float64, len(xs)+1)
	sums[0] = []float64{0}
	for i, x := range xs {
		for k := i + 1; k > 0; k-- {
			sums[k] = merge(sums[k], sums[k-1], x)
		}
	}
	return sums
}

// signedSums lists the sums of all choices of signs, sorted.
func signedSums(xs []float64) []float64 {
	sums := []float64{0}
	for _, x := range xs {
		x = math.Abs(x)
		for i := range sums {
			sums[i] -= x
		}
		sums = merge(sums, sums, 2*x)
	}
	return sums
}

// merge puts two sorted lists together, the second with x added.
func merge(a, b []float64, x float64) []float64 {
	out := make([]float64, 0, len(a)+len(b))
	i := 0
	for _, s := range b {
		s += x
		for i < len(a) && a[i] <= s {
			out = append(out, a[i])
			i++
		}
		out = append(out, s)
	}
	return append(out, a[i:]...)
}

// beyond counts the pairs of two sorted lists whose sum is at least limit away
// from 0.
func beyond(a, b []float64, limit float64) int {
	if limit <= 0 {
		return len(a) * len(b)
	}
	count, high, low := 0, len(b), len(b)
	for _, x := range a { // as x grows, fewer of b are low and more are high
		for high > 0 && x+b[high-1] >= limit {
			high--
		}
		for low > 0 && x+b[low-1] > -limit {
			low--
		}
		count += len(b) - high + low
	}
	return count
}
