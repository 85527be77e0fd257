package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// vllmHome returns the folder of the real vLLM, which make test-vllm installs. Without it, the
// test is skipped.
func vllmHome(t *testing.T) string {
	t.Helper()
	home := os.Getenv("VLLM_LAB")
	if home == "" {
		if os.Getenv("PROFLLM_REQUIRE_VLLM") == "1" {
			t.Fatal("VLLM_LAB is not set")
		}
		t.Skip("no real vLLM (make test-vllm)")
	}
	return home
}

// vllmLab returns a folder with the files of examples/vllm-lab, on the Slurm lab, and the folder
// of the real vLLM.
func vllmLab(t *testing.T) (dir, home string) {
	t.Helper()
	home = vllmHome(t)
	dir = lab(t)
	for _, name := range []string{"site.toml", "scenario.toml", "clients.toml", "sweep.toml", "search.toml",
		"tests/vllm-cpu.toml"} {
		data, err := os.ReadFile(filepath.Join("../../examples/vllm-lab", name))
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, []byte(strings.ReplaceAll(string(data), "@LAB@", home)), 0o644))
	}
	return dir, home
}

// The real engine on the lab: one server under vLLM's client, prefill and decode on
// two nodes with a real NIXL transfer through our proxy, and an engine that dies on
// its first request. .ci/run knows this test as the smoke test of the real vLLM.
//
// covers: PL-V1, PL-V16, PL-V25, PL-F11, PL-F15
func TestVLLMServes(t *testing.T) {
	dir, _ := vllmLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "scenario.toml", "--watch")
	require.Equal(t, exitJobFailed, o.code, "because of the engine that dies")
	results := resultsByTest(t, dir)
	require.Len(t, results, 3)
	requireServed(t, "agg.vllm/0", results["agg.vllm/0"])
	requireServed(t, "disagg.profllm/0", results["disagg.profllm/0"])
	requireTransferred(t, "disagg.profllm/0", results["disagg.profllm/0"])

	dead := results["enginedead/0"]
	require.False(t, dead.Validity.Valid)
	require.NotEqual(t, result.Completed, dead.Status)
	require.NotEqual(t, "COMPLETED", dead.Slurm.State)
	require.Equal(t, "serve", dead.Failure.Role)
	require.Contains(t, dead.Failure.Line, "head_dim=16", "the engine's own words")
	t.Logf("enginedead: %s: %s", dead.Failure.Cause, dead.Failure.Line)
}

// Both clients ask the same work of the real engine, and get it. How far apart the
// latencies are that they report is printed, beside how far apart two runs of one
// client are: every run has a server start of its own on a shared machine, and the
// Python client takes a part of the processor that the engine runs on. make bench
// compares the clients with a server of known latency.
//
// covers: PL-V1, PL-V16, PL-V25
func TestVLLMClients(t *testing.T) {
	dir, _ := vllmLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "clients.toml", "--watch")
	require.Equal(t, exitOK, o.code)
	results := resultsByTest(t, dir)
	require.Len(t, results, 5)
	for name, r := range results {
		requireServed(t, name, r)
	}
	requireTransferred(t, "disagg.vllm/0", results["disagg.vllm/0"])
	for _, f := range []result.Family{result.TPOT, result.E2EL} {
		value := func(client string, i int) float64 {
			return math.Log(median(t, results[fmt.Sprintf("agg.%s/%d", client, i)], f))
		}
		same := max(math.Abs(value("vllm", 0)-value("vllm", 1)), math.Abs(value("profllm", 0)-value("profllm", 1)))
		between := math.Abs(value("vllm", 0)+value("vllm", 1)-value("profllm", 0)-value("profllm", 1)) / 2
		t.Logf("%s: clients differ by a factor of %.2f, runs of one client by up to %.2f", f, math.Exp(between),
			math.Exp(same))
	}
}

// resultsByTest returns the results below dir by test and iteration.
func resultsByTest(t *testing.T, dir string) map[string]*result.Result {
	t.Helper()
	results := map[string]*result.Result{}
	for d, p := range runs(t, dir) {
		results[fmt.Sprintf("%s/%d", p.Test, p.Iteration)] = readResult(t, d)
	}
	return results
}

