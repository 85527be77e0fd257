package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// planned plans a scenario for a rehearsal whose results lie in dir/results.
func planned(t *testing.T, dir, text string, at time.Time) *Planned {
	t.Helper()
	file := filepath.Join(dir, "s.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	c := Client{Version: "test", Now: time.Now, WorkDir: dir, Executable: "/bin/profllm", Events: heard{os.Stderr}}
	p, err := c.Plan(context.Background(), file,
		Options{OutputDir: filepath.Join(dir, "results"), Simulate: true, Time: at})
	require.NoError(t, err)
	return p
}

const curve = `name = "s"
[[Tests]]
id = "curve"
test_template_name = "vllm"
time_limit = "10m"
  [Tests.cmd_args.decode]
  tensor_parallel_size = [2, 4, 8]
  [Tests.bench_cmd_args]
  max_concurrency = [1, 4]
  num_prompts = "5x"
  [Tests.sweep]
  mode = "jobs"
`

var first = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The points of a sweep are told with their settings, the number of prompts as it is
// resolved, and the time limits of all runs as what they take at most.
func TestOverviewOfSweep(t *testing.T) {
	p := planned(t, t.TempDir(), curve, first)
	o := p.Overview()
	require.Len(t, o.Tests, 1)
	c := o.Tests[0]
	require.Equal(t, []string{"point", "tensor_parallel_size", "max_concurrency", "num_prompts", "run"}, c.Header)
	require.Equal(t, [][]string{
		{"1", "2", "1", "5", "curve/0/1"}, {"2", "2", "4", "20", "curve/0/1"}, {"3", "4", "1", "5", "curve/0/3"}, {"4", "4", "4", "20", "curve/0/3"},
		{"5", "8", "1", "", "left out"}, {"6", "8", "4", "", "left out"},
	}, c.Rows)
	require.Equal(t, []int{4, 2, 2}, []int{c.Points, c.LeftOut, c.Runs})
	require.Equal(t, Estimate{Most: 40 * time.Minute}, o.Time)
	require.InDelta(t, 2.0/3, c.NodeHours, 1e-9)
	require.Equal(t, []string{"points 1, 2: 2 of 4 GPUs of serve idle: TP 2 x PP 1 x DP 1 uses 2; raise TP, PP or DP, or leave them out of rates per GPU with gpu_ids"}, c.Idle)
}

// A run takes about as long as completed runs that were asked for the same, before it.
func TestOverviewOfEarlierRuns(t *testing.T) {
	dir := t.TempDir()
	ran := func(text string, at time.Time, status result.Status, seconds ...float64) {
		for i, r := range planned(t, dir, text, at).Runs {
			data, err := r.Plan.Encode()
			require.NoError(t, err)
			load := r.Plan.Loads[0].Dir
			require.NoError(t, os.MkdirAll(load, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(r.Plan.Dir, run.PlanFile), data, 0o644))
			record := fmt.Sprintf(`{"status": %q, "duration": %g}`, status, seconds[i])
			require.NoError(t, os.WriteFile(filepath.Join(load, run.ResultFile), []byte(record), 0o644))
		}
	}
	ran(curve, first, result.Completed, 60, 100)
	ran(curve, first.Add(time.Hour), result.Completed, 80, 100)
	ran(curve, first.Add(2*time.Hour), result.Completed, 70, 100)
	ran(curve, first.Add(3*time.Hour), result.Failed, 7, 7)
	ran(curve+"max_parallel = 1\n[Tests.extra_env_vars]\nA = \"b\"\n", first.Add(4*time.Hour), result.Completed, 8, 8)
	ran(curve, first.Add(48*time.Hour), result.Completed, 9, 9)

	o := planned(t, dir, curve, first.Add(24*time.Hour)).Overview()
	require.Equal(t, []Estimate{{About: 70 * time.Second, Earlier: 3, Most: 20 * time.Minute},
		{About: 100 * time.Second, Earlier: 3, Most: 20 * time.Minute}}, o.Tests[0].Each)
	require.Equal(t, Estimate{About: 170 * time.Second, Most: 40 * time.Minute}, o.Time)
}

// Phases are told with the settings in which they differ, and requests at a rate take
// their time.
func TestOverviewOfPhases(t *testing.T) {
	p := planned(t, t.TempDir(), `name = "s"
[[Tests]]
id = "day"
test_template_name = "vllm"
repeat = 2
  [Tests.bench_cmd_args]
  max_concurrency = 2
  [[Tests.phases]]
  name = "quiet"
  bench_cmd_args = { num_prompts = 10, request_rate = 1.0 }
  [[Tests.phases]]
  name = "busy"
  bench_cmd_args = { num_prompts = 100, request_rate = 4.0 }
  cache = "reset"
[[Tests]]
id = "one"
test_template_name = "vllm"
time_limit = "1h"
`, first)
	o := p.Overview()
	require.Equal(t, []string{"phase", "num_prompts", "request_rate", "repeats"}, o.Tests[0].Header)
	require.Equal(t, [][]string{{"quiet", "10", "1", "2"}, {"busy", "100", "4", "2"}}, o.Tests[0].Rows)
	require.Equal(t, Estimate{Least: 70 * time.Second}, o.Tests[0].Time)
	require.Empty(t, o.Tests[1].Rows)
	require.Equal(t, Estimate{Most: time.Hour}, o.Tests[1].Time)
	require.Equal(t, Estimate{}, o.Time, "what is not known of one test is not known of all")
	require.Equal(t, "busy", phase(&plan.Load{Name: "3.busy.r2", Step: 3, Repeat: &plan.Repeat{Index: 1}}))
}
