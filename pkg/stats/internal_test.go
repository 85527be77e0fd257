package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Beyond ExactProduct the approximation is held against counting, which would
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
