package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A run says which points it measures, each value once, and a load what is its own.
func TestPointText(t *testing.T) {
	p := &Plan{Config: Config{Server: map[string]any{"serve": map[string]any{"tensor_parallel_size": 2}}}}
	require.Empty(t, p.PointText())
	for step, n := range []int{1, 4, 16} {
		p.Loads = append(p.Loads, Load{
			Step: step + 1, Benchmark: map[string]any{"max_concurrency": n, "num_prompts": 5 * n},
			Values: []Assignment{{Path: "decode.tensor_parallel_size", Value: 2},
				{Path: "bench_cmd_args.max_concurrency", Value: n}, {Path: "bench_cmd_args.num_prompts", Value: "5x"}},
		})
	}
	require.Equal(t, "tensor_parallel_size=2 max_concurrency=1,4,16 num_prompts=5,20,80", p.PointText())
	require.Equal(t, "max_concurrency=4 num_prompts=20", p.LoadText(&p.Loads[1]))
	p.Loads = p.Loads[:1]
	require.Empty(t, p.LoadText(&p.Loads[0]), "all of the run has it")
}

func TestDifferences(t *testing.T) {
	a := map[string]string{"cmd_args.a": "1", "bench_cmd_args.b": "2", "c": "3"}
	b := map[string]string{"cmd_args.a": "1", "bench_cmd_args.b": "4"}
	require.Equal(t, []string{"bench_cmd_args.b", "c"}, DifferingKeys([]map[string]string{a, b}))
	require.Equal(t, []string{"b=2 c=3", "b=4"}, Differences([]map[string]string{a, b}))
	require.Empty(t, Differences([]map[string]string{a, a}))
	require.Empty(t, Differences(nil))
	many := map[string]string{}
	for _, k := range []string{"v", "w", "x", "y", "z"} {
		many[k] = k
	}
	require.Empty(t, Differences([]map[string]string{many, {}}))
}
