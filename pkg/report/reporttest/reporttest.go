// Package reporttest writes records, plans and series of runs for tests of reports, with
// known numbers and a known noise.
package reporttest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

// Root is the scenario's directory that the tests write, below a folder of
// their own.
const Root = "results/night_2026-01-02_03-04-05"

// InTemp makes an empty folder the current one, so that reports name short paths.
func InTemp(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	old, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.Chdir(dir))
	t.Cleanup(func() { require.NoError(t, os.Chdir(old)) })
}

// Write writes a file, and its folders.
func Write(t testing.TB, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// Numbers is what a record of the tests measured.
type Numbers struct {
	Throughput float64
	TTFT       float64 // mean, in ms; the median is 1 less, the P99 10 more
	Done, Of   int     // requests; 400 of 400 if zero
	Accuracy   float64 // 0: none
	GPUs       int     // per node; 4 if zero
	Nodes      int     // 1 if zero
	Seconds    float64 // of the run; 0: not known
	GPU        string
	Simulated  bool
	Status     result.Status
}

// Record makes a record as collect does, judged by the real rules.
func Record(n Numbers) *result.Result {
	if n.Of == 0 {
		n.Done, n.Of = 400, 400
	}
	if n.Nodes == 0 {
		n.Nodes = 1
	}
	if n.GPUs == 0 {
		n.GPUs = 4
	}
	if n.Status == "" {
		n.Status = result.Completed
	}
	r := &result.Result{
		RunID: "exp_20260102_030405_abcdef", Suite: "night/test",
		Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Status:    n.Status, Simulated: n.Simulated,
		Config: result.Config{Server: map[string]any{"model": "m"},
			Benchmark: result.Benchmark{MaxConcurrency: new(16)}},
		Placement: &result.Placement{Nodes: make([]string, n.Nodes), Roles: []result.PlacedRole{
			{Role: "serve", Slice: result.Slice{Count: n.Nodes}, GPUsPerNode: n.GPUs, Hosts: []string{}},
		}},
	}
	for i := range r.Placement.Nodes {
		r.Placement.Nodes[i] = "n" + string(rune('1'+i))
	}
	if n.Seconds > 0 {
		r.Duration = &n.Seconds
	}
	if n.GPU != "" {
		r.System = &result.System{HardwareInfo: &result.Hardware{GPU: n.GPU}}
	}
	m := &result.Metrics{}
	m.NumPrompts, m.CompletedRequests, m.FailedRequests = &n.Of, &n.Done, new(n.Of-n.Done)
	m.TotalOutputTokens, m.TotalInputTokens = new(int64(n.Done*64)), new(int64(n.Done*512))
	m.Duration = new(float64(n.Done) * 64 / n.Throughput)
	m.OutputThroughput, m.RequestThroughput = &n.Throughput, new(n.Throughput/64)
	m.MaxConcurrency = new(16)
	for stat, v := range map[string]float64{"mean": n.TTFT, "median": n.TTFT - 1, "p99": n.TTFT + 10} {
		_ = m.SetLatency(result.TTFT, stat, v)
		_ = m.SetLatency(result.TPOT, stat, v/10)
	}
	part := result.Part{Metrics: m}
	if n.Accuracy > 0 {
		part.Accuracy = &result.Accuracy{
			Task: "gsm8k", Value: n.Accuracy, Questions: new(1319), Source: "raw/vllm-gsm8k.json",
		}
	}
	r.Merge(part)
	r.Validity = validity.Judge(r, validity.Evidence{})
	return r
}

// Suspect makes a check of the record fail.
func Suspect(r *result.Result) {
	v := r.Validity
	v.Verdict, v.Words = result.VerdictSuspect, append([]string{"throttled"}, v.Words...)
	v.Checks = append(v.Checks, result.Check{
		Word: "throttled", Outcome: result.Fail, Severity: result.Suspect, Detail: "6 % of the samples",
	})
}

// Slow gives a record some of its output in the same time.
func Slow(r *result.Result, share float64) {
	m := &r.Results
	*m.OutputThroughput *= share
	m.TotalOutputTokens = new(int64(share * float64(*m.TotalOutputTokens)))
	m.OutputPerGPU, m.OutputPerUser = nil, nil
	r.Derive()
}

// WriteRecord writes a record into a directory.
func WriteRecord(t testing.TB, dir string, r *result.Result) {
	t.Helper()
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	Write(t, filepath.Join(dir, "result.json"), string(data))
}

// Plan makes a plan for a directory below root.
func Plan(dir, test string) *plan.Plan {
	abs := filepath.Join("/elsewhere", dir) // as if the folder had been moved
	return &plan.Plan{
		Schema: plan.Schema, Scenario: "night", Test: test, Dir: abs, Image: "image:1", Workload: "vllm",
		Job:    plan.Job{Nodes: 1, GPUsPerNode: 4},
		Config: plan.Config{Model: "m", Server: map[string]any{"serve": map[string]any{"tensor_parallel_size": 4}}},
		Loads:  []plan.Load{{Dir: abs, Benchmark: map[string]any{"num_prompts": 400, "max_concurrency": 16}}},
	}
}

// WritePlan writes a plan into a directory.
func WritePlan(t testing.TB, dir string, p *plan.Plan) {
	t.Helper()
	data, err := p.Encode()
	require.NoError(t, err)
	Write(t, filepath.Join(dir, "plan.json"), string(data))
}

// Point writes one point of a sweep over the decode role's batch size.
func Point(t testing.TB, test string, step, batch int, n Numbers) {
	t.Helper()
	dir := filepath.Join(Root, test, "0", string(rune('0'+step)))
	p := Plan(dir, test)
	p.Step = step
	p.Loads[0].Values = []plan.Assignment{{Path: "decode.max_num_seqs", Value: batch}}
	WritePlan(t, dir, p)
	if n.Throughput > 0 {
		WriteRecord(t, dir, Record(n))
	}
}

// Night writes one of everything.
func Night(t testing.TB) {
	t.Helper()
	Write(t, filepath.Join(Root, "notes", "readme.txt"), "no run")
	Write(t, filepath.Join(Root, "agg", "old", "readme.txt"), "no number")
	for name, n := range map[string]Numbers{
		"agg":    {Throughput: 800, TTFT: 50, Accuracy: 0.8, Nodes: 2, Seconds: 600},
		"disagg": {Throughput: 640, TTFT: 40, Nodes: 8, Seconds: 600},
		"lossy":  {Throughput: 900, TTFT: 30, Done: 300, Of: 400, Status: result.Partial},
	} {
		dir := filepath.Join(Root, name, "0")
		p := Plan(dir, name)
		p.Job.Nodes = max(n.Nodes, 1)
		WritePlan(t, dir, p)
		WriteRecord(t, dir, Record(n))
	}
	Write(t, filepath.Join(Root, "broken", "0", "result.json"), `{"schema": "profllm.result/1", "run_id": `)
	WritePlan(t, filepath.Join(Root, "waiting", "0"), Plan(filepath.Join(Root, "waiting", "0"), "waiting"))
	Point(t, "sweep", 1, 16, Numbers{Throughput: 100, TTFT: 20, Seconds: 360, GPU: "NVIDIA GB200"})
	Point(t, "sweep", 2, 64, Numbers{Throughput: 300, TTFT: 30, Seconds: 360, GPU: "NVIDIA GB200"})
	Point(t, "sweep", 3, 256, Numbers{
		Throughput: 900, TTFT: 35, Done: 399, Of: 400, Status: result.Partial, Seconds: 360, GPU: "NVIDIA GB200",
	})
	Point(t, "sweep", 4, 128, Numbers{Throughput: 250, TTFT: 90, Seconds: 360, GPU: "NVIDIA GB200"})
	Write(t, filepath.Join(Root, "sweep", "0", "trajectory.csv"),
		"step,action,reward,observation\n"+
			"1,\"{'decode.max_num_seqs': 16}\",100.0,[100.0]\n"+
			"2,\"{'decode.max_num_seqs': 64}\",300.0,[300.0]\n"+
			"4,\"{'decode.max_num_seqs': 128}\",250.0,[250.0]\n")
}

// Load reads the records below paths.
func Load(t testing.TB, paths ...string) []records.Run {
	t.Helper()
	runs, err := records.Load(paths...)
	require.NoError(t, err)
	return runs
}

// JSON shows a value for comparisons of structure.
func JSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// Noise is a fixed wobble of about 1 %, in percent.
var Noise = []float64{0.3, -0.9, 0.8, -0.2, 1.1, -1.0, 0.1, -0.4, 0.6, -0.7, 0.9, -0.3}

// Runs writes runs of one test: throughput and TTFT around the given, by the noise
// times wobble.
func Runs(t *testing.T, dir string, n int, throughput, ttft, wobble float64, edits ...func(i int, r *result.Result)) {
	t.Helper()
	for i := range n {
		x := 1 + wobble*Noise[i%len(Noise)]/100
		r := Record(Numbers{Throughput: throughput * x, TTFT: ttft * (2 - x), GPU: "H100"})
		r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", len(dir)<<16+int(dir[0])<<8+i)
		r.Provenance = &result.Provenance{Profllm: "1", Engine: "vllm", EngineVersion: "1", Image: "image:1"}
		for _, e := range edits {
			e(i, r)
		}
		WriteRecord(t, fmt.Sprintf("%s/a/%d", dir, i), r)
	}
}

// Pair compares the runs below two with those below one.
func Pair(t *testing.T) *report.Report {
	t.Helper()
	r, err := report.Pair(Load(t, "one"), Load(t, "two"), nil)
	require.NoError(t, err)
	return r
}

// Nights writes a run a night with that throughput; the latencies vary by the noise
// alone.
func Nights(t *testing.T, dir string, throughput []float64, edits ...func(i int, r *result.Result)) {
	t.Helper()
	for i, x := range throughput {
		r := Record(Numbers{Throughput: x, TTFT: 50 * (1 + Noise[i*5%len(Noise)]/100), GPU: "H100"})
		r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", int(dir[0])<<16+i)
		r.Timestamp = time.Date(2026, 1, 2+i, 3, 0, 0, 0, time.UTC)
		r.Provenance = &result.Provenance{Profllm: "1", Engine: "vllm", EngineVersion: "1", Image: "image:1"}
		for _, e := range edits {
			e(i, r)
		}
		WriteRecord(t, fmt.Sprintf("%s/a/%d", dir, i), r)
	}
}

// Step are n throughputs of 1000 with 1 % of noise, by so much percent higher from
// there on.
func Step(n, at int, percent float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = 1000 * (1 + Noise[i%len(Noise)]/100)
		if i >= at {
			list[i] *= 1 + percent/100
		}
	}
	return list
}

