package planner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// aiperfTest is a test under AIPerf or its predecessor, with keys of the test and a load.
func aiperfTest(client, template, keys, load string) string {
	return fmt.Sprintf(`[[Tests]]
id = "a"
test_template_name = %q
cmd_args = { model = "m", docker_image_url = "x" }
client = %q
%s
[Tests.bench_cmd_args]
%s
`, template, client, keys, load)
}

// clientOf is the command of the client of a load.
func clientOf(l plan.Load) string {
	words := make([]string, len(l.Clients[0].Argv))
	for i, w := range l.Clients[0].Argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

// AIPerf measures every engine. A sweep of its options shares a server start, and a count can be a
// multiple of its concurrency.
func TestAIPerfSweep(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang"} {
		plans, err := inline(t, "", aiperfTest("aiperf", engine, `client_program = "'/opt/my venv/bin/aiperf' -q"`,
			"concurrency = [2, 4]\nrequest-count = '5x'\nisl = 64"), options)
		require.NoError(t, err)
		require.Len(t, plans, 1)
		require.Len(t, plans[0].Loads, 2)
		for i, n := range []int{2, 4} {
			l := plans[0].Loads[i]
			require.Equal(t, fmt.Sprintf("/opt/my venv/bin/aiperf -q profile --model m --endpoint-type chat --streaming "+
				"--url http://${addr:serve}:${port:serve} --concurrency %d --request-count %d --isl 64 --artifact-dir %s/raw "+
				"--no-server-metrics --no-gpu-telemetry --ui none", n, 5*n, l.Dir), clientOf(l))
			require.Equal(t, []int{5 * n, n, 64}, []int{l.Expect.NumPrompts, l.Expect.Concurrency, l.Expect.InputTokens})
			require.Equal(t, "aiperf", l.Client)
		}
		require.Equal(t, plan.CacheReset, plans[0].Loads[1].Cache)
	}
}

// Phases on one server start may have the same arguments: without a seed, AIPerf draws other prompts.
func TestAIPerfPhases(t *testing.T) {
	const phases = "[[Tests.phases]]\nname = 'p'\n[[Tests.phases]]\nname = 'q'\nbench_cmd_args = { concurrency = 9 }"
	plans, err := inline(t, "", aiperfTest("aiperf", "vllm", "", "isl = 64\n"+phases), options)
	require.NoError(t, err)
	require.Len(t, plans[0].Loads, 2)
	require.Equal(t, 18, plans[0].Loads[1].Expect.NumPrompts)
	_, err = inline(t, "", aiperfTest("aiperf", "vllm", "", "random_seed = 3\n"+phases), options)
	require.ErrorContains(t, err, `load "q" sends the prompts of "p" again`)
}

// The pages of counters that AIPerf reads are those of the endpoint and of each engine, none twice.
func TestAIPerfReadsEveryEngine(t *testing.T) {
	plans, err := inline(t, "", aiperfTest("aiperf", "vllm", "", "server_metrics = 'auto'"), options)
	require.NoError(t, err)
	require.Contains(t, clientOf(plans[0].Loads[0]), " --server-metrics http://${addr:serve}:${port:serve}/metrics --no-gpu-telemetry")
	text := strings.Replace(aiperfTest("aiperf", "vllm", "num_nodes = 4", "server_metrics = 'auto'"), `image_url = "x"`,
		`image_url = "x", prefill = {replicas = 2, num_nodes = 1}, decode = {num_nodes = 2}`, 1)
	plans, err = inline(t, "", text, options)
	require.NoError(t, err)
	require.Contains(t, clientOf(plans[0].Loads[0]), " --server-metrics http://${addr:proxy}:${port:proxy}/metrics "+
		"http://${addr:prefill_0}:${port:prefill_0}/metrics http://${addr:prefill_1}:${port:prefill_1}/metrics "+
		"http://${addr:decode}:${port:decode}/metrics --no-gpu-telemetry")
}

// GenAI-Perf runs only for a test that names it, and every plan says that AIPerf is its successor.
//
// covers: P-20
func TestGenAIPerfIsNoted(t *testing.T) {
	plans, err := inline(t, "", aiperfTest("genai-perf", "vllm", "", "concurrency = 8\nrequest_count = 8"), options)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(clientOf(plans[0].Loads[0]), "genai-perf profile "))
	notes := strings.Join(plans[0].Notes, "\n")
	require.Contains(t, notes, `write client = "aiperf"`)
	require.Contains(t, notes, "(request_count = ", "the key of this client")
	for _, client := range []string{"", "vllm", "aiperf"} {
		plans, err := inline(t, "", aiperfTest(client, "vllm", "", ""), options)
		require.NoError(t, err)
		require.NotContains(t, strings.Join(plans[0].Notes, "\n"), "GenAI-Perf")
		require.NotContains(t, clientOf(plans[0].Loads[0]), "genai-perf")
	}
}

func TestAIPerfRefusals(t *testing.T) {
	for keys, want := range map[string]string{
		"client_nodes = 2\nnum_nodes = 4":                 "this load client is one process",
		"search = { limits = ['p99_ttft_ms=500'] }":       "a search needs vLLM's client or profllm's",
		"[[Tests.phases]]\nname = 'p'\nsuite = 'latency'": "but aiperf measures",
	} {
		_, err := inline(t, "", aiperfTest("aiperf", "vllm", keys, "concurrency = 2"), options)
		require.ErrorContains(t, err, want, keys)
	}
	_, err := inline(t, "", aiperfTest("vllm", "vllm", "client_program = 'x'", "num_prompts = 2"), options)
	require.ErrorContains(t, err, `client_program is of client = "aiperf" only`)
	_, err = inline(t, "", aiperfTest("aiperf", "vllm", "", "request_count = '5x'"), options)
	require.ErrorContains(t, err, "request_count is \"5x\", times concurrency, which is not set")
	_, err = inline(t, "", aiperfTest("aiperf", "vllm", "", "request_rate = 0"), options)
	require.ErrorContains(t, err, "must be above 0")
}
