package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
)

// A phase that names suites is the loads of them, in its place. Its own arguments replace those of
// a suite, and those of the test only the defaults of suites.
func TestSuitePhases(t *testing.T) {
	s, err := load(t, `
  [Tests.bench_cmd_args]
  seed = 7
  num_prompts = 9
  temperature = 0.5
  [[Tests.phases]]
  name = "first"
  [[Tests.phases]]
  suite = "latency, sweep-concurrency-128"
  bench_cmd_args = { burstiness = 0.5 }
  [[Tests.phases]]
  name = "again"
  suite = "sweep-concurrency-128"
  parity = true
  cache = "keep"
`)
	require.NoError(t, err)
	phases := s.Tests[0].Phases
	var names, caches []string
	for _, p := range phases {
		names, caches = append(names, p.Name), append(caches, p.Cache)
	}
	require.Equal(t, []string{"first", "latency-short", "latency-medium", "latency-long", "sweep-concurrency-128",
		"again-sweep-concurrency-128"}, names)
	require.Equal(t, []string{"", "reset", "reset", "reset", "reset", "keep"}, caches)
	long := phases[3].BenchArgs.Plain()
	require.Equal(t, map[string]any{"backend": "openai-chat", "endpoint": "/v1/chat/completions",
		"dataset_name": "random", "random_input_len": int64(4096), "random_output_len": int64(512),
		"request_rate": int64(1), "max_concurrency": "none", "num_prompts": int64(100), "burstiness": 0.5,
		"label": "latency-in4096-out512-rate1-n100"}, long)
	require.Equal(t, int64(640), phases[4].BenchArgs.Plain()["num_prompts"])
	require.Equal(t, int64(100), phases[5].BenchArgs.Plain()["num_prompts"])
	require.Equal(t, "s.toml:12:11", phases[1].Pos.String())

	again, err := s.Tests[0].Variant(s.Tests[0].Table)
	require.NoError(t, err)
	require.Equal(t, phases, again.Phases)
}

// covers: BEN-2
func TestSuitesAreCheckedBefore(t *testing.T) {
	for text, want := range map[string]string{
		"[[Tests.phases]]\nsuite = \"latency, decod, prefil\"":                               "unknown suite \"decod\"\n\thint: did you mean \"decode\"?",
		"[[Tests.phases]]\nsuite = \"latency, decode, prefil\"":                              "unknown suite \"prefil\"",
		"[[Tests.phases]]\nsuite = \"prefill\"\nbench_cmd_args = { random_input_len = 3 }":   "bench_cmd_args.random_input_len: the loads of suite \"prefill\" differ in it",
		"[[Tests.phases]]\nsuite = \"prefill\"\n[[Tests.phases]]\nsuite = \"prefill-in128\"": "phase name \"prefill-in128\" is taken",
		"[[Tests.phases]]\nparity = true\nname = \"a\"":                                      "phase \"a\" has parity, but no suite",
		"[[Tests.phases]]\ncache = \"keep\"":                                                 "phases.name is required",
	} {
		_, err := load(t, text)
		require.ErrorContains(t, err, want, text)
	}
}

// load reads a scenario with one test, which has some more lines.
func load(t *testing.T, lines string) (*scenario.Scenario, error) {
	t.Helper()
	text := "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" + lines
	return scenario.Load(scenario.File{Name: "s.toml", Data: []byte(text)}, nil, scenario.HookFiles{})
}