// Trace puts the runs below paths into series; names are the metrics.
func Trace(t *testing.T, names []string, by []string, paths ...string) *report.Report {
	t.Helper()
	var metrics []metric.Metric
	for _, n := range names {
		m, err := metric.Find(n)
		require.NoError(t, err)
		metrics = append(metrics, m)
	}
	r, err := report.Trace(Load(t, paths...), metrics, by)
	require.NoError(t, err)
	return r
}

// Turns writes pairs of runs in the order A B B A. Every run is slower than the one
// before by drift, in percent of the first; those of the second side by slower.
func Turns(t *testing.T, pairs int, drift, slower float64, edits ...func(side string, i int, r *result.Result)) {
	t.Helper()
	for i := range pairs {
		for k, side := range []string{"first", "second"} {
			turn := 2*i + k
			if i%2 == 1 {
				turn = 2*i + 1 - k
			}
			x := 1 - (drift*float64(turn)+slower*float64(k))/100 + Noise[turn%len(Noise)]/400
			r := Record(Numbers{Throughput: 1000 * x, TTFT: 50, GPU: "H100"})
			r.RunID = fmt.Sprintf("exp_20260102_030405_%06x", turn)
			r.Provenance = &result.Provenance{Profllm: "1", Engine: "vllm", EngineVersion: "1", Image: "image:1"}
			for _, e := range edits {
				e(side, i, r)
			}
			WriteRecord(t, fmt.Sprintf("%s/a/%d", side, i), r)
		}
	}
}

