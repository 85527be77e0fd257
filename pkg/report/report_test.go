package report_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/scenario"
)

func labels(rep *report.Report) []string {
	var out []string
	for _, e := range rep.Runs {
		out = append(out, e.Label)
	}
	return out
}

func row(t *testing.T, c report.Comparison, key string) report.Row {
	t.Helper()
	for _, s := range c.Sections {
		for _, r := range s.Rows {
			if r.Key == key {
				return r
			}
		}
	}
	t.Fatalf("no row %s", key)
	return report.Row{}
}

// A directory that is no number, a broken record, a broken plan and a broken
// trajectory spoil nothing but themselves.
//
// covers: CD-31
func TestWhatIsBrokenSpoilsNothingElse(t *testing.T) {
	inTemp(t)
	writeRecord(t, root+"/a/0", recordOf(numbers{Throughput: 100, TTFT: 10}))
	writeRecord(t, root+"/a/final", recordOf(numbers{Throughput: 100, TTFT: 10}))
	writeRecord(t, root+"/a/10", recordOf(numbers{Throughput: 100, TTFT: 10}))
	writeRecord(t, root+"/a/9", recordOf(numbers{Throughput: 100, TTFT: 10}))
	writeRecord(t, root+"/a/0/attempts/1", recordOf(numbers{Throughput: 1, TTFT: 1}))
	writeRecord(t, root+"/a/0/pre_test/nccl", recordOf(numbers{Throughput: 1, TTFT: 1}))
	write(t, root+"/b/0/result.json", "\x00\xff")
	write(t, root+"/c/0/result.json", `{"schema": "profllm.result/99"}`)
	write(t, root+"/d/0/plan.json", `{"schema": "profllm.plan/2", "loads": [`)
	writeRecord(t, root+"/d/0", recordOf(numbers{Throughput: 100, TTFT: 10}))
	write(t, root+"/e/0/plan.json", `{"schema": "profllm.plan/7"}`)
	write(t, root+"/f/0/trajectory.csv", "\"")
	writeRecord(t, root+"/f/0/1", recordOf(numbers{Throughput: 100, TTFT: 10}))
	write(t, root+"/g/0/test-run.toml", "name = ")
	writeRecord(t, "results/next_2026-01-03_03-04-05.partial-host-1/a/0", recordOf(numbers{Throughput: 1, TTFT: 1}))

	rep := report.Build(load(t, "results"), report.Options{})
	require.Equal(t, []string{"a", "a iter=9", "a iter=10", "final", "b", "c", "d", "e", "f step=1", "g"}, labels(rep))
	reasons := map[string]string{}
	for _, e := range rep.Runs {
		if !e.Usable {
			reasons[e.Label] = e.Reason
		}
	}
	require.Len(t, reasons, 4)
	require.Contains(t, reasons["b"], "decode result")
	require.Contains(t, reasons["c"], `unknown schema "profllm.result/99"`)
	require.Contains(t, reasons["e"], `schema is "profllm.plan/7"`)
	require.Contains(t, reasons["g"], "profllm collect")
}

// A test may have any name, a folder may be a link, and runs of the same name are
// told apart.
func TestNamesOfFolders(t *testing.T) {
	inTemp(t)
	for _, dir := range []string{root + "/bin/0", root + "/raw/0", "again/bin/0"} {
		writeRecord(t, dir, recordOf(numbers{Throughput: 100, TTFT: 10}))
	}
	write(t, root+"/bin/0/raw/vllm-bench.json", "{}")
	require.NoError(t, os.Symlink("results", "latest"))
	require.Equal(t, []string{"bin run=1", "bin run=2", "raw"},
		labels(report.Build(load(t, "again", "latest"), report.Options{})))
}

