package collect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

// Files of clients that lie alone: each is found, read by the right parser, and marked.
//
// covers: PL-I3, PL-I4
func TestForeignFiles(t *testing.T) {
	root := t.TempDir()
	const bench = "../bench/"
	for name, files := range map[string]map[string]string{
		"vllm":      {"vllm-bench.json": "vllmserve/testdata/real/serve.json"},
		"sglang":    {"sglang-bench.jsonl": "sglang/testdata/sglang-bench.jsonl"},
		"aiperf":    {"profile_export_aiperf.json": "aiperf/testdata/profile_export_aiperf.json"},
		"guidellm":  {"benchmarks.json": "guidellm/testdata/v0.7.json"},
		"named":     {"poisson-benchmarks.json": "guidellm/testdata/v0.3.json"},
		"perf":      {"stage_0_lifecycle_metrics.json": "inferenceperf/testdata/stages/stage_0_lifecycle_metrics.json"},
		"latency":   {"latency.json": "vllmoffline/testdata/real/latency.json"},
		"offline":   {"throughput.json": "vllmoffline/testdata/real/throughput.json", "startup.json": "vllmoffline/testdata/real/startup.json"},
		"pictures":  {"mm-processor.json": "vllmoffline/testdata/real/mm-processor.json"},
		"eval/m__1": {"results_2026-11-22T01-18-52.json": "lmeval/testdata/lm_eval_gsm8k.json"},
		"both":      {"benchmarks.json": "guidellm/testdata/v0.7.json", "lm_eval.json": "lmeval/testdata/lm_eval_gsm8k.json", "latency.json": "vllmoffline/testdata/real/latency.json"},
	} {
		for to, from := range files {
			data, err := os.ReadFile(bench + from)
			require.NoError(t, err)
			write(t, filepath.Join(root, name), to, string(data))
		}
	}
	// The same names of other programs are nobody's run.
	write(t, root, "others/benchmarks.json", `{"context": {}, "benchmarks": [{"name": "BM_Sort/8"}]}`)
	write(t, root, "others/latency.json", `{"p99": 5}`)
	write(t, root, "others/mm-processor.json", `{"completed": 5}`)
	write(t, root, "others/results_2026.json", `{"winner": "b"}`)

	dirs, err := run.Find(root)
	require.NoError(t, err)
	got := map[string]*result.Result{}
	for _, dir := range dirs {
		rel, err := filepath.Rel(root, dir)
		require.NoError(t, err)
		got[rel] = only(t, collector(t), dir, nil)
	}
	require.Len(t, got, 11)
	for name, want := range map[string]struct {
		foreign string
		status  result.Status
	}{
		"vllm": {"vllm-serve", result.Completed}, "sglang": {"sglang-bench", result.Partial}, "aiperf": {"aiperf", result.Completed},
		"guidellm": {"guidellm", result.Completed}, "named": {"guidellm", result.Completed}, "perf": {"inference-perf", result.Completed},
		"latency": {"vllm-latency", result.Completed}, "offline": {"vllm-offline", result.Completed}, "eval/m__1": {"lm-eval", result.Completed},
		"both": {"guidellm", result.Completed}, "pictures": {"vllm-mm-processor", result.Completed},
	} {
		r := got[name]
		require.NotNil(t, r, name)
		require.Equal(t, want.foreign, r.Provenance.Foreign, name)
		require.Equal(t, want.status, r.Status, "%s: %v", name, r.Validity.Words)
		_, err := resulttest.Marshal(r)
		require.NoError(t, err)
	}
	require.Equal(t, 5, *got["both"].Results.CompletedRequests, "a served load has the word")
	require.Nil(t, got["both"].Results.Offline)
	require.InDelta(t, 0.7604, got["both"].Accuracy.Value, 1e-4)
	require.Equal(t, result.NotPossible, got["eval/m__1"].Validity.Check("result-missing").Outcome,
		"an evaluation measures no speed")
	require.InDelta(t, 2484.68, *got["offline"].Results.Offline.Throughput.TotalTokenThroughput, 0.01)
}

// What a client left cut short is not hidden by an evaluation beside it.
func TestForeignAccuracyBesideARuin(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../bench/guidellm/testdata/v0.7.json")
	require.NoError(t, err)
	write(t, dir, "benchmarks.json", string(data[:9000]))
	data, err = os.ReadFile("../bench/lmeval/testdata/lm_eval_gsm8k.json")
	require.NoError(t, err)
	write(t, dir, "lm_eval.json", string(data))
	r := only(t, collector(t), dir, nil)
	require.Equal(t, result.Failed, r.Status)
	require.Equal(t, "fail", outcome(t, r, "result-missing"))
	require.NotEmpty(t, r.Warnings)
	require.Equal(t, result.Truncated, r.Warnings[len(r.Warnings)-1].Kind)
}

// A run of CloudAI is none of these, and is not excused by its evaluation.
func TestCloudAIIsNotForeign(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "test-run.toml", "")
	data, err := os.ReadFile("../bench/lmeval/testdata/lm_eval_gsm8k.json")
	require.NoError(t, err)
	write(t, dir, "lm_eval.json", string(data))
	r := only(t, collector(t), dir, nil)
	require.Empty(t, r.Provenance.Foreign)
	require.Equal(t, result.Failed, r.Status)
}
