package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// dynamoVLLM is dynamoLab with the worker of vLLM. Without one, which make test-dynamo installs beside the lab of vLLM,
// the test is skipped.
func dynamoVLLM(t *testing.T) string {
	t.Helper()
	if os.Getenv("DYNAMO_VLLM") == "" {
		t.Skip("no vLLM for Dynamo (VLLM_LAB=DIR make test-dynamo)")
	}
	dir, _ := dynamoLab(t)
	return dir
}

// Real engines behind the real Dynamo: a worker of vLLM on CPU that does everything, and prefill and decode on two
// nodes, between which NIXL moves the KV blocks. Nothing here is simulated.
//
// covers: P-21
func TestDynamoVLLM(t *testing.T) {
	dir := dynamoVLLM(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "vllm.toml", "--watch")
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	all := dynamoResults(t, dir)
	require.Len(t, all, 2)
	for name, r := range all {
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
		require.False(t, r.Simulated, "%s: vLLM computes every token", name)
		require.Equal(t, 20, *r.Results.CompletedRequests, name)
		require.Contains(t, r.Results.Latency, result.TTFT, name)
		require.Zero(t, r.Results.Routing.FailedRequests, name)
	}
	apart := all["disaggregated"]
	require.Len(t, apart.Placement.Nodes, 2)
	require.Equal(t, result.Pass, apart.Validity.Check("kv-transfer-failed").Outcome, "NIXL moved the blocks of prompts")
}

// Our own client measures the service as any other client does, with the same options as `vllm bench serve`
// (TestDynamoVLLMClient).
//
// covers: P-22
func TestDynamoClients(t *testing.T) {
	dir, _ := dynamoLab(t)
	measuredBy(t, dir, "profllm")
}

// `vllm bench serve` measures the service with the options of TestDynamoClients. Both count the same work.
func TestDynamoVLLMClient(t *testing.T) {
	measuredBy(t, dynamoVLLM(t), "vllm")
}

// measuredBy has a client measure an aggregated service of the mocker.
func measuredBy(t *testing.T, dir, client string) {
	t.Helper()
	code, all := submitDynamo(t, dir, client, fmt.Sprintf(`client = %q
[Tests.cmd_args.dynamo.prefill_worker]
num_nodes = 0
[Tests.bench_cmd_args]
random_input_len = 64
random_output_len = 16
max_concurrency = 2
num_prompts = 40
`, client))
	require.Equal(t, exitOK, code)
	r := all[client]
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.True(t, r.Simulated, "the mocker computes nothing")
	require.Equal(t, client+" bench serve", r.Config.Benchmark.Kind)
	require.Equal(t, 40, *r.Results.CompletedRequests)
	require.EqualValues(t, 40*16, *r.Results.TotalOutputTokens)
	require.GreaterOrEqual(t, r.Results.Routing.Requests, int64(40), "the frontend counted them as well")
	require.Contains(t, r.Results.Latency, result.TTFT)
}
