package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Beyond exactProduct the approximation is held against counting, which would
// still be possible there, only not fast.
//
// covers: PL-Q3, PL-Q5
func TestApproximation(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	for _, grain := range []float64{0, 0.25, 1} { // of values: no ties, some, many
		for _, away := range []float64{0, 0.2, 0.5} {
			a, b := make([]float64, 60), make([]float64, 55)
			for i := range a {
				a[i] = d.NormFloat64()
			}
			for i := range b {
				b[i] = d.NormFloat64() + away
			}
			if grain > 0 {
				for _, xs := range [][]float64{a, b} {
					for i := range xs {
						xs[i] = math.Round(xs[i]/grain) * grain
					}
				}
			}
			got := mannWhitney(a, b)
			require.False(t, got.Exact)
			ranks, _ := midranks(a, b)
			sum := 0
			for _, r := range ranks[:len(a)] {
				sum += r
			}
			require.InEpsilon(t, rankP(ranks, len(a), sum), got.P, 0.05, "grain %g, %g away", grain, away)
		}
	}
	exact, exactTail := countedCut(52, 49)
	c, tail := rankCut(52, 49)
	require.InDelta(t, exact, c, 1)
	require.InEpsilon(t, exactTail, tail, 0.05)
	c, _ = rankCut(3, 3)
	require.Zero(t, c)
}

// Without ties the kept distribution gives what counting the ranks at hand gives,
// whichever sample is the smaller one, also of sizes that are not kept.
//
// covers: PL-Q3
func TestUntiedIsCounted(t *testing.T) {
	d := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{1, 1}, {1, 9}, {3, 5}, {5, 3}, {6, 6}, {10, 10}, {4, 100}, {25, 20}} {
		for range 20 {
			n, m := size[0], size[1]
			perm, sum := d.Perm(n+m), 0
			ranks := make([]int, n+m)
			for i, r := range perm {
				ranks[i] = 2 * (r + 1)
				if i < n {
					sum += ranks[i]
				}
			}
			require.InDelta(t, rankP(ranks, n, sum), untiedP(n, m, sum/2), 1e-12, "%v", size)
		}
	}
}

// LeastSeries is the first length of which a clean step in the middle passes alone
// among so many series.
//
// covers: PL-Q9, PL-Q10
func TestLeastSeries(t *testing.T) {
	for tests, want := range map[int]int{0: 8, 1: 8, 2: 10, 5: 13, 1000: 22} {
		require.Equal(t, want, LeastSeries(tests))
		for _, n := range []int{want - 1, want} {
			xs := make([]float64, n)
			for i := range xs {
				if xs[i] = float64(i*7%11) + float64(i)/100; i >= n/2 {
					xs[i] += 50
				}
			}
			c, err := ChangePoints(xs)
			require.NoError(t, err)
			found := len(c.Cuts) == 1 && c.Cuts[0].AdjustedP*float64(max(tests, 1)) < Alpha
			require.Equal(t, n == want, found, "%d of %d tests", n, tests)
		}
	}
}