// Confirm judges the pairs of Turns.
func Confirm(t *testing.T, names ...string) *report.Report {
	t.Helper()
	var metrics []metric.Metric
	for _, name := range names {
		m, err := metric.Find(name)
		require.NoError(t, err)
		metrics = append(metrics, m)
	}
	r, err := report.Confirm(Load(t, "first"), Load(t, "second"), metrics)
	require.NoError(t, err)
	return r
}

// Curve writes a sweep whose points are pairs of a concurrency and a number of prompts,
// for each of some sizes.
func Curve(t *testing.T, sizes []int, zip int, pairs ...[2]int) {
	t.Helper()
	step := 0
	for _, tp := range sizes {
		for _, x := range pairs {
			step++
			dir := fmt.Sprintf("%s/s/0/%d", Root, step)
			p := Plan(dir, "s")
			p.Step = step
			p.Config.Server = map[string]any{"serve": map[string]any{"tensor_parallel_size": tp}}
			p.Loads[0].Benchmark = map[string]any{"num_prompts": x[1], "max_concurrency": x[0]}
			p.Loads[0].Values = []plan.Assignment{
				{Path: "decode.tensor_parallel_size", Value: tp},
				{Path: "bench_cmd_args.max_concurrency", Value: x[0], Zip: zip},
				{Path: "bench_cmd_args.num_prompts", Value: x[1], Zip: zip},
			}
			WritePlan(t, dir, p)
			WriteRecord(t, dir,
				Record(Numbers{Throughput: float64(100 * x[0] * tp), TTFT: float64(10 + x[0]), Seconds: 60}))
		}
	}
}

