package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tier"
)

// quoted lists n values as a TOML list.
func quoted(n int, value func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = value(i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// A hundred points on 5 servers, or a thousand on 25, as one job array. Half of the array is
// cancelled; resume submits what is missing and nothing else; in the table each
// point has the latency of its own server.
//
// covers: CD-29, GEN-1, GEN-3
func TestSlurmSweepOfAThousand(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred runs")
	}
	dir := lab(t)
	servers, prompts := 5, 5
	if tier.Whole() {
		servers, prompts = 25, 10
	}
	loads := 4 * prompts
	itl := func(i int) time.Duration { return time.Duration(i+2) * time.Millisecond / 2 }
	text := fmt.Sprintf(`name = "thousand"
[[Tests]]
id = "a"
test_template_name = "vllm"
time_limit = "15m" # forty loads of a run take two minutes on a busy machine
  [Tests.extra_env_vars]
  PROFLLM_SIM_ITL = %s
  [Tests.bench_cmd_args]
  max_concurrency = [1, 2, 4, 8]
  num_prompts = %s
  random_input_len = 4
  random_output_len = 5
  [Tests.slurm]
  sbatch_args = ["--gpus-per-node=4"]
`, quoted(servers, func(i int) string { return strconv.Quote(itl(i).String()) }),
		quoted(prompts, func(i int) string { return strconv.Itoa(i + 2) }))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	args := []string{"--system", "site.toml", "--simulate", "-y"}
	o := profllm(t, dir, nil, append([]string{"slurm", "submit", "s.toml"}, args...)...)
	require.Equal(t, exitOK, o.code)
	roots, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	var sub run.Submission
	require.NoError(t, run.ReadJSON(filepath.Join(roots[0], "batches/1", run.SubmitFile), &sub))
	require.NoError(t, exec.Command("scancel", fmt.Sprintf("%s_[%d-%d]", sub.JobID, servers/2, servers-1)).Run())
	waitOver(t, dir, roots[0])

	done := 0
	for d := range runs(t, dir) {
		var s run.Sentinel
		if run.ReadJSON(filepath.Join(d, run.SentinelFile), &s) == nil && s.Code == 0 {
			done++
		} else if s.JobID != "" {
			t.Logf("%s ended with %d: %s", d, s.Code, profllm(t, dir, nil, "why", d).stdout)
		}
	}
	require.GreaterOrEqual(t, done, servers/2)
	require.Less(t, done, servers)
	o = profllm(t, dir, nil, "slurm", "resume", roots[0], "--wait")
	require.Equal(t, exitOK, o.code)
	again, err := os.ReadFile(filepath.Join(roots[0], "batches/2/runs.txt"))
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(again)), servers-done, "exactly the missing ones")

	points := 0
	for d, p := range runs(t, dir) {
		for _, l := range p.Loads {
			at, err := filepath.Rel(p.Dir, l.Dir)
			require.NoError(t, err)
			r := readResult(t, filepath.Join(d, at))
			require.True(t, r.Validity.Valid, "%s: %v", at, r.Validity.Words)
			points++
		}
	}
	require.Equal(t, servers*loads, points)
	checkTable(t, roots[0], loads, servers*loads, itl)
}

// A sweep of a few random points goes on in a second execution, which tries none
// again; its table has both.
func TestSweepContinues(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	write := func(steps int) {
		text := fmt.Sprintf(`name = "few"
[[Tests]]
id = "a"
test_template_name = "vllm"
agent = "random"
agent_steps = %d
agent_metrics = ["median_ttft_ms"]
  [Tests.extra_env_vars]
  PROFLLM_SIM_TTFT = ["10ms", "40ms"]
  [Tests.bench_cmd_args]
  max_concurrency = [1, 2, 4]
  num_prompts = 4
  random_output_len = 3
`, steps)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "few.toml"), []byte(text), 0o644))
	}
	table := func(root string) [][]string {
		f, err := os.Open(filepath.Join(root, "a/0/sweep.csv"))
		require.NoError(t, err)
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		require.NoError(t, err)
		return rows[1:]
	}
	write(3)
	require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "few.toml", "--output-dir", "one").code)
	roots, err := filepath.Glob(filepath.Join(dir, "one", "*"))
	require.NoError(t, err)
	require.Len(t, table(roots[0]), 3)
	csvFile := filepath.Join(roots[0], "a/0/sweep.csv")
	first, err := os.ReadFile(csvFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(csvFile, []byte("of an earlier look\n"), 0o644))
	o := profllm(t, dir, nil, "collect", roots[0])
	require.Equal(t, exitOK, o.code)
	require.NotContains(t, o.stderr, "note: no table")
	again, err := os.ReadFile(csvFile)
	require.NoError(t, err)
	require.Equal(t, string(first), string(again), "a table is written anew where one lies")
	write(5)
	require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "few.toml", "--output-dir", "two", "--continue",
		roots[0]).code)
	second, err := filepath.Glob(filepath.Join(dir, "two", "*"))
	require.NoError(t, err)
	rows := table(second[0])
	require.Len(t, rows, 5)
	seen := map[string]bool{}
	for i, row := range rows {
		require.Equal(t, strconv.Itoa(i+1), row[0])
		point := strings.Join(row[1:3], " ")
		require.False(t, seen[point], "%s was tried twice", point)
		seen[point] = true
		root := roots[0] // of the execution that tried the point
		if i >= 3 {
			root = second[0]
		}
		requireMeasured(t, root, row)
	}
	o = profllm(t, dir, nil, "rehearse", "few.toml", "--output-dir", "three", "--continue", second[0])
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "every point of its sweeps was tried")
}