// GPUs count over all nodes of every role, from the plan and from the placement
// alike.
//
// covers: CD-32, CD-33
func TestRatesPerGPU(t *testing.T) {
	sys, err := config.Parse("sys.toml",
		[]byte("name = \"x\"\nscheduler = \"slurm\"\ninstall_path = \"/i\"\noutput_path = \"/o\"\ndefault_partition = \"p\"\ngpus_per_node = 4\n"))
	require.NoError(t, err)
	s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(`name = "s"
[[Tests]]
id = "agg"
test_template_name = "vllm"
num_nodes = 2
launcher = "bare"
[[Tests]]
id = "disagg"
test_template_name = "vllm"
num_nodes = 8
launcher = "bare"
[Tests.cmd_args.prefill]
num_nodes = 4
gpu_ids = "0,1,2,3"
[Tests.cmd_args.decode]
num_nodes = 4
gpu_ids = "0,1,2,3"
`)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	set, err := planner.Plans(s, sys,
		planner.Options{Created: time.Unix(0, 0), Output: "/o", WorkDir: "/", Binary: "/b"})
	require.NoError(t, err)
	for i, want := range map[int]int{0: 8, 1: 32} {
		p := set.Plans[i]
		require.Equal(t, want, p.Loads[0].Expect.GPUs, p.Test)
		placed := result.Placement{}
		for _, role := range p.Roles {
			placed.Roles = append(placed.Roles,
				result.PlacedRole{Role: role.Name, GPUsPerNode: len(role.GPUs),
					Slice: result.Slice{Count: role.Nodes.Count}})
		}
		for _, r := range []*result.Result{
			{Results: result.Metrics{Counts: result.Counts{GPUs: &p.Loads[0].Expect.GPUs}}}, {Placement: &placed},
		} {
			m := &result.Metrics{}
			m.OutputThroughput, m.MaxConcurrency = new(6400.0), new(64)
			r.Merge(result.Part{Metrics: m})
			for name, v := range map[string]float64{"tps-per-gpu": 6400 / float64(want), "tps-per-user": 100,
				"throughput": 6400} {
				m, err := metric.Find(name)
				require.NoError(t, err)
				require.Equal(t, v, *m.Of(r).Number, "%s of %s", name, p.Test)
			}
		}
	}
}

// What a record does not have is n/a, never 0.
func TestAbsentIsNotZero(t *testing.T) {
	inTemp(t)
	r := recordOf(numbers{Throughput: 100, TTFT: 10})
	r.Results.Latency, r.Results.OutputPerGPU = nil, nil
	writeRecord(t, root+"/a/0", r)
	rep := report.Build(load(t, root), report.Options{})
	out := text(t, rep)
	require.Regexp(t, `Mean TTFT \(ms\) +n/a`, out)
	require.Regexp(t, `TPS/GPU \(tok/s\) +n/a`, out)
	require.Regexp(t, `Accuracy +n/a`, out)
	var object bytes.Buffer
	require.NoError(t, format.JSON(&object, rep))
	require.NotContains(t, object.String(), `"mean_ttft_ms": 0`)
}

// A number that its record withholds is shown nowhere, is no difference and is
// not the best.
func TestWithheld(t *testing.T) {
	inTemp(t)
	point(t, "s", 1, 16, numbers{Throughput: 100, TTFT: 1234, Done: 20, Of: 20})
	point(t, "s", 2, 32, numbers{Throughput: 90, TTFT: 2000})
	m, err := metric.Find("p99_ttft_ms")
	require.NoError(t, err)
	rep := report.Build(load(t, root), report.Options{Objective: m})
	p99 := row(t, rep.Comparisons[0], "p99_ttft_ms")
	require.Equal(t, metric.Value{Withheld: true}, p99.Values[0])
	require.Equal(t, 2010.0, *p99.Values[1].Number)
	require.Nil(t, p99.Difference)
	require.Equal(t, 1, *rep.Sweeps[0].Best)
	for _, form := range []string{"text", "markdown", "json", "csv"} {
		var out bytes.Buffer
		require.NoError(t, format.Write(&out, rep, form))
		require.NotContains(t, out.String(), "1244", form)
		require.Contains(t, out.String(), "1234", form)
	}
}

