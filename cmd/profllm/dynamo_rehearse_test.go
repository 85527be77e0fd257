package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/result"
)

// rehearseDynamo rehearses a scenario of tests of Dynamo, and returns the exit code and the records by
// test and load.
func rehearseDynamo(t *testing.T, faults, text string) (outcome, map[string]*result.Result) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte("name = \"s\"\n"+text), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms", "PROFLLM_SIM_TTFT=5ms", "PROFLLM_SIM_ITL=2ms",
		"PROFLLM_SIM_FAULTS=" + faults}, "rehearse", "s.toml")
	return o, dynamoResults(t, dir)
}

// dynamoLoad is what measures in these rehearsals.
const dynamoLoad = `[Tests.cmd_args.aiperf.args]
concurrency = 4
request_count = 24
synthetic_input_tokens_mean = 64
output_tokens_mean = 8
extra_inputs = { ignore_eos = true }
`

// Dynamo without Dynamo, GPUs or Slurm: an aggregated worker of the mocker; prefill and decode of vLLM
// on two nodes in three phases, behind stand-ins of etcd and of the exporter; a worker of SGLang over
// two nodes. All numbers are labelled simulated. Text that was written for the image does not run.
//
// covers: P-22
func TestRehearseDynamo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	touched := filepath.Join(t.TempDir(), "touched")
	shell := `"touch ` + touched + `"` + "\n"
	o, all := rehearseDynamo(t, "", `[[Tests]]
id = "aggregated"
test_template_name = "AIDynamo"
[Tests.cmd_args.dynamo]
backend = "mocker"
[Tests.cmd_args.dynamo.prefill_worker]
num_nodes = 0
`+dynamoLoad+`
[[Tests]]
id = "apart"
test_template_name = "AIDynamo"
[Tests.cmd_args]
docker_image_url = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.1.1"
startup_cmd = `+shell+`
[Tests.cmd_args.dynamo]
ingress_cmd = "python -m dynamo.frontend --router-mode kv"
node_setup_cmd = `+shell+`
[Tests.cmd_args.dynamo.dcgm_exporter]
enabled = true
[Tests.cmd_args.dynamo.prefill_worker.args]
tensor_parallel_size = 4
[Tests.cmd_args.dynamo.decode_worker.args]
tensor_parallel_size = 4
[Tests.cmd_args.aiperf]
setup_cmd = `+shell+`between_phase_cmd = `+shell+dynamoLoad+`[[Tests.cmd_args.aiperf_phases]]
name = "one"
[[Tests.cmd_args.aiperf_phases]]
name = "two"
args = { random_seed = 2 }
[[Tests.cmd_args.aiperf_phases]]
name = "three"
args = { random_seed = 3 }
[Tests.cmd_args.aiperf_accuracy]
setup_cmd = `+shell+`cli = "--model {model} --url {url} --artifact-dir {artifact_dir} --accuracy-benchmark mmlu --num-requests 20"

[[Tests]]
id = "wide"
test_template_name = "AIDynamo"
[Tests.cmd_args]
docker_image_url = "nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.1.1"
[Tests.cmd_args.dynamo]
backend = "sglang"
[Tests.cmd_args.dynamo.prefill_worker]
num_nodes = 0
[Tests.cmd_args.dynamo.decode_worker]
num_nodes = 2
nodes_per_worker = 2
args = { tp_size = 8 }
`+dynamoLoad)
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	require.Len(t, all, 5)
	for name, r := range all {
		require.True(t, r.Simulated, name)
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
		require.Equal(t, 24, *r.Results.CompletedRequests, name)
		require.EqualValues(t, 24, r.Results.Routing.Requests, name)
		require.Zero(t, r.Results.Routing.FailedRequests, name)
		require.Greater(t, *r.Results.Routing.InputTokens, 24.0*60, name)
		require.Equal(t, result.Pass, r.Validity.Check("wrong-server").Outcome, name)
	}
	for _, name := range []string{"apart/one", "apart/two", "apart/three"} {
		require.Equal(t, result.Pass, all[name].Validity.Check("kv-transfer-failed").Outcome, name)
		require.Len(t, all[name].Placement.Nodes, 2)
	}
	require.Equal(t, 20, *all["apart/three"].Accuracy.Questions)
	require.Len(t, all["wide"].Placement.Nodes, 2)
	require.NoFileExists(t, touched)
	require.Contains(t, o.stderr, "setup_cmd does not run in a rehearsal")
}

// A worker that dies under load ends the run with its role and the end of its log; one that never
// registers is missed by number.
func TestRehearseDynamoFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	const service = `[[Tests]]
id = "a"
test_template_name = "AIDynamo"
[Tests.cmd_args.dynamo]
backend = "mocker"
serve_wait_seconds = 8
`
	o, all := rehearseDynamo(t, "decode:die-on-request=8", service+dynamoLoad)
	require.Equal(t, exitJobFailed, o.code, o.stdout+o.stderr)
	r := all["a"]
	require.Equal(t, result.Fail, r.Validity.Check("role-died").Outcome)
	require.Equal(t, "decode", r.Failure.Role)
	require.Contains(t, r.Failure.Line, "simulated death of the engine")

	o, all = rehearseDynamo(t, "", service+"[Tests.cmd_args.dynamo.decode_worker.args]\n"+
		"endpoint = \"dyn://dynamo.elsewhere.generate\"\n"+dynamoLoad)
	require.Equal(t, exitJobFailed, o.code, o.stdout+o.stderr)
	require.Equal(t, "frontend", all["a"].Failure.Role)
	require.Contains(t, all["a"].Failure.Line, "registered: 0 of 1 backend")
}

// CloudAI's own files of Dynamo are rehearsed as they are.
func TestRehearseCloudAIDynamo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	file := filepath.Join(cloudaitest.Conf(t, os.Environ()), "experimental/ai_dynamo/test_scenario/sglang_hicache.toml")
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", file, "--speed", "8", "--output-dir", "results")
	require.Equal(t, exitOK, o.code, o.stdout+o.stderr)
	for name, r := range dynamoResults(t, dir) {
		require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
	}
}