// requireServed holds a run of vllm-cpu against what its client was asked for.
func requireServed(t *testing.T, name string, r *result.Result) {
	t.Helper()
	require.NotNil(t, r, name)
	require.True(t, r.Validity.Valid, "%s: %v", name, r.Validity.Words)
	require.False(t, r.Simulated)
	for _, word := range []string{"wrong-server", "server-restarted", "engine-slower"} {
		c := r.Validity.Check(word)
		require.Equal(t, result.Pass, c.Outcome, "%s: %s", name, c.Detail)
	}
	require.NotEmpty(t, r.Provenance.EngineVersion)
	require.Equal(t, "COMPLETED", r.Slurm.State)
	m := r.Results
	require.Equal(t, 24, *m.CompletedRequests)
	require.EqualValues(t, 24*24, *m.TotalOutputTokens)
	require.InEpsilon(t, 24*300, *m.TotalInputTokens, 0.01, "the clients ask for the same work")
	t.Logf("%-17s %6.2f req/s, median TTFT %6.1f, TPOT %6.1f, E2EL %7.1f ms", name, *m.RequestThroughput,
		median(t, r, result.TTFT), median(t, r, result.TPOT), median(t, r, result.E2EL))
}

// requireTransferred holds the KV transfers of a disaggregated run of vllm-cpu
// against its requests.
func requireTransferred(t *testing.T, name string, r *result.Result) {
	t.Helper()
	require.Equal(t, []string{"node1", "node2"}, r.Placement.Nodes)
	kv := r.Results.KVTransfer
	require.NotNil(t, kv, name)
	// vLLM's client sends its first prompt once more before it starts.
	require.Contains(t, []int64{24, 25}, *kv.Transfers, "one transfer for each request of %s", name)
	require.Positive(t, *kv.Bytes)
	require.Zero(t, *kv.FailedTransfers)
	t.Logf("%s: %d KV transfers, %.1f MB, %.1f ms each", name, *kv.Transfers, *kv.Bytes/1e6, *kv.MeanTransferMS)
}

func median(t *testing.T, r *result.Result, f result.Family) float64 {
	t.Helper()
	v, ok := r.Results.Latency[f].Percentile(50)
	require.True(t, ok, "no %s", f)
	return v
}

// A Ray cluster of the real Ray over two and four nodes, with the simulated
// engine on top: vLLM itself refuses Ray on CPU. One of them is of four engines.
//
// covers: CD-12, PL-G8, PL-G10
func TestVLLMRealRay(t *testing.T) {
	dir, home := vllmLab(t)
	text := `name = "realray"
`
	for _, c := range []struct {
		id    string
		nodes int
		sizes string
	}{
		{"ray.2nodes", 2, "tensor_parallel_size = 8"},
		{"ray.4nodes", 4, "tensor_parallel_size = 16"},
		{"dp.2nodes", 2, "tensor_parallel_size = 2\ndata_parallel_size = 4\ndata_parallel_backend = \"ray\""},
	} {
		text += fmt.Sprintf(`[[Tests]]
id = %q
test_template_name = "vllm"
num_nodes = %d
time_limit = "8m"
[Tests.cmd_args.decode]
%s
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
`, c.id, c.nodes, c.sizes)
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
		require.Equal(t, p.Roles[0].DP > 1, strings.Contains(string(log), "--data-parallel-backend ray"))
		for rank, host := range r.Placement.Nodes {
			log, err := os.ReadFile(filepath.Join(d, run.LogDir, fmt.Sprintf("serve-%d.log", rank)))
			require.NoError(t, err)
			require.Contains(t, string(log), fmt.Sprintf("Ray rank %d of %d on %s", rank, p.Job.Nodes, host))
			require.Contains(t, string(log), "CUDA_VISIBLE_DEVICES="+plan.FormatGPUs(p.Roles[0].GPUs))
		}
		requireNoLeftovers(t, r.Slurm.JobID)
	}
}