func TestGrouping(t *testing.T) {
	inTemp(t)
	for i, c := range []struct {
		tp, prompts int
		env         string
	}{{1, 100, "a"}, {2, 100, "a"}, {2, 200, "b"}} {
		dir := fmt.Sprintf("%s/t%d/0", root, i)
		p := planOf(dir, fmt.Sprintf("t%d", i))
		p.Config.Server["serve"] = map[string]any{"tensor_parallel_size": c.tp, "nested": map[string]any{"deep": c.tp}}
		p.Loads[0].Benchmark["num_prompts"] = c.prompts
		p.Env = []plan.Var{{Name: "MODE", Value: plan.Text(c.env)},
			{Name: "TOKEN", Value: plan.Word{{Env: "HF_TOKEN"}}}}
		writePlan(t, dir, p)
		writeRecord(t, dir, recordOf(numbers{Throughput: 100, TTFT: 10}))
	}
	runs := load(t, root)
	for _, c := range []struct {
		by     []string
		groups []string
		labels [][]string
	}{
		{nil, []string{"all-in-one"}, [][]string{{
			"bench_cmd_args.num_prompts=100 cmd_args.decode.nested.deep=1 cmd_args.decode.tensor_parallel_size=1 extra_env_vars.MODE=a",
			"bench_cmd_args.num_prompts=100 cmd_args.decode.nested.deep=2 cmd_args.decode.tensor_parallel_size=2 extra_env_vars.MODE=a",
			"bench_cmd_args.num_prompts=200 cmd_args.decode.nested.deep=2 cmd_args.decode.tensor_parallel_size=2 extra_env_vars.MODE=b",
		}}},
		{[]string{"bench_cmd_args.num_prompts"}, []string{"bench_cmd_args.num_prompts=100", "bench_cmd_args.num_prompts=200"}, [][]string{
			{"cmd_args.decode.nested.deep=1 cmd_args.decode.tensor_parallel_size=1", "cmd_args.decode.nested.deep=2 cmd_args.decode.tensor_parallel_size=2"},
			{"bench_cmd_args.num_prompts=200.0"},
		}},
		{[]string{"decode.tensor_parallel_size", "extra_env_vars.MODE"}, []string{
			"decode.tensor_parallel_size=1 extra_env_vars.MODE=a", "decode.tensor_parallel_size=2 extra_env_vars.MODE=a", "decode.tensor_parallel_size=2 extra_env_vars.MODE=b",
		}, nil},
		{[]string{"cmd_args.decode"}, []string{"cmd_args.decode=nested.deep=1 tensor_parallel_size=1", "cmd_args.decode=nested.deep=2 tensor_parallel_size=2"}, nil},
		{[]string{"model", "extra_env_vars.TOKEN"}, []string{"model=m extra_env_vars.TOKEN=${env:HF_TOKEN}"}, nil},
	} {
		require.NoError(t, records.UnknownKeys(runs, c.by))
		rep := report.Build(runs, report.Options{GroupBy: c.by})
		var groups []string
		for i, x := range rep.Comparisons {
			groups = append(groups, x.Group)
			if c.labels != nil {
				var have []string
				for _, col := range x.Columns {
					have = append(have, col.Label)
				}
				require.Equal(t, c.labels[i], have)
			}
		}
		require.Equal(t, c.groups, groups)
	}
	require.EqualError(t, records.UnknownKeys(runs, []string{"bench_cmd_args.num_promts", "model"}),
		"group_by: no run has the key \"bench_cmd_args.num_promts\"\n\thint: did you mean \"bench_cmd_args.num_prompts\"?")
}

