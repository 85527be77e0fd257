package stats

import (
	"math"
	"slices"
	"sync"
)

// exactProduct is the largest n·m of two samples whose rank sums are counted one
// by one; above it the normal approximation stands.
const exactProduct = 2500

// Test is the answer of a test.
type Test struct {
	P     float64 // two-sided, 0 to 1
	U     float64 // Mann-Whitney's, of the first sample: pairs in which it is larger, ties half
	Exact bool    // all labelings were counted
}

// LeastP is the smallest p that a rank test of n against m values can have,
// 2/C(n+m,n). A permutation test has the same of equal sizes.
func LeastP(n, m int) float64 {
	if n < 1 || m < 1 {
		return 1
	}
	return min(1, 2/choose(n+m, n))
}

// LeastRuns is the smallest n of n against n runs whose test can pass Alpha even
// if it is the only one of so many tests that does: 4 of a single test.
func LeastRuns(tests int) int {
	n := 2
	for LeastP(n, n)*float64(max(tests, 1)) >= Alpha {
		n++
	}
	return n
}

// MannWhitney tests whether values of one sample tend to be larger than those of
// the other, by midranks. Sizes of which no outcome could pass Alpha, such
// as 3 against 3, are refused.
func MannWhitney(a, b []float64) (Test, error) {
	if err := twoSamples("a Mann-Whitney test", a, b); err != nil {
		return Test{}, err
	}
	return mannWhitney(a, b), nil
}

// twoSamples refuses samples that a test of all labelings could tell nothing of.
func twoSamples(what string, a, b []float64) error {
	if err := check(what, 1, a, b); err != nil {
		return err
	}
	if LeastP(len(a), len(b)) >= Alpha {
		return &TooFewError{what, min(len(a), len(b)), LeastRuns(1)}
	}
	return nil
}

func mannWhitney(a, b []float64) Test {
	n, m := len(a), len(b)
	ranks, ties := midranks(a, b)
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	t := Test{U: float64(sum-n*(n+1)) / 2}
	if t.Exact = n*m <= exactProduct; t.Exact && ties == 0 {
		t.P = untiedP(n, m, sum/2)
		return t
	} else if t.Exact {
		t.P = rankP(ranks, n, sum)
		return t
	}
	mu, all := float64(n*m)/2, float64(n+m)
	variance := float64(n*m) / 12 * (all + 1 - ties/(all*(all-1)))
	if variance <= 0 {
		t.P = 1
		return t
	}
	z := max(0, math.Abs(t.U-mu)-0.5) / math.Sqrt(variance)
	t.P = min(1, 2*normal(-z))
	return t
}

// midranks are twice the ranks of all values, a's first; ties is the sum of t³-t.
func midranks(a, b []float64) (ranks []int, ties float64) {
	all := slices.Concat(a, b)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case all[i] < all[j]:
			return -1
		case all[i] > all[j]:
			return 1
		}
		return 0
	})
	ranks = make([]int, len(all))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && all[order[j]] == all[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = i + 1 + j // twice the mean of i+1 .. j
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}

// untied keeps the null distributions of small samples without ties, some 2 MB at
// most: they depend on the two sizes only, and a long series asks for the same ones
// again and again.
var untied sync.Map // [2]int of sizes, the smaller first, to []float64

const keptProduct = 400

// untiedCounts counts the sets of n of the ranks 1 to n+m by their sum, n <= m:
// counts[i] sets have the sum n(n+1)/2 + i. Callers do not change them.
func untiedCounts(n, m int) []float64 {
	if c, ok := untied.Load([2]int{n, m}); ok {
		return c.([]float64)
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	counts, _ := rankSums(ranks, n)
	if n*m <= keptProduct {
		untied.Store([2]int{n, m}, counts)
	}
	return counts
}

// untiedP is rankP of values that are all different; sum is of a's n ranks.
func untiedP(n, m, sum int) float64 {
	if m < n {
		n, m, sum = m, n, (n+m)*(n+m+1)/2-sum
	}
	counts, at := untiedCounts(n, m), sum-n*(n+1)/2
	tail := 0.0
	for _, c := range counts[:min(at, len(counts)-1-at)+1] { // the counts are symmetric
		tail += c
	}
	return min(1, 2*tail/choose(n+m, n))
}

// rankP is min(1, 2 min(P(S <= sum), P(S >= sum))) of the sum S of n of the doubled
// ranks, each set of n as likely as another.
func rankP(ranks []int, n, sum int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	if m := len(ranks) - n; m < n {
		n, sum = m, total-sum // the other side says the same, and is less work
	}
	counts, least := rankSums(ranks, n)
	var below, above float64
	for i, c := range counts {
		if least+i <= sum {
			below += c
		}
		if least+i >= sum {
			above += c
		}
	}
	return min(1, 2*min(below, above)/choose(len(ranks), n))
}

// rankSums counts the sets of n ranks by their sum: counts[i] sets have the sum
// least+i. Numbers beyond 2^53 are rounded, with a relative error below 1e-13:
// they are only ever added.
func rankSums(ranks []int, n int) (counts []float64, least int) {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	// Of the first i ranks, sets of k have sums of low[k] to high[k].
	low, high := make([]int, n+1), make([]int, n+1)
	by := make([][]float64, n+1)
	for k := range by {
		if k > 0 {
			low[k] = low[k-1] + ranks[k-1]
		}
		widest := 0
		for i := range k {
			widest += ranks[len(ranks)-1-i] - ranks[i]
		}
		by[k] = make([]float64, widest+1)
	}
	by[0][0] = 1
	for i, r := range ranks {
		for k := min(i+1, n); k > 0; k-- {
			high[k] = max(high[k], high[k-1]+r)
			if left := n - k; left > len(ranks)-1-i {
				break // too few ranks remain to fill such sets
			}
			shift := low[k-1] + r - low[k]
			from := by[k-1][:high[k-1]-low[k-1]+1]
			into := by[k][shift:][:len(from)]
			for j, c := range from {
				into[j] += c
			}
		}
	}
	return by[n], low[n]
}