// Headless data parallelism over two nodes: the first serves the API, each runs one rank, and
// both ranks answer requests, by vLLM's own counters and by the lines of the second one's log.
//
// covers: SRV-3
func TestVLLMHeadlessDP(t *testing.T) {
	d, p := vllmTwoNodes(t, `
data_parallel_size = 2
data_parallel_backend = "mp"
distributed_executor_backend = "uni"
api_server_count = 1
`)
	require.Equal(t, 2, p.Roles[0].DP)
	requireBothRanks(t, d)
}

// Four real engines on two nodes, two behind the API server of each: the servers meet, and each
// finishes a part of the requests that the proxy gives it.
//
// covers: SRV-20
func TestVLLMHybridDP(t *testing.T) {
	d, p := vllmTwoNodes(t, `
data_parallel_size = 4
data_parallel_hybrid_lb = true
distributed_executor_backend = "uni"
api_server_count = 1
`)
	require.Equal(t, []string{"serve_0", "serve_1", "proxy"}, []string{p.Roles[0].Name, p.Roles[1].Name, p.Roles[2].Name})
	finished := 0.0
	for i, s := range readResult(t, d).Results.Server {
		require.Equal(t, i, s.Replica)
		n := s.Counters["vllm:request_success_total"]
		require.Positive(t, n)
		finished += n
		t.Logf("server %d finished %.0f requests", i, n)
	}
	require.GreaterOrEqual(t, finished, 16.0)
	require.Contains(t, logOf(t, d, "serve_0-0.log"), "EngineCore_DP1")
	require.Contains(t, logOf(t, d, "serve_1-0.log"), "EngineCore_DP2")
	require.NotContains(t, logOf(t, d, "serve_1-0.log"), "EngineCore_DP0")
}

// One engine over two nodes without Ray: each runs one of two tensor-parallel workers.
//
// covers: SRV-4
func TestVLLMEngineOverNodes(t *testing.T) {
	d, _ := vllmTwoNodes(t, `
tensor_parallel_size = 2
distributed_executor_backend = "mp"
`)
	require.Contains(t, logOf(t, d, "serve-0.log"), "rank 0 in world size 2 is assigned as")
	worker := logOf(t, d, "serve-1.log")
	require.Contains(t, worker, "headless multiproc executor, with head node address")
	require.Contains(t, worker, "rank 1 in world size 2 is assigned as")
}

// vllmTwoNodes serves 16 requests with the real engine on two nodes of the lab.
func vllmTwoNodes(t *testing.T, decode string) (dir string, p *plan.Plan) {
	t.Helper()
	at, home := vllmLab(t)
	text := fmt.Sprintf(`name = "nodes"
[[Tests]]
id = "two"
test_template_name = "vllm"
nodes = ["node[1-2]"]
time_limit = "9m"
client = "profllm"
slurm = { exclusive = true }

[Tests.cmd_args]
model = %q
serve_wait_seconds = 400

[Tests.cmd_args.decode]
load_format = "dummy"
dtype = "float32"
enforce_eager = ""
max_model_len = 2048
max_num_seqs = 16
%s
[Tests.bench_cmd_args]
random_input_len = 32
random_output_len = 16
max_concurrency = 2
num_prompts = 16
`, filepath.Join(home, "tiny"), decode)
	require.NoError(t, os.WriteFile(filepath.Join(at, "nodes.toml"), []byte(text), 0o644))
	o := profllm(t, at, nil, "slurm", "submit", "--system", "site.toml", "nodes.toml", "--watch")
	require.Equal(t, exitOK, o.code)
	dir = only(t, at)
	r := readResult(t, dir)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.Equal(t, 16, *r.Results.CompletedRequests)
	require.Equal(t, []string{"node1", "node2"}, r.Placement.Nodes)
	requireNoLeftovers(t, r.Slurm.JobID)
	return dir, runs(t, at)[dir]
}

