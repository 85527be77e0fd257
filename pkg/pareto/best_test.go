package pareto_test

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/pareto"
)

// Points that come one by one have the frontier that they have together, equal ones and near ones among them.
//
// covers: API-13
func TestBest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 30 {
		var points []pareto.Point
		var best pareto.Best[int]
		steps := float64(1 + r.IntN(2000)) // few steps give many points of one place
		for i := range r.IntN(12_000) {
			p := pareto.Point{PerUser: float64(int(r.Float64() * steps)), PerGPU: float64(int(r.Float64()*steps)) + r.Float64()*2e-9}
			if r.IntN(3) == 0 {
				p.PerGPU = steps - p.PerUser // a long frontier
			}
			points = append(points, p)
			best.Add(p, func() int { return i })
		}
		require.Equal(t, len(points), best.Len())
		require.Equal(t, pareto.Frontier(points), best.Frontier(cmp.Compare[int]))
	}
}