// With exactly two runs there is a difference, second less first; its percent is of the first.
func TestDifference(t *testing.T) {
	inTemp(t)
	writeRecord(t, root+"/a/0", recordOf(numbers{Throughput: 120, TTFT: 10}))
	writeRecord(t, root+"/b/0", recordOf(numbers{Throughput: 100, TTFT: 11}))
	c := report.Build(load(t, root), report.Options{}).Comparisons[0]
	d := row(t, c, "output_throughput").Difference
	require.Equal(t, -20.0, d.Absolute)
	require.InDelta(t, -100.0/6, *d.Percent, 1e-9)
	require.Nil(t, row(t, c, "accuracy").Difference)
	require.Equal(t, "all-in-one.0", c.Columns[0].Label)

	zero := recordOf(numbers{Throughput: 120, TTFT: 11})
	zero.Results.OutputPerUser = new(0.0)
	writeRecord(t, root+"/a/0", zero)
	c = report.Build(load(t, root), report.Options{}).Comparisons[0]
	d = row(t, c, "output_throughput_per_user").Difference
	require.Positive(t, d.Absolute)
	require.Nil(t, d.Percent, "of nothing there is no percentage")

	writeRecord(t, root+"/c/0", recordOf(numbers{Throughput: 100, TTFT: 11}))
	c = report.Build(load(t, root), report.Options{}).Comparisons[0]
	require.Nil(t, row(t, c, "output_throughput").Difference)
}

// Simulated and profiled runs stand beside their like only, and say what they are.
func TestKindsAreNotMixed(t *testing.T) {
	inTemp(t)
	writeRecord(t, root+"/real/0", recordOf(numbers{Throughput: 120, TTFT: 10}))
	writeRecord(t, root+"/sim/0", recordOf(numbers{Throughput: 999, TTFT: 1, Simulated: true}))
	profiled := recordOf(numbers{Throughput: 90, TTFT: 10})
	profiled.Profiling = &result.Profiling{Enabled: true}
	writeRecord(t, root+"/traced/0", profiled)
	rep := report.Build(load(t, root), report.Options{})
	require.Len(t, rep.Comparisons, 3)
	for i, group := range []string{"all-in-one", "all-in-one (simulated)", "all-in-one (profiled)"} {
		require.Equal(t, group, rep.Comparisons[i].Group)
		require.Len(t, rep.Comparisons[i].Columns, 1)
	}
	for _, form := range []string{"text", "markdown"} {
		var out bytes.Buffer
		require.NoError(t, format.Write(&out, rep, form))
		require.Contains(t, out.String(), "SIMULATED: 1 of 3 runs")
		require.Contains(t, out.String(), "valid (simulated)")
	}
	_, err := report.Pair(load(t, root+"/real"), load(t, root+"/sim"), nil)
	require.ErrorContains(t, err, "never compared")

	write(t, root+"/open/0/result.json", "{")
	var out bytes.Buffer
	require.NoError(t, format.Write(&out, report.Build(load(t, root), report.Options{}), "text"))
	require.Contains(t, out.String(), "SIMULATED: 1 of 3 runs had a simulated engine (1 more without a record); ")
}

func TestSweep(t *testing.T) {
	inTemp(t)
	night(t)
	rep := report.Build(load(t, root), report.Options{})
	require.Len(t, rep.Sweeps, 1)
	s := rep.Sweeps[0]
	require.Len(t, s.Points, 4)
	require.Equal(t, 2, s.Points[*s.Best].Step, "step 3 was faster, but lost a request")
	require.False(t, s.Points[2].Usable)
	require.Equal(t, []records.Setting{{Key: "cmd_args.decode.max_num_seqs", Value: "64"}}, s.Points[1].Values)
	require.Equal(t, 300.0, *s.Points[1].Reward)
	require.Nil(t, s.Points[2].Reward)
	c := s.Cost
	require.Equal(t, []float64{360, 1440, 1440, 0}, []float64{*c.Average, *c.Observed, *c.Projected, *c.Saved})
	require.InDelta(t, 1.6, *c.GPUHours, 1e-9)
	require.InDelta(t, 17.6, *c.USD, 1e-9)
	require.Equal(t, 11.0, *c.GPUHourUSD, "GB200 is not a B200")
	require.Equal(t, 1.0, c.Efficiency)

	lower, err := metric.Find("mean_ttft_ms")
	require.NoError(t, err)
	s = report.Build(load(t, root), report.Options{Objective: lower}).Sweeps[0]
	require.Equal(t, 1, s.Points[*s.Best].Step, "of a latency the least is the best")
	require.Equal(t, []bool{true, false, false, false},
		[]bool{s.Points[0].BestOf[0], s.Points[1].BestOf[0], s.Points[2].BestOf[0], s.Points[3].BestOf[0]})
}