// requireBothRanks shows that the two ranks of a run with 16 requests finished some each.
func requireBothRanks(t *testing.T, dir string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, run.RawDir, "metrics-serve-after.prom"))
	require.NoError(t, err)
	finished := regexp.MustCompile(`vllm:request_success_total\{engine="(\d)",finished_reason="length",.*\} (\d+)\.0`)
	all, ranks := 0, map[string]int{}
	for _, line := range finished.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		ranks[line[1]] = n
		all += n
	}
	require.Equal(t, 16, all)
	require.Len(t, ranks, 2)
	require.Positive(t, ranks["0"])
	require.Positive(t, ranks["1"])
	t.Logf("requests by rank: %v", ranks)
	worker, err := os.ReadFile(filepath.Join(dir, run.LogDir, "serve-1.log"))
	require.NoError(t, err)
	require.Contains(t, string(worker), "Launching 1 data parallel engine(s) in headless mode, with head node address")
	require.Contains(t, string(worker), "EngineCore_DP1")
}

// Two servers, two loads, two runs each, on the real engine: the time of the
// server starts and of the benchmarks, and little else. vLLM's own sweep of the
// same points stands beside it.
func TestVLLMSweep(t *testing.T) {
	dir, home := vllmLab(t)
	start := time.Now()
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "sweep.toml", "--wait")
	took := time.Since(start)
	require.Equal(t, exitOK, o.code)
	var serving, measuring time.Duration
	loads := 0
	for d, p := range runs(t, dir) {
		events, err := job.ReadEvents(d)
		require.NoError(t, err)
		var begin, ready time.Time
		var claim run.Claim
		require.NoError(t, run.ReadJSON(filepath.Join(d, run.ClaimFile), &claim))
		for begin = claim.Time; len(events) > 0; events = events[1:] {
			if events[0].Event == job.AllReady {
				ready = events[0].Time
			}
		}
		serving += ready.Sub(begin)
		require.Len(t, p.Loads, 4)
		for _, l := range p.Loads {
			below, err := filepath.Rel(p.Dir, l.Dir)
			require.NoError(t, err)
			r := readResult(t, filepath.Join(d, below))
			require.True(t, r.Validity.Valid, "%s: %v", l.Name, r.Validity.Words)
			require.Equal(t, 16, *r.Results.CompletedRequests)
			require.Equal(t, l.Expect.Concurrency, *r.Config.Benchmark.MaxConcurrency)
			require.Equal(t, 2, r.Repeats.Of)
			measuring += time.Duration(*r.Results.Duration * float64(time.Second))
			loads++
		}
	}
	require.Equal(t, 8, loads)
	t.Logf("profllm: %.1f s: %.1f s for two server starts, %.1f s of benchmarks, %.1f s of everything else",
		took.Seconds(), serving.Seconds(), measuring.Seconds(), (took - serving - measuring).Seconds())
	t.Logf("vllm bench sweep serve: %.1f s for the same points", vllmSweep(t, home).Seconds())
}

// A search on the real engine, whose loads vLLM's own client measures: each probe is a run of
// `vllm bench serve`, and the record has the numbers of the best.
func TestVLLMSearch(t *testing.T) {
	dir, _ := vllmLab(t)
	o := profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "search.toml", "--wait")
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	r := readResult(t, d)
	require.Equal(t, result.Completed, r.Status)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.False(t, r.Simulated)
	require.Len(t, r.Search, 1)
	s, probes := r.Search[0], readSearch(t, filepath.Join(d, run.RawDir)).Probes
	require.Len(t, probes, s.Probes)
	require.True(t, s.Low != nil || s.High != nil || s.Measured != nil, s.Sentence)
	for _, p := range probes {
		var file struct {
			Tokenizer string `json:"tokenizer_id"` // which only vLLM's client writes
			Completed int
			Most      float64 `json:"max_concurrency"`
		}
		require.NoError(t, run.ReadJSON(filepath.Join(d, run.RawDir, p.Name, "vllm-bench.json"), &file))
		require.NotEmpty(t, file.Tokenizer)
		require.Equal(t, p.Value, file.Most)
		require.Equal(t, p.NumPrompts, file.Completed)
		t.Logf("%s: max_concurrency %g, %.1f s, %v", p.Name, p.Value, p.Seconds, p.Holds)
	}
	if s.Measured != nil {
		require.EqualValues(t, *s.Measured, *r.Results.MaxConcurrency)
	}
	report := profllm(t, dir, nil, "report", "results")
	require.Contains(t, report.stdout, s.Sentence)
}

