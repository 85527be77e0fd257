package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
)

const suited = `[[Tests]]
id = "a"
test_template_name = "vllm"
client = "profllm"
  [Tests.cmd_args.decode]
  tensor_parallel_size = 2
  [[Tests.phases]]
  suite = "latency-short, concurrency"
`

// The loads of suites share one server, begin with an empty cache, and are given a limit of
// requests in flight only where their suite has one.
func TestSuite(t *testing.T) {
	got, err := set(t, suited, scenario.HookFiles{}, options)
	require.NoError(t, err)
	require.Len(t, got.Plans, 1)
	loads := got.Plans[0].Loads
	require.Len(t, loads, 6)
	require.Equal(t, []int{100, 100, 100, 100, 320, 1280}, prompts(got.Plans))
	first, last := words(loads[0].Clients[0]), words(loads[5].Clients[0])
	require.NotContains(t, first, "--max-concurrency")
	require.Zero(t, loads[0].Expect.Concurrency)
	require.Equal(t, "none", loads[0].Benchmark["max_concurrency"])
	require.Contains(t, first, "--label latency-in128-out128-rate1-n100")
	require.Contains(t, first, "--metric-percentiles 50,90,95,99")
	require.Contains(t, first, "--percentile-metrics ttft,tpot,itl,e2el")
	require.Contains(t, last, "--max-concurrency 256 --num-prompts 1280")
	require.Equal(t, []string{"", "reset", "reset"}, []string{loads[0].Cache, loads[1].Cache, loads[5].Cache})
}

// words is the command of a step as one line.
func words(s plan.Step) string {
	var list []string
	for _, w := range s.Argv {
		list = append(list, w.String())
	}
	return strings.Join(list, " ")
}

func TestSuiteRefused(t *testing.T) {
	lacks := strings.NewReplacer("latency-short", "sonnet-rateinf", "client = \"profllm\"\n", "",
		"[Tests.cmd_args.decode]", "[Tests.cmd_args]\nengine_version = \"0.32.0\"\n[Tests.cmd_args.decode]")
	_, err := set(t, lacks.Replace(suited), scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "invalid choice: 'sonnet'")
	sglang := strings.NewReplacer(`"vllm"`, `"sglang"`, "client = \"profllm\"\n", "", "tensor_parallel_size", "tp_size")
	_, err = set(t, sglang.Replace(suited), scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "suites have arguments of vLLM's client, but SGLang's client measures")
	_, err = set(t, suited+"  bench_cmd_args = { num_prompts = \"5x\" }\n", scenario.HookFiles{}, options)
	require.ErrorContains(t, err, "times max_concurrency, which is not set")
}

// Warm-ups, sampling, limits of a good request and repeats are keys of a scenario, also of a suite.
//
// covers: BEN-10
func TestSuiteOptions(t *testing.T) {
	text := strings.Replace(suited, "client =", "repeat = 2\nclient =", 1) +
		"  bench_cmd_args = { num_warmups = 3, temperature = 0.7, goodput = [\"ttft:500\", \"tpot:50\"] }\n"
	got, err := set(t, text, scenario.HookFiles{}, options)
	require.NoError(t, err)
	loads := got.Plans[0].Loads
	require.Len(t, loads, 12)
	for _, l := range loads {
		require.Equal(t, 2, l.Repeat.Of)
		require.Equal(t, 3, l.Expect.Warmups)
		require.Equal(t, map[string]float64{"ttft": 500, "tpot": 50}, l.Expect.Goodput)
		require.Contains(t, words(l.Clients[0]), " --temperature 0.7 --goodput ttft:500 tpot:50")
	}
}
