package planner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
)

const each = `[[Tests]]
id = "a"
test_template_name = "vllm"
time_limit = "10m"
  [Tests.cmd_args.decode]
  tensor_parallel_size = 2
  [Tests.bench_cmd_args]
  max_concurrency = [2, 16]
  num_prompts = "5x"
`

func prompts(list []*plan.Plan) (out []int) {
	for _, p := range list {
		for _, l := range p.Loads {
			out = append(out, l.Expect.NumPrompts)
		}
	}
	return out
}

// num_prompts = "5x" is five times the concurrency of each point and of each phase. The
// command, and so the record, has the number.
func TestPromptsPerConcurrency(t *testing.T) {
	got, err := set(t, each, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []int{10, 80}, prompts(got.Plans))
	load := &got.Plans[0].Loads[1]
	require.Equal(t, "80", got.Plans[0].Settings(load)["bench_cmd_args.num_prompts"])
	require.Contains(t, fmt.Sprint(load.Clients[0].Argv), "--num-prompts 80")

	got, err = set(t, strings.Replace(each, `"5x"`, `["5x", "10x"]`, 1), scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []int{10, 20, 80, 160}, prompts(got.Plans))
	load = &got.Plans[0].Loads[3]
	require.Equal(t, "160", got.Plans[0].Settings(load)["bench_cmd_args.num_prompts"])

	got, err = set(t, strings.Replace(each, "[2, 16]", "4", 1)+`
  [[Tests.phases]]
  name = "one"
  bench_cmd_args = { max_concurrency = 8 }
  [[Tests.phases]]
  name = "two"
  bench_cmd_args = { num_prompts = "10x" }
  cache = "reset"
`, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []int{40, 40}, prompts(got.Plans))

	got, err = set(t, strings.NewReplacer("[2, 16]", "4", `"vllm"`, `"sglang"`, "tensor_parallel_size", "tp").
		Replace(each), scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []int{20}, prompts(got.Plans))
}

func TestPromptsPerConcurrencyComplaints(t *testing.T) {
	for bench, want := range map[string]string{
		`num_prompts = "5x"`:                                 "s.toml:9:3: bench_cmd_args.num_prompts is \"5x\", times max_concurrency, which is not set\n\thint: set bench_cmd_args.max_concurrency",
		"num_prompts = \"5x\"\n  max_concurency = 4":         "s.toml:9:3: bench_cmd_args.num_prompts is \"5x\", times max_concurrency, which is not set\n\thint: s.toml:10:3 has max_concurency: did you mean max_concurrency?",
		`num_prompts = "x5"`:                                 `bench_cmd_args.num_prompts is "x5", and must be a number, or a number with x, such as "5x": 5 times max_concurrency`,
		`num_prompts = "0x"`:                                 `bench_cmd_args.num_prompts is "0x"`,
		"num_prompts = \"5x\"\n  max_concurrency = \"many\"": "max_concurrency",
	} {
		_, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ntime_limit = \"10m\"\n  [Tests.cmd_args.decode]\n  tensor_parallel_size = 2\n  [Tests.bench_cmd_args]\n  "+bench+"\n",
			scenario.HookFiles{}, options)
		require.ErrorContains(t, err, want)
	}
}

// A misspelt key of a sweep is said once, where the key is, and not for each value.
func TestMisspeltKeyOfASweep(t *testing.T) {
	for table, want := range map[string]string{
		"[Tests.bench_cmd_args]\n  max_concurency = [1, 2, 4]\n  num_prompts = 4": "s.toml:9:3: bench_cmd_args.max_concurency is an option of `vllm bench serve` in no release that profllm knows",
		"[Tests.cmd_args.decode]\n  max_num_seqz = [1, 2, 4]":                     "s.toml:9:3: decode.max_num_seqz is not a known option of `vllm serve`",
		"[Tests.cmd_args]\n  modle = [\"a\", \"b\"]":                              "s.toml:9:3: unknown key \"modle\"",
	} {
		_, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = 1\ntime_limit = \"10m\"\n\n  "+table+"\n", scenario.HookFiles{}, options)
		require.ErrorContains(t, err, want)
		require.Equal(t, 1, strings.Count(err.Error(), "s.toml:"), err)
	}
}

// Of a workload with a misspelt name nobody knows whether it serves, so that is all that is said.
func TestMisspeltWorkload(t *testing.T) {
	for _, more := range []string{"  [Tests.bench_cmd_args]\n  num_prompts = 4\n",
		"  [[Tests.phases]]\n  name = \"a\"\n", "  [Tests.accept]\n  lag_ms = 5\n", "client = \"vllm\"\n"} {
		_, err := set(t, "[[Tests]]\nid = \"a\"\ntest_template_name = \"VLLM\"\ntime_limit = \"10m\"\n"+more,
			scenario.HookFiles{}, options)
		require.ErrorContains(t, err,
			"s.toml:4:1: test \"a\": unknown workload \"VLLM\"\n\thint: did you mean \"vllm\"?", more)
		require.NotContains(t, err.Error(), "serves nothing", more)
	}
}

// Instances of a role that are too small are too small for the same reason.
func TestInstancesAreComplainedOfOnce(t *testing.T) {
	test := "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\nnum_nodes = 4\ntime_limit = \"10m\"\n" +
		"  [Tests.cmd_args.prefill]\n  num_nodes = 1\n  tensor_parallel_size = 1\n" +
		"  [Tests.cmd_args.decode]\n  num_nodes = 1\n  replicas = 3\n  tensor_parallel_size = 64\n"
	_, err := set(t, test, scenario.HookFiles{}, options)
	require.ErrorContains(t, err,
		"s.toml:13:3: role \"decode\" (each of 3 instances) needs 64 GPUs (tensor_parallel_size 64), but has ")
	require.Equal(t, 1, strings.Count(err.Error(), "s.toml:"), err)
	got, err := set(t, strings.ReplaceAll(test, "64", "1"), scenario.HookFiles{}, options)
	require.NoError(t, err)
	idle := got.Plans[0].IdleNotes()
	require.Len(t, idle, 2)
	require.Contains(t, idle[0], " GPUs of prefill idle: ")
	require.Contains(t, idle[1], " GPUs of each decode idle: ")
}

// Points that are paired are as many as each list, and say so in the plan.
func TestZipOfLoads(t *testing.T) {
	got, err := set(t, strings.Replace(each, `"5x"`, "[40, 80]",
		1)+"  [Tests.sweep]\n  zip = [[\"max_concurrency\", \"num_prompts\"]]\n", scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Equal(t, []int{40, 80}, prompts(got.Plans))
	require.Equal(t, []plan.Assignment{
		{Path: "bench_cmd_args.max_concurrency", Value: int64(16), Zip: 1}, {Path: "bench_cmd_args.num_prompts", Value: int64(80), Zip: 1},
	}, got.Plans[0].Loads[1].Values)
}