// vllmSweep runs the same points with vLLM's own command, on one node of the lab.
func vllmSweep(t *testing.T, home string) time.Duration {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	model := filepath.Join(home, "tiny")
	serve := "vllm serve " + model +
		" --port 8399 --load-format dummy --dtype float32 --enforce-eager --max-model-len 2048 --distributed-executor-backend uni"
	bench := "vllm bench serve --model " + model +
		" --port 8399 --dataset-name random --random-input-len 32 --random-output-len 16 --ignore-eos"
	cmd := exec.Command("srun", "-N1", "-n1", "-w", "node1", "--exclusive", "--mpi=none",
		filepath.Join(home, "venv/bin/vllm"), "bench", "sweep", "serve",
		"--serve-cmd", serve, "--bench-cmd", bench, "--num-runs", "2", "-o", dir,
		"--serve-params", write("serve.json", `[{"_benchmark_name":"s16","max_num_seqs":16},{"_benchmark_name":"s8","max_num_seqs":8}]`),
		"--bench-params", write("bench.json", `[{"_benchmark_name":"c4","max_concurrency":4,"num_prompts":16},{"_benchmark_name":"c8","max_concurrency":8,"num_prompts":16}]`))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(home, "venv/bin")+":"+os.Getenv("PATH"), "HF_HUB_OFFLINE=1",
		"VLLM_CPU_KVCACHE_SPACE=1",
		"VLLM_CPU_OMP_THREADS_BIND=nobind", "VLLM_ENABLE_V1_MULTIPROCESSING=0", "OMP_NUM_THREADS=1", "VLLM_SERVER_DEV_MODE=1")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out[max(0, len(out)-2000):])
	return time.Since(start)
}

// One experiment on this machine, from its file to its record: under vLLM's client and under
// ours, with the real engine, which gets nothing of Slurm.
//
// covers: LIB-1, LIB-2, LIB-4, LIB-6, LIB-10, LRES-3, LBEN-1, PERF-4
func TestVLLMRun(t *testing.T) {
	dir, home := t.TempDir(), vllmHome(t)
	site, err := os.ReadFile("../../examples/vllm-lab/site.toml")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(site), "@LAB@", home)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(text), 0o644))
	data, err := os.ReadFile("../../examples/vllm-lab/experiment.yaml")
	require.NoError(t, err)
	text = strings.ReplaceAll(string(data), "@LAB@", home)
	for _, client := range []string{"vllm", "profllm"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, client+".yaml"), []byte(text+"client: "+client+"\n"), 0o644))
		begun := time.Now()
		o := profllm(t, dir, nil, "run", "--system", "site.toml", "--config", client+".yaml", "--output", client+".json")
		took := time.Since(begun)
		require.Equal(t, exitOK, o.code)
		r := recordIn(t, filepath.Join(dir, client+".json"))
		require.Equal(t, result.Completed, r.Status)
		require.True(t, r.Validity.Valid, r.Validity.Words)
		require.Equal(t, "baseline_performance/tiny", r.Suite)
		require.Equal(t, 24, *r.Results.CompletedRequests)
		require.EqualValues(t, "float32", r.Config.Server["dtype"])
		require.NotEmpty(t, r.Provenance.EngineVersion)
		require.Nil(t, r.Slurm, "there is none")
		t.Logf("%s: %.1f s in all, %.2f req/s, median TTFT %.1f ms", client, took.Seconds(), *r.Results.RequestThroughput,
			median(t, r, result.TTFT))
	}
	o := profllm(t, dir, nil, "run", "--system", "site.toml", "--simulate", "vllm.yaml", "--output", "nowhere/r.json")
	require.Equal(t, exitUsage, o.code)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(strings.Replace(text, "float32", "float33", 1)), 0o644))
	o = profllm(t, dir, nil, "run", "--system", "site.toml", "bad.yaml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "argument --dtype: invalid choice: 'float33'")
}