// A sweep that left out points says what it saved, and points without a duration
// or a GPU's name are not guessed at.
func TestSweepSaves(t *testing.T) {
	inTemp(t)
	for step, v := range [][2]int{{1, 1}, {1, 2}, {2, 1}} {
		dir := fmt.Sprintf("%s/s/0/%d", root, step+1)
		p := planOf(dir, "s")
		p.Step = step + 1
		p.Job.GPUsPerNode = 0
		p.Loads[0].Values = []plan.Assignment{{Path: "decode.a", Value: v[0]}, {Path: "extra_env_vars.B", Value: v[1]}}
		writePlan(t, dir, p)
		n := numbers{Throughput: 10, TTFT: 5, Seconds: 3600}
		if step == 2 {
			n.Seconds = 0
		}
		writeRecord(t, dir, recordOf(n))
	}
	c := report.Build(load(t, root), report.Options{}).Sweeps[0].Cost
	require.Equal(t, 4, c.Space)
	require.Equal(t, 2, c.Timed)
	require.Equal(t, []float64{3600, 7200, 14400, 7200}, []float64{*c.Average, *c.Observed, *c.Projected, *c.Saved})
	require.Equal(t, []float64{8, 8}, []float64{*c.GPUHours, *c.SavedGPUHours})
	require.Nil(t, c.USD)
	require.InDelta(t, 4.0/3, c.Efficiency, 1e-9)
}

// shared writes a sweep whose points share one server, as package catalog plans
// it: the plan lies in the directory of the first, the others beside it.
func shared(t *testing.T, extra string) {
	t.Helper()
	s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(`name = "night"
[[Tests]]
id = "s"
test_template_name = "vllm"
launcher = "bare"
` + extra + `
[Tests.bench_cmd_args]
max_concurrency = [1, 2, 4]
num_prompts = 400
`)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	sys, err := config.Parse("sys.toml",
		[]byte("name = \"x\"\nscheduler = \"slurm\"\ninstall_path = \"/i\"\noutput_path = \"/o\"\ndefault_partition = \"p\"\ngpus_per_node = 4\n"))
	require.NoError(t, err)
	set, err := planner.Plans(s, sys,
		planner.Options{Created: time.Unix(0, 0).UTC(), Output: "/o", WorkDir: "/", Binary: "/b"})
	require.NoError(t, err)
	require.Len(t, set.Plans, 1)
	here := func(dir string) string { return strings.Replace(dir, "/o/night_1970-01-01_00-00-00", root, 1) }
	writePlan(t, here(set.Plans[0].Dir), set.Plans[0])
	for i, load := range set.Plans[0].Loads {
		if i < len(set.Plans[0].Loads)-1 { // the last has left nothing
			writeRecord(t, here(load.Dir), recordOf(numbers{Throughput: 100 * float64(i+1), TTFT: 10, Seconds: 600}))
		}
	}
}

// Points that share one server share one job, whose time counts once.
func TestPointsOfOneServer(t *testing.T) {
	inTemp(t)
	shared(t, "")
	rep := report.Build(load(t, "results"), report.Options{})
	require.Equal(t, []string{"s max_concurrency=1", "s max_concurrency=2", "s max_concurrency=4"}, labels(rep))
	s := rep.Sweeps[0]
	require.Equal(t, []records.Setting{{Key: "bench_cmd_args.max_concurrency", Value: "2"}}, s.Points[1].Values)
	require.Equal(t, 600.0, *s.Cost.Observed)
	require.Equal(t, 300.0, *s.Cost.Average)
	require.False(t, s.Points[2].Usable)
	require.Contains(t, s.Points[2].Reason, "profllm collect")
	named := report.Build(load(t, root+"/s/0/2/result.json"), report.Options{})
	require.Equal(t, rep.Runs[1].Settings, named.Runs[0].Settings, "a point can be named by itself")
	require.Equal(t, "s max_concurrency=2", named.Runs[0].Label)
	require.Equal(t, "s step=2", named.Runs[0].Case.String(), "the name that does not depend on what else is known")
}

