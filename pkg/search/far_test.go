package search_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/search"
)

// farShapes are the curves, and two on which a load far below the edge is near its limit already.
func farShapes() map[string]func(float64) float64 {
	shapes := maps.Clone(curves)
	shapes["flat"] = func(x float64) float64 { return 0.8 + 0.2*x }
	shapes["plateau"] = func(x float64) float64 { return 0.9 + 0.1*math.Pow(x, 8) }
	return shapes
}

// farServer has its edge at about a load: within a factor of 1.3 of it.
func farServer(i int, edge float64) *server {
	names := slices.Sorted(maps.Keys(farShapes()))
	r := rand.New(rand.NewPCG(uint64(i), 77))
	s := &server{rng: r, edge: edge * math.Exp(0.5*(r.Float64()-0.5)), limit: 500, n: 400,
		typical: farShapes()[names[i%len(names)]], tail: 0.1, between: 0.02}
	if i/len(names)%2 == 1 {
		s.tail, s.between = 0.3, 0.04
	}
	return s
}

// requireSeen fails if an answer after a few probes says more than they saw: an end between or beyond
// the loads that were measured, unless the interval is narrow.
func requireSeen(t *testing.T, a *search.Answer, probes []search.Probe) {
	t.Helper()
	if a.Kind == search.Found {
		return
	}
	for _, end := range []*float64{a.Low, a.High} {
		if end != nil {
			require.True(t, slices.ContainsFunc(probes, func(p search.Probe) bool { return p.Value == *end }),
				"%g was not measured, in %d probes", *end, len(probes))
		}
	}
}

// TestFarFromTheEdge counts how often the interval of a search that began 10, 30 or 100 times too low or
// too high, and was stopped after a few probes, holds the edge: not significantly less often than is
// claimed.
func TestFarFromTheEdge(t *testing.T) {
	const servers, most = 108, 6 // three of each shape, noise and distance
	for name, direction := range map[string]float64{"too low": 1, "too high": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := search.Goal{Span: search.Span{Min: 0.01, Max: 10000, Step: 0.01}, Start: 8}
			var inside, open [most]int
			var claimed [most]float64
			for i := range servers {
				far := []float64{10, 30, 100}[i/12%3]
				s := farServer(i, g.Start*math.Pow(far, direction))
				var probes []search.Probe
				for n := range most {
					step := g.Next(probes)
					require.Nil(t, step.Answer)
					probes = append(probes, s.measure(step.Value))
					a := g.Conclude(probes)
					requireSeen(t, a, probes)
					claimed[n] += a.Probability
					if (a.Low == nil || *a.Low <= s.edge) && (a.High == nil || s.edge <= *a.High) {
						inside[n]++
					}
					if a.Low == nil || a.High == nil {
						open[n]++
					}
				}
			}
			for n := range most {
				p := claimed[n] / servers
				t.Logf("simulated: %d probes: %d of %d intervals hold the edge, claimed %.1f %%; %d are open", n+1,
					inside[n], servers, 100*p, open[n])
				require.Greater(t, atMost(inside[n], servers, min(p, 1-1e-9)), 0.01)
			}
		})
	}
}