// vLLM's benchmarks without a server, with the real engine on this machine: each leaves one record,
// whose numbers are in results.offline.
//
// covers: OFF-7, OFF-8
func TestVLLMOffline(t *testing.T) {
	dir, home := t.TempDir(), vllmHome(t)
	site, err := os.ReadFile("../../examples/vllm-lab/site.toml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), []byte(strings.ReplaceAll(string(site), "@LAB@", home)), 0o644))
	pictures := filepath.Join(dir, "llava")
	python := exec.Command(filepath.Join(home, "venv/bin/python"), "../../examples/vllm-lab/pictures.py",
		filepath.Join(home, "tiny"), pictures)
	out, err := python.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text := "name = \"offline\"\n"
	for kind, options := range map[string]string{
		"mm-processor": "num_prompts = 12\nnum_warmups = 2\nrandom_input_len = 16\nrandom_output_len = 4\n" +
			"random_mm_base_items_per_request = 1\nrandom_mm_limit_mm_per_prompt = { image = 1, video = 0 }\n" +
			"random_mm_bucket_config = \"{(64, 64, 1): 1.0}\"",
		"latency":    "input_len = 32\noutput_len = 8\nbatch_size = 4\nnum_iters_warmup = 1\nnum_iters = 5",
		"throughput": "num_prompts = 16\nrandom_input_len = 32\nrandom_output_len = 8",
		"startup":    "num_iters_cold = 1\nnum_iters_warmup = 1\nnum_iters_warm = 1",
		"requests":   "num_prompts = 16\ninput_len = 32\noutput_len = 8",
	} {
		model := filepath.Join(home, "tiny")
		if kind == "mm-processor" {
			model = pictures
		}
		text += fmt.Sprintf(`
[[Tests]]
id = %q
test_template_name = "vllm-offline"
time_limit = "9m"
[Tests.cmd_args]
benchmark = %q
model = %q
[Tests.cmd_args.engine]
load_format = "dummy"
dtype = "float32"
enforce_eager = true
max_model_len = 2048
gpu_memory_utilization = 0.3
distributed_executor_backend = "uni"
[Tests.cmd_args.options]
%s
`, kind, kind, model, options)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, nil, "run", "--system", "site.toml", "s.toml")
	require.Equal(t, exitOK, o.code)
	for d, p := range runs(t, dir) {
		r := readResult(t, d)
		require.True(t, r.Validity.Valid, "%s: %v", p.Test, r.Validity.Words)
		require.Equal(t, "vllm-"+p.Test, r.Config.Benchmark.Kind)
		require.NotNil(t, r.Results.Offline, p.Test)
		switch off := r.Results.Offline; p.Test {
		case "latency":
			require.Equal(t, 5, *off.Batch.Latency.N)
		case "throughput":
			require.EqualValues(t, 16, *off.Throughput.Requests)
			require.EqualValues(t, 16*8, *off.Throughput.OutputTokens, "an end of text ends no answer")
		case "startup":
			require.Equal(t, 1, *off.Startup.Cold.N)
		case "mm-processor":
			p := off.Processor
			require.Equal(t, []int{12, 0, 12}, []int{*p.Completed, *p.Failed, int(*p.EncoderCalls)})
			require.Positive(t, *p.Encoder.Mean)
			require.Greater(t, *p.E2EL.Mean, *p.Preprocessing.Mean)
			require.Len(t, p.HFProcessor.Percentiles, 4)
		case "requests":
			require.Equal(t, 16, *off.Requests.TTFT.N)
			require.Positive(t, off.Requests.TTFT.Percentiles["50"])
			require.Positive(t, *off.Requests.TPOT.Mean)
			require.EqualValues(t, 16*8, *off.Throughput.OutputTokens, "an end of text ends no answer")
			require.LessOrEqual(t, *off.Requests.E2EL.Mean, *off.Throughput.Duration)
		}
	}
}
