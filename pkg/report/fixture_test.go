package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/validity"
)

// root is the scenario's directory that the tests write, below a folder of
// their own.
const root = "results/night_2026-01-02_03-04-05"

// inTemp makes an empty folder the current one, so that reports name short paths.
func inTemp(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	old, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.Chdir(dir))
	t.Cleanup(func() { require.NoError(t, os.Chdir(old)) })
}

func write(t testing.TB, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// numbers is what a record of the tests measured.
type numbers struct {
	throughput float64
	ttft       float64 // mean, in ms; the median is 1 less, the P99 10 more
	done, of   int     // requests; 400 of 400 if zero
	accuracy   float64 // 0: none
	gpus       int     // per node; 4 if zero
	nodes      int     // 1 if zero
	seconds    float64 // of the run; 0: not known
	gpu        string
	simulated  bool
	status     result.Status
}

// recordOf makes a record as collect does, judged by the real rules.
func recordOf(n numbers) *result.Result {
	if n.of == 0 {
		n.done, n.of = 400, 400
	}
	if n.nodes == 0 {
		n.nodes = 1
	}
	if n.gpus == 0 {
		n.gpus = 4
	}
	if n.status == "" {
		n.status = result.Completed
	}
	r := &result.Result{
		RunID: "exp_20260102_030405_abcdef", Suite: "night/test", Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Status: n.status, Simulated: n.simulated,
		Config: result.Config{Server: map[string]any{"model": "m"}, Benchmark: result.Benchmark{MaxConcurrency: new(16)}},
		Placement: &result.Placement{Nodes: make([]string, n.nodes), Roles: []result.PlacedRole{
			{Role: "serve", Slice: result.Slice{Count: n.nodes}, GPUsPerNode: n.gpus, Hosts: []string{}},
		}},
	}
	for i := range r.Placement.Nodes {
		r.Placement.Nodes[i] = "n" + string(rune('1'+i))
	}
	if n.seconds > 0 {
		r.Duration = &n.seconds
	}
	if n.gpu != "" {
		r.System = &result.System{HardwareInfo: &result.Hardware{GPU: n.gpu}}
	}
	m := &result.Metrics{}
	m.NumPrompts, m.CompletedRequests, m.FailedRequests = &n.of, &n.done, new(n.of-n.done)
	m.TotalOutputTokens, m.TotalInputTokens, m.Duration = new(int64(n.done*64)), new(int64(n.done*512)), new(float64(n.done)*64/n.throughput)
	m.OutputThroughput, m.RequestThroughput = &n.throughput, new(n.throughput/64)
	m.MaxConcurrency = new(16)
	for stat, v := range map[string]float64{"mean": n.ttft, "median": n.ttft - 1, "p99": n.ttft + 10} {
		_ = m.SetLatency(result.TTFT, stat, v)
		_ = m.SetLatency(result.TPOT, stat, v/10)
	}
	part := result.Part{Metrics: m}
	if n.accuracy > 0 {
		part.Accuracy = &result.Accuracy{Task: "gsm8k", Value: n.accuracy, Questions: new(1319), Source: "raw/vllm-gsm8k.json"}
	}
	r.Merge(part)
	r.Validity = validity.Judge(r, validity.Evidence{})
	return r
}

// suspected makes a check of the record fail.
func suspected(r *result.Result) {
	v := r.Validity
	v.Verdict, v.Words = result.VerdictSuspect, append([]string{"throttled"}, v.Words...)
	v.Checks = append(v.Checks, result.Check{Word: "throttled", Outcome: result.Fail, Severity: result.Suspect, Detail: "6 % of the samples"})
}

// slowed gives a record some of its output in the same time.
func slowed(r *result.Result, share float64) {
	m := &r.Results
	*m.OutputThroughput *= share
	m.TotalOutputTokens = new(int64(share * float64(*m.TotalOutputTokens)))
	m.OutputPerGPU, m.OutputPerUser = nil, nil
	r.Derive()
}

func writeRecord(t testing.TB, dir string, r *result.Result) {
	t.Helper()
	data, err := result.Marshal(r)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "result.json"), string(data))
}

