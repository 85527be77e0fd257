package pareto_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/pareto"
)

// lookup is a run from its numbers; a nil is null.
func lookup(m map[string]*float64) pareto.Run {
	return func(key string) (*float64, bool, error) {
		v, ok := m[key]
		if key == "bad" {
			return nil, true, errors.New("bad is no number")
		}
		return v, ok, nil
	}
}

func TestUsersAndGPUs(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		run         map[string]*float64
		o           pareto.Options
		users, gpus float64 // 0 users: none
	}{
		{map[string]*float64{"max_concurrency": n(4)}, pareto.Options{Users: "max_concurrency"}, 4, 1},
		{map[string]*float64{"max-concurrency": n(4), "tp": n(2), "pipeline-parallel-size": n(3), "dp": n(0)},
			pareto.Options{Users: "max_concurrency"}, 4, 6},
		{map[string]*float64{"max_concurrency": nil, "request_rate": n(9), "max_concurrent_requests": n(5)},
			pareto.Options{Users: "max_concurrency"}, 5, 1}, // null hides the rate
		{map[string]*float64{"request_rate": n(9)}, pareto.Options{Users: "max_concurrency"}, 9, 1},
		{map[string]*float64{"request_rate": n(math.Inf(1))}, pareto.Options{}, math.Inf(1), 1},
		{map[string]*float64{"max_concurrency": n(0)}, pareto.Options{Users: "max_concurrency"}, 0, 1},
		{map[string]*float64{"users": n(2), "num_gpus": n(16), "tp": n(8)}, pareto.Options{Users: "users", GPUs: "num_gpus"}, 2, 16},
		{map[string]*float64{"users": n(2), "num_gpus": n(0), "tp": n(8)}, pareto.Options{Users: "users", GPUs: "num_gpus"}, 2, 8},
	} {
		c.run[pareto.Throughput] = n(120)
		p, ok, err := pareto.Of(lookup(c.run), c.o)
		require.NoError(t, err)
		require.Equal(t, c.users != 0, ok, "%v", c.run)
		if ok {
			require.Equal(t, pareto.Point{Users: c.users, GPUs: c.gpus, PerUser: 120 / c.users, PerGPU: 120 / c.gpus}, p)
		}
	}
	_, _, err := pareto.Of(lookup(nil), pareto.Options{})
	require.ErrorContains(t, err, "output_throughput")
	_, _, err = pareto.Of(lookup(map[string]*float64{pareto.Throughput: n(1)}), pareto.Options{Users: "bad"})
	require.ErrorContains(t, err, "bad is no number")
}

func TestFrontier(t *testing.T) {
	points := []pareto.Point{
		{PerUser: 1, PerGPU: 10}, {PerUser: 2, PerGPU: 9}, {PerUser: 2, PerGPU: 8}, {PerUser: 3, PerGPU: 9}, {PerUser: 0.5, PerGPU: 9.9},
		{PerUser: math.NaN(), PerGPU: 99}, {PerUser: 5, PerGPU: math.NaN()}, {PerUser: 4, PerGPU: 1}, {PerUser: 4, PerGPU: 1},
	}
	require.Equal(t, []int{0, 1, 3, 8, 7}, pareto.Frontier(points), "equal y counts, equal points both do")
	require.Empty(t, pareto.Frontier(nil))
}