// Repeats of points are runs of their own, and points all the same.
func TestRepeats(t *testing.T) {
	inTemp(t)
	shared(t, "repeat = 2")
	rep := report.Build(load(t, root), report.Options{})
	require.Equal(t, []string{
		"s max_concurrency=1 repeat=1", "s max_concurrency=1 repeat=2", "s max_concurrency=2 repeat=1", "s max_concurrency=2 repeat=2",
		"s max_concurrency=4 repeat=1", "s max_concurrency=4 repeat=2",
	}, labels(rep))
	require.Len(t, rep.Sweeps, 1)
	require.Equal(t, 3, rep.Sweeps[0].Cost.Rows)
	require.Equal(t, 200.0, *rep.Sweeps[0].Cost.Average)
	out := text(t, rep)
	require.Contains(t, out, "each repeat counts separately here")
	require.Equal(t, "s max_concurrency=2 repeat=1",
		report.Build(load(t, root+"/s/0/2/r1"), report.Options{}).Runs[0].Label)
}

// A trajectory that cannot be read is said to be so, once.
func TestBrokenTrajectory(t *testing.T) {
	inTemp(t)
	shared(t, "")
	write(t, root+"/s/0/trajectory.csv", "step,colour\n1,red\n")
	rep := report.Build(load(t, root), report.Options{})
	require.Len(t, rep.Notes, 1)
	require.Contains(t, rep.Notes[0], "trajectory.csv")
	require.Nil(t, rep.Sweeps[0].Points[0].Reward)
}

// Loads that are no points of a sweep are phases.
func TestPhases(t *testing.T) {
	inTemp(t)
	p := planOf(root+"/s/0", "s")
	p.Loads = nil
	for _, name := range []string{"cold", "warm"} {
		p.Loads = append(p.Loads, plan.Load{Name: name, Dir: filepath.Join(p.Dir, name)})
		writeRecord(t, root+"/s/0/"+name, recordOf(numbers{Throughput: 100, TTFT: 10}))
	}
	writePlan(t, root+"/s/0", p)
	rep := report.Build(load(t, root), report.Options{})
	require.Equal(t, []string{"s cold", "s warm"}, labels(rep))
	require.Empty(t, rep.Sweeps)
	require.Empty(t, rep.Phases, "they differ in no setting")
}

// A run of CloudAI is labelled by its own record.
func TestForeignRuns(t *testing.T) {
	inTemp(t)
	for i, tp := range []int{1, 2} {
		dir := fmt.Sprintf("%s/Tests.1/0/%d", root, i+1)
		write(t, dir+"/test-run.toml", fmt.Sprintf(`name = "vllm.agg"
nnodes = 1
current_iteration = 0
step = %d
[test_definition.cmd_args]
model = "m"
[test_definition.cmd_args.decode]
tensor_parallel_size = %d
[test_definition.extra_env_vars]
A = "1"
`, i+1, tp))
		writeRecord(t, dir, recordOf(numbers{Throughput: 100 * float64(tp), TTFT: 10}))
	}
	rep := report.Build(load(t, root), report.Options{GroupBy: []string{"extra_env_vars.A"}})
	require.Equal(t, []string{"vllm.agg tensor_parallel_size=1", "vllm.agg tensor_parallel_size=2"}, labels(rep))
	require.Equal(t, "cmd_args.decode.tensor_parallel_size=2", rep.Comparisons[0].Columns[1].Label)
	require.Equal(t, "extra_env_vars.A=1", rep.Comparisons[0].Group)
	require.Equal(t, 1, *rep.Sweeps[0].Best)
}