// Configured writes a record that knows what was asked, and loads it.
func Configured(t *testing.T, dir string, edit func(*result.Result)) *records.Run {
	t.Helper()
	r := Record(Numbers{Throughput: 1000, TTFT: 50, GPU: "H100"})
	r.Provenance = &result.Provenance{
		Profllm: "1", Engine: "vllm", EngineVersion: "0.11.0", Image: "image:1", ImageDigest: "sha256:1",
		Launcher: "pyxis",
		Packages: []result.Package{{Name: "torch", Version: "2.8.0"}},
		Environment: []result.RoleEnv{
			{Role: "serve", Vars: map[string]string{"NCCL_DEBUG": "INFO", "VLLM_HOST_IP": "10.0.0.1"}},
		},
	}
	r.Config.Settings = map[string]string{
		"NUM_NODES": "1", "cmd_args.model": "m", "cmd_args.decode.max_num_seqs": "64",
		"bench_cmd_args.max_concurrency": "16", "extra_env_vars.A": "1", "cmd_args.docker_image_url": "image:1",
	}
	edit(r)
	WriteRecord(t, dir, r)
	return &Load(t, dir)[0]
}

// Diff compares a run with another that differs by an edit.
func Diff(t *testing.T, edit func(*result.Result)) *report.Delta {
	t.Helper()
	InTemp(t)
	d, err := report.Diff(Configured(t, "one", func(*result.Result) {}), Configured(t, "two", edit))
	require.NoError(t, err)
	return d
}
