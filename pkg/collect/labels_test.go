package collect_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/result"
)

const simServe = `"num_prompts": 64, "completed": 64, "failed": 0, "duration": 2.0, "total_input_tokens": 640, "total_output_tokens": 640, "date": "20261119-180002",
	"request_throughput": 32.0, "output_throughput": 320.0, "mean_ttft_ms": 12.0, "mean_tpot_ms": 3.0`

// What a simulated program wrote is labelled in its own file, so that the label is there
// wherever the file is found: alone, imported, exported and imported again.
//
// covers: PL-V29
func TestSimulatedIsSaidByTheFile(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"vllm":            {"vllm-bench.json": `{"simulated": "true", ` + simServe + `}`},
		"a truth value":   {"vllm-bench.json": `{` + simServe + `, "simulated": true}`},
		"sglang":          {"sglang-bench.jsonl": `{"completed": 4, "duration": 2.0, "server_info": {"simulated": true}}`},
		"python's truth":  {"vllm-bench.json": `{"simulated": "True", ` + simServe + `}`},
		"sglang's line":   {"sglang-bench.jsonl": `{"completed": 4, "duration": 2.0, "simulated": true, "server_info": {"simulated": false}}`},
		"gsm8k as text":   {"vllm-gsm8k.json": `{"accuracy": 0.7, "num_questions": 1319, "simulated": "true"}`},
		"aiperf":          {"profile_export_aiperf.json": `{"aiperf_version": "0.3.0", "simulated": "true", "request_count": {"avg": 4}, "benchmark_duration": {"avg": 2.0, "unit": "sec"}}`},
		"gsm8k":           {"vllm-gsm8k.json": `{"accuracy": 0.7, "num_questions": 1319, "simulated": true}`},
		"a GSM8K console": {"vllm-semantic-eval.log": "profllm sim: 200 generated questions, 5 shots, no GSM8K\nAccuracy: 0.745\n"},
		"a bench console": {"vllm-bench.log": "profllm sim: the engine is simulated\n============ Serving Benchmark Result ============\nSuccessful requests:                     4\n" +
			"Benchmark duration (s):                  2.00\n==================================================\n"},
	} {
		dir := filepath.Join(t.TempDir(), "alone")
		for file, text := range files {
			write(t, dir, file, text)
		}
		r := only(t, collector(t), dir, nil)
		require.True(t, r.Simulated, name)
		require.True(t, r.Provenance.Simulated, name)
		require.Contains(t, r.Validity.Words, "simulated", name)
	}
	dir := filepath.Join(t.TempDir(), "real")
	write(t, dir, "vllm-bench.json", `{"simulated": "false", `+simServe+`}`)
	require.False(t, only(t, collector(t), dir, nil).Simulated)

	_, items, err := interchange.Read("run=0.json", []byte(`{"simulated": "true", `+simServe+`}`))
	require.NoError(t, err)
	first := items[0].Record
	require.True(t, first.Simulated)
	first.RunID, first.Validity = "exp_1", &result.Validity{Valid: true, Verdict: result.VerdictValid}
	for _, f := range []interchange.Format{interchange.LLMD, interchange.PyTorch} {
		data, err := interchange.Write(f, []*result.Result{first}, interchange.Options{Invalid: true})
		require.NoError(t, err, f)
		_, again, err := interchange.Read("again.json", data)
		require.NoError(t, err, f)
		require.True(t, again[0].Record.Simulated, f)
	}
	_, err = interchange.Write(interchange.InferenceX, []*result.Result{first}, interchange.Options{Invalid: true})
	require.ErrorContains(t, err, "simulated")
}