// One run beside one is shown, and nothing is claimed.
//
// covers: PL-Q3, PL-V30
func TestPair(t *testing.T) {
	inTemp(t)
	for i, top := range []string{"one", "two"} {
		for _, test := range []string{"a", "b"} {
			r := recordOf(numbers{Throughput: 100, TTFT: 10 + float64(i)})
			r.RunID = top + test
			writeRecord(t, fmt.Sprintf("%s/%s/1", top, test), r)
		}
	}
	writeRecord(t, "one/only/0", recordOf(numbers{Throughput: 100, TTFT: 10}))
	writeRecord(t, "two/lossy/0", recordOf(numbers{Throughput: 100, TTFT: 10, Done: 1, Of: 2, Status: result.Partial}))

	r, err := report.Pair(load(t, "one"), load(t, "two"), nil)
	require.NoError(t, err)
	require.Len(t, r.Comparisons, 2)
	require.Equal(t, "b iter=1", r.Comparisons[1].Group)
	require.Equal(t, []string{"one/b/1", "two/b/1"},
		[]string{r.Comparisons[1].Columns[0].Dir, r.Comparisons[1].Columns[1].Dir})
	require.False(t, r.Bad())
	require.Equal(t, []string{"only: only in the first (one/only/0)", "lossy: only in the second (two/lossy/0)"},
		r.Notes[:2])
	require.Contains(t, r.Notes[2],
		"significance is not tested: one run per side does not show how much either varies; ")
	require.Equal(t, "second against first: 10 too little data", r.Notes[3])
	for _, j := range r.Judgements {
		require.Equal(t, report.TooLittle, j.Verdict)
		require.Equal(t, 6, j.RunsNeeded)
		require.Equal(t, "one run per side: no test", j.Metrics[0].Why)
	}
	out := text(t, r)
	require.Contains(t, out, "== Verdict: a: too little data\n\none run per side: no test\n")
	require.NotContains(t, out, "shift %")

	r, err = report.Pair(load(t, "one/only"), load(t, "two/lossy"), nil)
	require.NoError(t, err)
	require.Equal(t, "only and lossy", r.Comparisons[0].Group)
	require.True(t, r.Bad())
	require.Contains(t, r.Notes[0], "two/lossy/0 is partial, invalid: ")

	_, err = report.Pair(load(t, "one/only"), load(t, "two"), nil)
	require.ErrorIs(t, err, report.ErrNoPair)
}

// What a run was is taken from its plan, and is absent where nobody knows it.
//
// covers: PL-D16
func TestTopologyIsThePlansOrAbsent(t *testing.T) {
	inTemp(t)
	sys, err := config.Parse("sys.toml",
		[]byte("name = \"x\"\nscheduler = \"slurm\"\ninstall_path = \"/i\"\noutput_path = \"/o\"\ndefault_partition = \"p\"\ngpus_per_node = 4\n"))
	require.NoError(t, err)
	s, err := scenario.Load(scenario.File{Name: "s.toml", Data: []byte(`name = "s"
[[Tests]]
id = "apart"
test_template_name = "vllm"
num_nodes = 3
launcher = "bare"
[Tests.cmd_args.prefill]
num_nodes = 1
[Tests.cmd_args.decode]
num_nodes = 2
enable_expert_parallel = true
`)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	set, err := planner.Plans(s, sys,
		planner.Options{Created: time.Unix(0, 0), Output: "/o", WorkDir: "/", Binary: "/b"})
	require.NoError(t, err)
	writePlan(t, root+"/apart/0", set.Plans[0])
	writeRecord(t, root+"/apart/0", recordOf(numbers{Throughput: 100, TTFT: 10}))
	unknown := recordOf(numbers{Throughput: 100, TTFT: 10})
	unknown.Placement, unknown.Config = nil, result.Config{Server: map[string]any{}}
	writeRecord(t, root+"/unknown/0", unknown)

	var out bytes.Buffer
	require.NoError(t, format.CSV(&out, report.Build(load(t, root), report.Options{})))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	for key, want := range map[string]string{
		"NUM_NODES": "3", "cmd_args.prefill.num_nodes": "1", "cmd_args.decode.num_nodes": "2", "cmd_args.decode.enable_expert_parallel": "true",
	} {
		i := slices.Index(rows[0], key)
		require.GreaterOrEqual(t, i, 0, "%s is no column of %v", key, rows[0])
		require.Equal(t, []string{want, ""}, []string{rows[1][i], rows[2][i]}, key)
	}
}
