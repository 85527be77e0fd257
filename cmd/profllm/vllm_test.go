package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// vllmLab returns a folder with the files of examples/vllm-lab, on the Slurm lab.
// Without the real vLLM, which make test-vllm installs, the test is skipped.
func vllmLab(t *testing.T) (dir, home string) {
	t.Helper()
	home = os.Getenv("VLLM_LAB")
	if home == "" {
		if os.Getenv("PROFLLM_REQUIRE_VLLM") == "1" {
			t.Fatal("VLLM_LAB is not set")
		}
		t.Skip("no real vLLM (make test-vllm)")
	}
	dir = lab(t)
	for _, name := range []string{"site.toml", "scenario.toml", "tests/vllm-cpu.toml"} {
		data, err := os.ReadFile(filepath.Join("../../examples/vllm-lab", name))
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, []byte(strings.ReplaceAll(string(data), "@LAB@", home)), 0o644))
	}
	return dir, home
}

// The real engine on the lab: one server, and prefill and decode on two nodes
// with a real NIXL transfer through our proxy, each under both clients; and an
// engine that dies on its first request.
//
// covers: PL-V1, PL-V16, PL-F11, PL-F15
func TestVLLMServes(t *testing.T) {
	dir, _ := vllmLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "scenario.toml", "--watch")
	results := map[string]*result.Result{}
	for d, p := range runs(t, dir) {
		results[p.Test] = readResult(t, d)
	}
	require.Len(t, results, 5)
	require.Equal(t, exitJobFailed, o.code, "because of the engine that dies")

	for _, test := range []string{"agg.vllm", "agg.profllm", "disagg.vllm", "disagg.profllm"} {
		r := results[test]
		require.True(t, r.Validity.Valid, "%s: %v", test, r.Validity.Words)
		require.False(t, r.Simulated)
		require.Equal(t, "COMPLETED", r.Slurm.State)
		m := r.Results
		require.Equal(t, 24, *m.CompletedRequests)
		require.EqualValues(t, 24*24, *m.TotalOutputTokens)
		t.Logf("%-15s %.2f req/s, TTFT p50 %s ms, TPOT p50 %s ms", test, *m.RequestThroughput, median(m, result.TTFT), median(m, result.TPOT))
	}
	for _, kind := range []string{"agg", "disagg"} {
		vllm, ours := results[kind+".vllm"], results[kind+".profllm"]
		require.Equal(t, *vllm.Results.TotalInputTokens, *ours.Results.TotalInputTokens, "the clients ask for the same work")
		agree(t, kind, vllm, ours)
	}
	for _, test := range []string{"disagg.vllm", "disagg.profllm"} {
		r := results[test]
		require.Equal(t, []string{"node1", "node2"}, r.Placement.Nodes)
		kv := r.Results.KVTransfer
		require.NotNil(t, kv, test)
		require.EqualValues(t, 24, *kv.Transfers-warmups(kv), "one transfer for each request of %s", test)
		require.Positive(t, *kv.Bytes)
		require.Zero(t, *kv.FailedTransfers)
	}

	dead := results["enginedead"]
	require.False(t, dead.Validity.Valid)
	require.NotEqual(t, result.Completed, dead.Status)
	require.NotEqual(t, "COMPLETED", dead.Slurm.State)
	require.Equal(t, "serve", dead.Failure.Role)
	require.Contains(t, dead.Failure.Line, "head_dim=16", "the engine's own words")
	t.Logf("enginedead: %s: %s", dead.Failure.Cause, dead.Failure.Line)
}

func median(m result.Metrics, f result.Family) string {
	v, ok := m.Latency[f].Percentile(50)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

// warmups is the number of transfers beyond the measured requests: vLLM's client
// sends its first prompt once more before it starts.
func warmups(kv *result.KVTransfer) int64 {
	if *kv.Transfers == 25 {
		return 1
	}
	return 0
}

// agree compares what two clients saw of equal servers. Each run has a server
// start of its own, on a machine that has nothing to spare for the Python client
// beside the engine, so this says only that both measure the same thing: no
// metric differs by more than a factor that separate starts explain.
func agree(t *testing.T, kind string, a, b *result.Result) {
	t.Helper()
	for _, f := range []result.Family{result.TPOT, result.E2EL} {
		x, okX := a.Results.Latency[f].Percentile(50)
		y, okY := b.Results.Latency[f].Percentile(50)
		require.True(t, okX && okY)
		t.Logf("%s median %s: vllm %.1f ms, profllm %.1f ms, ratio %.2f", kind, f, x, y, x/y)
		require.Less(t, math.Abs(math.Log(x/y)), math.Log(4), "%s %s", kind, f)
	}
}

// A Ray cluster of the real Ray over two and four nodes, with the simulated
// engine on top: vLLM itself refuses Ray on CPU.
//
// covers: CD-12, PL-G8, PL-G10
func TestVLLMRealRay(t *testing.T) {
	dir, home := vllmLab(t)
	text := `name = "realray"
`
	for _, n := range []int{2, 4} {
		text += fmt.Sprintf(`[[Tests]]
id = "ray.%dnodes"
test_template_name = "vllm"
num_nodes = %d
time_limit = "8m"
[Tests.cmd_args.decode]
tensor_parallel_size = %d
[Tests.cmd_args.decode.ray_head]
num_cpus = 1
num_gpus = 4
object_store_memory = 100000000
[Tests.cmd_args.decode.ray_worker]
num_cpus = 1
num_gpus = 4
object_store_memory = 100000000
[Tests.bench_cmd_args]
num_prompts = 40
[Tests.semantic_eval_cmd_args]
[Tests.slurm]
exclusive = true
`, n, n, 4*n)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ray.toml"), []byte(text), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_RAY=" + filepath.Join(home, "venv/bin/ray")},
		"slurm", "submit", "--simulate", "--system", "site.toml", "ray.toml", "--wait")
	require.Equal(t, exitOK, o.code)
	for d, p := range runs(t, dir) {
		r := readResult(t, d)
		require.True(t, r.Validity.Valid, r.Validity.Words)
		log, err := os.ReadFile(filepath.Join(d, run.LogDir, "serve-0.log"))
		require.NoError(t, err)
		require.Contains(t, string(log), fmt.Sprintf("Ray has %d of %d nodes", p.Job.Nodes, p.Job.Nodes))
		for rank, host := range r.Placement.Nodes {
			log, err := os.ReadFile(filepath.Join(d, run.LogDir, fmt.Sprintf("serve-%d.log", rank)))
			require.NoError(t, err)
			require.Contains(t, string(log), fmt.Sprintf("Ray rank %d of %d on %s", rank, p.Job.Nodes, host))
			require.Contains(t, string(log), "CUDA_VISIBLE_DEVICES="+plan.FormatGPUs(p.Roles[0].GPUs))
		}
		requireNoLeftovers(t, r.Slurm.JobID)
	}
}
