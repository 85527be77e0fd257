package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
)

// confirmScenario has a test, the same once more, and one whose tokens come 10 %
// later.
func confirmScenario(t *testing.T, dir string) {
	t.Helper()
	text := "name = \"build\"\n"
	for id, itl := range map[string]string{"old": "20ms", "same": "20ms", "slow": "22ms"} {
		text += fmt.Sprintf(`
[[Tests]]
id = %q
test_template_name = "vllm"
client = "profllm"
time_limit = "3m"
  [Tests.cmd_args]
  docker_image_url = "vllm/vllm-openai:v0.32.0"
  model = "Qwen/Qwen3-8B"
  [Tests.bench_cmd_args]
  random_input_len = 16
  random_output_len = 12
  num_prompts = 10
  max_concurrency = 2
  [Tests.extra_env_vars]
  PROFLLM_SIM_ITL = %q
  PROFLLM_SIM_STARTUP = "0s"
`, id, itl)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "build.toml"), []byte(text), 0o644))
}

// confirmRoot is the directory of the one confirmation.
func confirmRoot(t *testing.T, dir string) string {
	t.Helper()
	roots, err := filepath.Glob(filepath.Join(dir, "results", "confirm-build_*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	return roots[0]
}

// A rehearsal of two tests in turns finds the later tokens; what is over is answered
// again, also as JSON, and its sides can be confirmed once more.
//
// covers: PL-Q4, PL-Q5, PL-Q13
func TestConfirmRehearsed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	confirmScenario(t, dir)
	o := profllm(t, dir, nil, "confirm", "build.toml#old", "build.toml#slow", "--rehearse", "--metric",
		"median_tpot_ms")
	require.Equal(t, exitInvalid, o.code)
	require.Contains(t, o.stdout, "SIMULATED: 12 of 12 runs had a simulated engine")
	require.Contains(t, o.stdout, "== Verdict: old and slow (simulated): regressed")
	require.Contains(t, o.stdout, "first: 6 runs, median-throughput run")
	require.Contains(t, o.stderr, "sequence of 12 runs")
	root := confirmRoot(t, dir)
	var s run.Scenario
	require.NoError(t, run.ReadJSON(filepath.Join(root, run.ScenarioFile), &s))
	var order []string
	for _, rel := range s.Runs {
		order = append(order, strings.Split(rel, "/")[0])
	}
	require.Equal(t, strings.Repeat("first second second first ", 3), strings.Join(order, " ")+" ")

	for _, locked := range []string{root, filepath.Join(root, s.Runs[0])} {
		refused := profllm(t, dir, nil, "lock", locked)
		require.Equal(t, exitUsage, refused.code)
		require.Empty(t, refused.stdout)
		require.Contains(t, refused.stderr,
			"hint: profllm confirm "+filepath.Join(root, "first")+" "+filepath.Join(root, "second"))
	}

	again := profllm(t, dir, nil, "confirm", root)
	require.Equal(t, exitInvalid, again.code)
	require.Equal(t, o.stdout, again.stdout)
	o = profllm(t, dir, nil, "confirm", root, "--output", "json")
	var r report.Report
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	m := r.Judgements[0].Metrics[0]
	require.InDelta(t, 10, *m.Paired.Percent, 3)
	require.InDelta(t, 2.0/64, *m.Paired.P, 1e-12, "all six pairs say the same")
	require.Equal(t, 6, m.Paired.N)

	for args, want := range map[string]string{
		"build.toml build.toml#old":                 "build.toml has 3 tests, but only one can be confirmed",
		"build.toml#old build.toml#slow --speed 2":  "--speed has no effect without --rehearse",
		"build.toml#old build.toml#new --rehearse":  `build.toml#new has no test "new"`,
		root + " build.toml#old":                    "is a confirmation of two tests",
		root + "/first":                             "is not a confirmation",
		"results":                                   "is not a confirmation",
		root + "/first nothing.toml":                "nothing.toml: no such file",
		"build.toml#old build.toml#old --metric x":  `unknown metric "x"`,
		"build.toml#old build.toml#slow --pairs 5":  "even number from 6 to 30",
		"build.toml#old build.toml#slow --pairs 7":  "even number from 6 to 30",
		"build.toml#old build.toml#slow --pairs 32": "even number from 6 to 30",
		root + " --pairs 8":                         "keeps its pairs and metrics",
	} {
		o := profllm(t, dir, nil, append([]string{"confirm"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, o.code, args)
		require.Contains(t, o.stderr, want, args)
	}
	o = profllm(t, dir, nil, "confirm", root+"/first", root+"/second/slow/3", "--dry-run", "--simulate", "--pairs",
		"10")
	require.Zero(t, o.code)
	require.Contains(t, o.stdout, ": sequence of 20 runs")
	require.Contains(t, o.stdout, "/second/slow/9")
	require.Len(t, runs(t, dir), 12, "nothing was made")

	// Runs that no record is of leave their partners out.
	for _, rel := range []string{"first/old/0", "second/slow/4"} {
		require.NoError(t, os.RemoveAll(filepath.Join(root, rel, "raw")))
		require.NoError(t, os.RemoveAll(filepath.Join(root, rel, "logs")))
	}
	require.Equal(t, exitJobFailed, profllm(t, dir, nil, "collect", root).code)
	o = profllm(t, dir, nil, "confirm", root)
	require.Zero(t, o.code, "nothing is claimed")
	require.Contains(t, o.stdout, "too little data: 4 pairs: no test")
	require.Contains(t, o.stdout, "the other run of its pair is left out")
	require.Contains(t, o.stdout,
		fmt.Sprintf("profllm confirm %[1]s/first %[1]s/second --pairs 6 --metric median_tpot_ms --rehearse",
			strings.TrimPrefix(root, dir+"/")))
}

// On a real Slurm: one allocation, two answers. Who does not wait is told what to ask
// for, and the same twice is the same.
//
// covers: PL-Q13
func TestConfirmSlurm(t *testing.T) {
	t.Parallel()
	// On a busy machine, pairs may vary too much to show that two builds are the same.
	for second, want := range map[string][]report.Outcome{"slow": {report.Regressed},
		"same": {report.Same, report.TooLittle}} {
		t.Run(second, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			confirmScenario(t, dir)
			o := profllm(t, dir, nil, "confirm", "build.toml#old", "build.toml#"+second, "--simulate", "--system",
				"site.toml", "--metric", "median_tpot_ms")
			require.Zero(t, o.code)
			root := confirmRoot(t, dir)
			rel := strings.TrimPrefix(root, dir+"/")
			require.Contains(t, o.stderr, "12 runs in 1 job,")
			require.Contains(t, o.stdout,
				"no verdict yet: 0 of 12 runs are over; they were submitted just now\nprofllm confirm "+rel+"\n")
			o = profllm(t, dir, nil, "confirm", rel, "--output", "json")
			require.Equal(t, exitNotOver, o.code)
			now := readDocument[document.Confirm](t, o)
			require.Equal(t, "profllm confirm "+rel, now.Next)
			require.Equal(t, exitNotOver, now.ExitCode)

			o = profllm(t, dir, nil, "confirm", rel, "--wait", "--output", "json")
			var r report.Report
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), o.stderr)
			require.Equal(t, 12, r.Simulated)
			require.Contains(t, want, r.Judgements[0].Verdict)
			require.Equal(t, second == "slow", o.code == exitInvalid)
			jobs := map[string]bool{}
			for d := range runs(t, dir) {
				jobs[readResult(t, d).Slurm.JobID] = true
			}
			require.Len(t, jobs, 1, "one allocation")
		})
	}
}

// When one of the first pair fails, nothing is compared, and the others do not run.
func TestConfirmFails(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	dir := t.TempDir()
	confirmScenario(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, "build.toml"))
	require.NoError(t, err)
	broken := strings.Replace(string(text), "PROFLLM_SIM_ITL = \"22ms\"",
		"PROFLLM_SIM_FAULTS = \"serve:die-at-start,exit=3\"", 1)
	require.NotEqual(t, string(text), broken)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "build.toml"), []byte(broken), 0o644))
	o := profllm(t, dir, nil, "confirm", "build.toml#old", "build.toml#slow", "--rehearse", "--metric", "throughput")
	require.Equal(t, exitInvalid, o.code)
	root := confirmRoot(t, dir)
	began, err := filepath.Glob(filepath.Join(root, "*", "*", "*", run.ClaimFile))
	require.NoError(t, err)
	require.Len(t, began, 2)
	require.Contains(t, o.stdout, "second, left out: ")
}