// requireMeasured requires that the number in a row of a sweep's table is that of the
// row's own point, from an engine that was given the row's latency: by the plan, the
// engine's word and the record, since how fast a busy machine answers says little. No
// answer comes before the engine's latency is over.
func requireMeasured(t *testing.T, root string, row []string) {
	t.Helper()
	var record struct {
		Results map[string]any `json:"results"`
	}
	require.NoError(t, run.ReadJSON(filepath.Join(root, "a", row[5], run.ResultFile), &record))
	require.Equal(t, fmt.Sprint(record.Results["median_ttft_ms"]), row[3], "%v", row)
	least, err := time.ParseDuration(row[1])
	require.NoError(t, err)
	ttft, err := strconv.ParseFloat(row[3], 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, ttft, float64(least.Milliseconds()), "%v", row)

	require.Contains(t, engineLogs(t, root)[row[0]], "simulated TTFT "+row[1]+",", "%v", row)
}

// engineLogs are the logs of the engines below root, by the step of a sweep, each of which has one.
func engineLogs(t *testing.T, root string) map[string]string {
	t.Helper()
	dirs, err := run.Find(root)
	require.NoError(t, err)
	logs := map[string]string{}
	for _, dir := range dirs {
		p, err := run.ReadPlan(dir)
		require.NoError(t, err)
		log, err := os.ReadFile(filepath.Join(dir, run.LogDir, "serve-0.log"))
		require.NoError(t, err)
		for _, l := range p.Loads {
			require.NotContains(t, logs, strconv.Itoa(l.Step))
			logs[strconv.Itoa(l.Step)] = string(log)
		}
	}
	return logs
}

// waitOver waits until Slurm says that every job of a scenario is over.
func waitOver(t *testing.T, dir, root string) {
	t.Helper()
	var last string
	await.True(t, func() bool {
		out, err := command(dir, nil, "slurm", "status", "--output", "json", root).Output()
		require.NoError(t, err)
		var answer document.States
		require.NoError(t, json.Unmarshal(out, &answer))
		open := slices.IndexFunc(answer.Runs, func(l document.StateEntry) bool { return !l.State.Final() })
		if open >= 0 {
			last = fmt.Sprintf("%+v", answer.Runs[open])
		}
		return open < 0
	}, "every job is over; not yet: %s", &last)
}

// checkTable reads sweep.csv as any tool would: a line for each point, a number of loads on each server.
func checkTable(t *testing.T, root string, loads, points int, itl func(int) time.Duration) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "a", "0", "sweep.csv"))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, points+1)
	col := func(name string) int {
		i := slices.Index(rows[0], name)
		require.GreaterOrEqual(t, i, 0, "%s in %v", name, rows[0])
		return i
	}
	logs := engineLogs(t, root)
	for i, row := range rows[1:] {
		require.Equal(t, strconv.Itoa(i+1), row[col("step")])
		require.Equal(t, "passed", row[col("verdict")])
		require.Equal(t, itl(i/loads).String(), row[col("extra_env_vars.PROFLLM_SIM_ITL")])
		r := readResult(t, filepath.Join(root, "a", "0", strconv.Itoa(i+1)))
		n, err := strconv.Atoi(row[col("bench_cmd_args.num_prompts")])
		require.NoError(t, err)
		require.Equal(t, n, *r.Results.CompletedRequests)
		p50, ok := r.Results.Latency[result.E2EL].Percentile(50)
		require.True(t, ok)
		truth := 20 + 4*float64(itl(i/loads).Microseconds())/1000 // ms: the first token, and four gaps
		require.GreaterOrEqual(t, p50, 0.95*truth, "step %d", i+1)
		// A busy machine makes it late, so its engine says the rest.
		require.Contains(t, logs[row[col("step")]], ", ITL "+itl(i/loads).String()+",", "step %d", i+1)
	}
}

// A dry-run prints the batches that carry the points of a sweep, as plans and as JSON.
//
// covers: CD-29
func TestPointsAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n[Tests.cmd_args.decode]\nmax_num_seqs = [1, 2]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	site, err := filepath.Abs("../../examples/slurm-lab/site.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "slurm", "dry-run", "s.toml", "--simulate", "--system", site, "--output", "json")
	require.Equal(t, exitOK, o.code)
	var list []struct{ Schema, Dir string }
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &list))
	require.Len(t, list, 3)
	require.Equal(t, plan.Schema, list[1].Schema)
	require.Equal(t, plan.BatchSchema, list[2].Schema)
}

// A dry run of a thousand points asks no Slurm, leaves nothing, and waits for
// nothing: at a pause of 1 s for each it would need 17 minutes, which the
// deadline only tells from a hang.
//
// covers: CD-38
func TestDryRunOfAThousandPoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyFile(t, "../../conf/local.toml", filepath.Join(dir, "site.toml"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(fmt.Sprintf(`name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
launcher = "bare"
[Tests.extra_env_vars]
A = %s
[Tests.bench_cmd_args]
num_prompts = %s
`, quoted(100, func(i int) string { return strconv.Quote(strconv.Itoa(i)) }),
		quoted(10, func(i int) string { return strconv.Itoa(i + 1) }))), 0o644))
	cmd := exec.CommandContext(t.Context(), binary, "slurm", "dry-run", "--system", "site.toml", "--output", "json",
		"s.toml")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/nowhere"}
	out, err := cmd.Output()
	require.NoError(t, err)
	var plans []plan.Plan
	require.NoError(t, json.Unmarshal(out, &plans))
	points := 0
	for _, p := range plans {
		points += len(p.Loads)
	}
	require.Equal(t, 1000, points)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, left, 2, "the definitions")
}
