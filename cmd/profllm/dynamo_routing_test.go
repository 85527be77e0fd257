package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// The KV router of the real Dynamo finds more of the prompts in the caches of two workers than round robin does: 24
// prefixes of 256 tokens, of which each worker holds 16. Both records have the frontend's and the workers' counters,
// before and after the load. The workers are the mocker, so every number is simulated.
func TestDynamoRouting(t *testing.T) {
	dir, _ := dynamoLab(t)
	hits := map[string]float64{}
	for _, mode := range []string{"kv", "round-robin"} {
		code, all := submitDynamo(t, dir, "routing-"+mode, fmt.Sprintf(`
[Tests.cmd_args.dynamo]
ingress_cmd = "python3 -m dynamo.frontend --router-mode %s"
[Tests.cmd_args.dynamo.prefill_worker]
num_nodes = 0
[Tests.cmd_args.dynamo.decode_worker]
workers_per_node = 2
[Tests.cmd_args.dynamo.decode_worker.args]
num_gpu_blocks_override = 256
block_size = 16
speedup_ratio = 10.0
[Tests.cmd_args.aiperf.args]
concurrency = 4
request_count = 240
synthetic_input_tokens_mean = 16
output_tokens_mean = 4
num_prefix_prompts = 24
prefix_prompt_length = 256
random_seed = 7
`, mode))
		require.Equal(t, exitOK, code)
		r := all["routing-"+mode]
		require.True(t, r.Simulated)
		require.Equal(t, 240, *r.Results.CompletedRequests)

		routing := r.Results.Routing
		require.NotNil(t, routing, "the frontend's page was read before and after the load")
		require.GreaterOrEqual(t, routing.Requests, int64(240))
		require.Zero(t, routing.FailedRequests)
		require.False(t, routing.Reset)
		hits[mode] = *routing.HitRate
		t.Logf("%s: %.3f of the tokens of %d prompts found in caches (simulated)", mode, *routing.HitRate,
			routing.Requests)
		served := 0
		for _, d := range r.Results.Server {
			if d.Role != "frontend" {
				require.Contains(t, d.Counters, "vllm:e2e_request_latency_seconds_count")
				require.Positive(t, d.Counters["dynamo_component_requests_total"])
				served++
			}
		}
		require.Equal(t, 2, served)
		if mode == "kv" {
			require.Positive(t, *routing.ExpectedTokens)
			require.Positive(t, *routing.OverheadMS)
		}
	}
	require.Greater(t, hits["kv"], hits["round-robin"])
}

// A frontend whose only prefill worker takes fewer requests at once than come: CloudAI's own test of the mocker. The
// plan says so beforehand, and the record why.
func TestDynamoHandoffs(t *testing.T) {
	dir, _ := dynamoLab(t)
	text := `num_nodes = 1
[Tests.cmd_args.dynamo]
ingress_cmd = "python3 -m dynamo.frontend --router-mode kv"
discovery = "file"
[Tests.cmd_args.dynamo.prefill_worker.args]
max_num_seqs = 4
[Tests.cmd_args.aiperf.args]
concurrency = 10
request_count = 50
`
	code, all := submitDynamo(t, dir, "handoffs", text)
	require.NotEqual(t, exitOK, code)
	r := all["handoffs"]
	require.False(t, r.Validity.Valid)
	require.NotNil(t, r.Failure)
	require.Equal(t, "dynamo-mocker-handoff", r.Failure.Cause, r.Failure.Line)
	require.Equal(t, result.Exact, r.Failure.Confidence)
	o := profllm(t, dir, nil, "slurm", "dry-run", "--system", "site.toml", "handoffs.toml")
	require.Contains(t, o.stdout+o.stderr, "the prefill workers of the mocker take 4 requests at once")
}

// A worker that is killed between two phases prints nothing of it: the run ends, and the record names the worker.
//
// covers: U-24
func TestDynamoWorkerDies(t *testing.T) {
	dir, _ := dynamoLab(t)
	pid := filepath.Join(dir, "worker.pid")
	code, all := submitDynamo(t, dir, "dies", `
[Tests.cmd_args.dynamo.prefill_worker]
num_nodes = 0
[Tests.cmd_args.dynamo.decode_worker]
cmd = "bash -c 'echo $$ >`+pid+`; exec python3 -m dynamo.mocker \"$@\"' worker"
[Tests.cmd_args.aiperf]
between_phase_cmd = "kill -KILL $(cat `+pid+`)"
[[Tests.cmd_args.aiperf_phases]]
name = "before"
[[Tests.cmd_args.aiperf_phases]]
name = "behind"
`)
	require.Equal(t, exitJobFailed, code)
	require.Equal(t, 40, *all["dies/before"].Results.CompletedRequests)
	r := all["dies/behind"]
	require.False(t, r.Validity.Valid)
	require.NotNil(t, r.Failure)
	require.Equal(t, "process-killed", r.Failure.Cause, r.Failure.Line)
	require.Equal(t, "worker", r.Failure.Role)
	require.Equal(t, result.Fail, r.Validity.Check("role-died").Outcome)
}