// planOf makes a plan for a directory below root.
func planOf(dir, test string) *plan.Plan {
	abs := filepath.Join("/elsewhere", dir) // as if the folder had been moved
	return &plan.Plan{
		Schema: plan.Schema, Scenario: "night", Test: test, Dir: abs, Image: "image:1", Workload: "vllm",
		Job:    plan.Job{Nodes: 1, GPUsPerNode: 4},
		Config: plan.Config{Model: "m", Server: map[string]any{"serve": map[string]any{"tensor_parallel_size": 4}}},
		Loads:  []plan.Load{{Dir: abs, Benchmark: map[string]any{"num_prompts": 400, "max_concurrency": 16}}},
	}
}

func writePlan(t testing.TB, dir string, p *plan.Plan) {
	t.Helper()
	data, err := p.Encode()
	require.NoError(t, err)
	write(t, filepath.Join(dir, "plan.json"), string(data))
}

// point writes one point of a sweep over the decode role's batch size.
func point(t testing.TB, test string, step, batch int, n numbers) {
	t.Helper()
	dir := filepath.Join(root, test, "0", string(rune('0'+step)))
	p := planOf(dir, test)
	p.Step = step
	p.Loads[0].Values = []plan.Assignment{{Path: "decode.max_num_seqs", Value: batch}}
	writePlan(t, dir, p)
	if n.throughput > 0 {
		writeRecord(t, dir, recordOf(n))
	}
}

// night writes one of everything.
func night(t testing.TB) {
	t.Helper()
	write(t, filepath.Join(root, "notes", "readme.txt"), "no run")
	write(t, filepath.Join(root, "agg", "old", "readme.txt"), "no number")
	for name, n := range map[string]numbers{
		"agg":    {throughput: 800, ttft: 50, accuracy: 0.8, nodes: 2, seconds: 600},
		"disagg": {throughput: 640, ttft: 40, nodes: 8, seconds: 600},
		"lossy":  {throughput: 900, ttft: 30, done: 300, of: 400, status: result.Partial},
	} {
		dir := filepath.Join(root, name, "0")
		p := planOf(dir, name)
		p.Job.Nodes = max(n.nodes, 1)
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(n))
	}
	write(t, filepath.Join(root, "broken", "0", "result.json"), `{"schema": "profllm.result/1", "run_id": `)
	writePlan(t, filepath.Join(root, "waiting", "0"), planOf(filepath.Join(root, "waiting", "0"), "waiting"))
	point(t, "sweep", 1, 16, numbers{throughput: 100, ttft: 20, seconds: 360, gpu: "NVIDIA GB200"})
	point(t, "sweep", 2, 64, numbers{throughput: 300, ttft: 30, seconds: 360, gpu: "NVIDIA GB200"})
	point(t, "sweep", 3, 256, numbers{throughput: 900, ttft: 35, done: 399, of: 400, status: result.Partial, seconds: 360, gpu: "NVIDIA GB200"})
	point(t, "sweep", 4, 128, numbers{throughput: 250, ttft: 90, seconds: 360, gpu: "NVIDIA GB200"})
	write(t, filepath.Join(root, "sweep", "0", "trajectory.csv"),
		"step,action,reward,observation\n1,\"{'decode.max_num_seqs': 16}\",100.0,[100.0]\n2,\"{'decode.max_num_seqs': 64}\",300.0,[300.0]\n4,\"{'decode.max_num_seqs': 128}\",250.0,[250.0]\n")
}

func load(t testing.TB, paths ...string) []report.Run {
	t.Helper()
	runs, err := report.Load(paths...)
	require.NoError(t, err)
	return runs
}

// toJSON shows a value for comparisons of structure.
func toJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
