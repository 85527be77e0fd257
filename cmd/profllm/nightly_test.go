package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/run"
)

// cronJob is a folder in which nights can be made, and programs that act as a
// Slurm whose jobs wait until a test says what became of them.
type cronJob struct {
	t     *testing.T
	dir   string
	slurm string // the programs' folder; jobs/ID holds a state
}

// fakes are the programs. One that finds a file fail prints it and fails.
var fakes = map[string]string{
	"sbatch": `id=60; until mkdir "$root/ids/$id" 2>/dev/null; do id=$((id+1)); done; echo "$name" > "$root/ids/$id/name"; echo PENDING > "$root/jobs/$id"; echo $id`,
	"squeue": `for id in $list; do grep -q PENDING "$root/jobs/$id" && echo "$id|PENDING|$(cat "$root/reason" 2>/dev/null || echo Priority)||$(cat "$root/ids/$id/name")|"; done; true`,
	"sacct":  `for id in $list; do echo "$id|$(cat "$root/jobs/$id")|0:0|2026-11-21T03:00:00|2026-11-21T03:10:00|600|node1|$(cat "$root/ids/$id/name")"; done`,
}

func newCronJob(t *testing.T) *cronJob {
	t.Helper()
	c := &cronJob{t: t, dir: t.TempDir(), slurm: t.TempDir()}
	copyFile(t, "../../examples/slurm-lab/site.toml", filepath.Join(c.dir, "site.toml"))
	for _, sub := range []string{"jobs", "ids"} {
		require.NoError(t, os.Mkdir(filepath.Join(c.slurm, sub), 0o755))
	}
	for name, text := range fakes {
		head := fmt.Sprintf("#!/bin/bash\nroot=%q\necho ${0##*/} >> \"$root/calls\"\nif [ -f \"$root/fail-%s\" ]; then cat \"$root/fail-%s\" >&2; exit 1; fi\n", c.slurm, name, name) +
			"while [ $# -gt 0 ]; do [ \"$1\" = -j ] && list=${2//,/ }; case $1 in --job-name=*) name=${1#*=};; esac; shift; done\n"
		require.NoError(t, os.WriteFile(filepath.Join(c.slurm, name), []byte(head+text+"\n"), 0o755))
	}
	return c
}

// asOnSlurm gives a copy of a rehearsal ids as Slurm's.
func asOnSlurm(t *testing.T, root string) {
	t.Helper()
	edit(t, filepath.Join(root, run.ScenarioFile), func(m map[string]any) { delete(m, "local") })
	dirs, err := run.Find(root)
	require.NoError(t, err)
	for i, dir := range dirs {
		for _, name := range []string{run.SubmitFile, run.ClaimFile, run.SentinelFile, run.StateFile, run.PlacementFile,
			run.PreflightFile} {
			edit(t, filepath.Join(dir, name), func(m map[string]any) { m["job_id"] = strconv.Itoa(4711 + i) })
		}
	}
}

// fail makes a program fail with a text on stderr; "" ends that.
func (c *cronJob) fail(program, text string) {
	c.t.Helper()
	path := filepath.Join(c.slurm, "fail-"+program)
	if text == "" {
		require.NoError(c.t, os.Remove(path))
		return
	}
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o644))
}

// night makes a night of the past from the rehearsed one. What it says of itself
// is made up: not simulated, and this throughput in tok/s.
func (c *cronJob) night(daysAgo int, throughput float64, simulated bool) string {
	c.t.Helper()
	at := time.Now().AddDate(0, 0, -daysAgo)
	root := filepath.Join(c.dir, "results", "demo_"+at.Format("2006-01-02_15-04-05"))
	require.NoError(c.t, os.CopyFS(root, os.DirFS(rehearsedDemo.made(c.t))))
	asOnSlurm(c.t, root)
	edit(c.t, filepath.Join(root, "scenario.json"), func(m map[string]any) { m["created"] = at.UTC() })
	for _, test := range []string{"aggregated", "disaggregated"} {
		require.NoError(c.t, run.WriteJSON(filepath.Join(root, test, "0", run.StateFile),
			run.State{State: run.Succeeded, Source: "local"}))
		edit(c.t, filepath.Join(root, test, "0", run.PlanFile), func(m map[string]any) { m["simulated"] = simulated })
		edit(c.t, filepath.Join(root, test, "0", run.ResultFile), func(m map[string]any) {
			m["simulated"] = simulated
			measured(m, throughput, at)
		})
	}
	return root
}

// measured gives a record another throughput, in another time, from a start of its own.
func measured(m map[string]any, throughput float64, at time.Time) {
	r := m["results"].(map[string]any)
	f := throughput / r["output_throughput"].(float64)
	for _, key := range []string{"request_throughput", "output_throughput", "total_token_throughput",
		"output_throughput_per_gpu", "total_token_throughput_per_gpu"} {
		r[key] = f * r[key].(float64)
	}
	r["duration_s"] = r["duration_s"].(float64) / f
	r["client"].(map[string]any)["started"] = at.UTC()
}

func edit(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	change(m)
	require.NoError(t, run.WriteJSON(path, m))
}

// nightly calls the verb as cron would.
func (c *cronJob) nightly(args ...string) outcome {
	c.t.Helper()
	return profllm(c.t, c.dir, []string{"PATH=" + c.slurm + ":" + os.Getenv("PATH")},
		append([]string{"nightly", "demo", "--system", "site.toml", "--settle", "0s"}, args...)...)
}

// nextName waits until the clock shows a second after which no execution is named: a directory is named by the second.
func (c *cronJob) nextName() {
	c.t.Helper()
	var named []string
	await.True(c.t, func() bool {
		named, _ = filepath.Glob(filepath.Join(c.dir, "results", "*_"+time.Now().Format("2006-01-02_15-04-05")))
		return len(named) == 0
	}, "the second of %q is over", &named)
}

// jobs lists the files of all jobs that were ever submitted.
func (c *cronJob) jobs() []string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.slurm, "jobs", "*"))
	require.NoError(c.t, err)
	return files
}

// end says what became of every job that waits.
func (c *cronJob) end(word string) {
	c.t.Helper()
	for _, f := range c.jobs() {
		data, err := os.ReadFile(f)
		require.NoError(c.t, err)
		if string(data) == "PENDING\n" {
			require.NoError(c.t, os.WriteFile(f, []byte(word+"\n"), 0o644))
		}
	}
}

func requireLines(t *testing.T, text string, patterns ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	require.Len(t, lines, len(patterns), text)
	for i, p := range patterns {
		require.Regexp(t, "^"+p+"$", lines[i])
	}
}

const stampPattern = `\d{4}-\d\d-\d\d \d\d:\d\d`

// A life: quiet nights, a night that is still in the queue, one whose jobs
// failed, one that Slurm does not want.
//
// covers: PL-S5, PL-S6
func TestNightly(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	for day := 1; day <= 5; day++ {
		c.night(day, 100, false)
	}
	o := c.nightly()
	require.Equal(t, exitOK, o.code)
	requireLines(t, o.stdout, `nightly demo: submitted results/demo_\S+; demo of `+stampPattern+
		`: nothing changed; 2 runs, 6 numbers compared with the median of up to 4 nights`)
	require.Len(t, c.jobs(), 2)

	o = c.nightly()
	require.Equal(t, exitOK, o.code)
	requireLines(t, o.stdout, `nightly demo: job 6\d of results/demo_\S+/0 is queued, Priority; nothing was submitted; no new night since `+stampPattern)
	o = c.nightly("--quiet")
	require.Equal(t, exitOK, o.code)
	require.Empty(t, o.stdout+o.stderr)

	c.fail("squeue", "Unable to contact slurm controller")
	c.fail("sacct", "Unable to contact slurm controller")
	o = c.nightly()
	require.Equal(t, exitOK, o.code)
	requireLines(t, o.stdout, `nightly demo: job 6\d of \S+ is unknown, .*Unable to contact.*; nothing was submitted; .*`)
	c.fail("squeue", "")
	c.fail("sacct", "")
	require.Len(t, c.jobs(), 2, "nothing while a job may run")

	c.end("NODE_FAIL")
	c.nextName()
	o = c.nightly("--quiet")
	require.Equal(t, exitJobFailed, o.code)
	requireLines(t, o.stdout, `failed aggregated: failed, cause \S+ .* \(results/demo_\S+/aggregated/0\)`,
		`failed disaggregated: failed, .*`)
	require.Empty(t, o.stderr)
	require.Len(t, c.jobs(), 4, "the next night begins nevertheless")

	c.end("CANCELLED by 0")
	c.fail("sbatch", "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified")
	c.nextName()
	o = c.nightly("--quiet")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "Invalid account")
	requireLines(t, o.stdout, `failed aggregated: cancelled.*`, `failed disaggregated: cancelled.*`)
	c.fail("sbatch", "")
	c.nextName()
	o = c.nightly()
	require.Equal(t, exitOK, o.code, "what was not submitted is no night")
	requireLines(t, o.stdout, `nightly demo: submitted .*; no new night since `+stampPattern)
}

// A regression is told once, to the terminal and to the hook; what is simulated is
// neither compared nor a baseline.
//
// covers: PL-D13, PL-Q17
func TestNightlyRegression(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	for day := 3; day <= 6; day++ {
		c.night(day, 100, false)
	}
	c.night(2, 80, false)
	c.night(1, 1000, true)
	event := filepath.Join(c.dir, "event.json")
	hook := filepath.Join(c.dir, "hook")
	require.NoError(t, os.WriteFile(hook,
		[]byte("#!/bin/sh\ncat > \"$1\"\necho $PROFLLM_EVENT $PROFLLM_EXIT_CODE >&2\nexit 7\n"), 0o755))
	o := c.nightly("--quiet", "--notify", fmt.Sprintf("%s '%s'", hook, event))
	require.Equal(t, exitInvalid, o.code, "a hook that fails changes no exit code")
	requireLines(t, o.stdout, `regressed aggregated: output_throughput 80 tok/s, -20.0 % against 100 \(median of 4 nights, z -40.0\): nodes \S+ \(results/demo_\S+/aggregated/0\)`,
		`regressed disaggregated: output_throughput 80 .*`)
	require.Equal(t, 2, strings.Count(o.stderr, "exit status 7: night 6"), "shown, tried once more")
	var e notify.Event
	require.NoError(t, run.ReadJSON(event, &e))
	require.Equal(t, "demo", e.Scenario)
	require.Len(t, e.Lines, 2)
	require.Regexp(t, regexp.MustCompile(`^regressed aggregated: .* \(/\S+/aggregated/0\)$`), e.Lines[0])

	o = c.nightly("--quiet")
	require.Equal(t, exitOK, o.code)
	require.Empty(t, o.stdout+o.stderr, "told once")
	o = c.nightly("--simulate")
	require.Equal(t, exitOK, o.code)
	requireLines(t, o.stdout, `nightly demo: submitted .*: nothing changed; 2 runs, 2 without comparison \(simulated\)`)
}

// A job that nobody knows is waited for a day, then its night is over.
//
// covers: PL-S10
func TestNightlyLostJob(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	require.Equal(t, exitOK, c.nightly().code)
	c.fail("squeue", "Unable to contact slurm controller")
	c.fail("sacct", "Unable to contact slurm controller")
	age := func(hours int) {
		for d := range runs(t, c.dir) {
			edit(t, filepath.Join(d, run.SubmitFile), func(m map[string]any) {
				m["time"] = time.Now().Add(-time.Duration(hours) * time.Hour).UTC()
			})
		}
	}
	age(23)
	o := c.nightly()
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "nothing was submitted")
	age(25)
	c.nextName()
	o = c.nightly()
	require.Equal(t, exitJobFailed, o.code)
	requireLines(t, o.stdout, `failed aggregated: what became of the job is unknown .*`,
		`failed disaggregated: what became of the job is unknown .*`)
	require.Len(t, c.jobs(), 4)
}

// A job that never starts would block every later night, so each call reports it until
// somebody acts: with the reason, what to do, and an exit code.
//
// covers: PL-S14
func TestNightlyStuckJob(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	require.Equal(t, exitOK, c.nightly().code)
	for _, x := range [][2]string{
		{"PartitionTimeLimit", `never starts \(PartitionTimeLimit\) and stays queued\n\thint: profllm slurm cancel results/demo_\S+/0, lower time_limit, and submit again; .*`},
		{"JobHeldAdmin", `is held \(JobHeldAdmin\)\n\thint: scontrol release 6\d, or .*`},
	} {
		reason, want := x[0], x[1]
		require.NoError(t, os.WriteFile(filepath.Join(c.slurm, "reason"), []byte(reason), 0o644))
		event, hook, junit := filepath.Join(c.dir, "event.json"), filepath.Join(c.dir, "hook"), filepath.Join(c.dir,
			"junit.xml")
		require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat > \"$1\"\n"), 0o755))
		o := c.nightly("--quiet", "--junit", junit, "--notify", fmt.Sprintf("%s '%s'", hook, event))
		require.Equal(t, exitNotSubmit, o.code)
		require.Empty(t, o.stdout)
		require.Regexp(t, `job 6\d of results/demo_\S+/0 `+want, o.stderr)
		var e notify.Event
		require.NoError(t, run.ReadJSON(event, &e))
		require.Equal(t, exitNotSubmit, e.Code)
		require.Len(t, e.Lines, 1, "an alert is one line")
		require.Regexp(t, strings.Replace(want, `\n\t`, "; ", 1), e.Lines[0])
		data, err := os.ReadFile(junit)
		require.NoError(t, err)
		require.Contains(t, string(data), `errors="1"`)
		o = c.nightly()
		require.Equal(t, exitNotSubmit, o.code)
		requireLines(t, o.stdout, `nightly demo: tonight's jobs were not submitted; no night is over yet`)
	}
	require.Len(t, c.jobs(), 2)

	c.end("CANCELLED by 0")
	c.nextName()
	o := c.nightly("--wait", "--quiet")
	require.Equal(t, exitNotSubmit, o.code, "tonight's jobs are held too, and nobody reads a warning")
	require.Regexp(t, `job 6\d of \S+ is held \(JobHeldAdmin\); 1 other run will not start either\n\thint: scontrol release 6\d`, o.stderr)
	require.Len(t, c.jobs(), 4)
}

// A call that dies between two submissions loses nothing: the next one submits the rest, though the first job
// runs.
func TestNightlyDiesBetweenSubmissions(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	sbatch := filepath.Join(c.slurm, "sbatch")
	whole := readText(t, sbatch)
	head, rest, _ := strings.Cut(whole, "\n")
	dies := head + "\n" + fmt.Sprintf("if [ -d %s/ids/60 ]; then kill -9 $PPID; exit 1; fi\n", c.slurm) + rest
	require.NoError(t, os.WriteFile(sbatch, []byte(dies), 0o755))
	o := c.nightly()
	require.Equal(t, -1, o.code, "it was killed: %s", o.stderr)
	require.Len(t, c.jobs(), 1)

	require.NoError(t, os.WriteFile(sbatch, []byte(whole), 0o755))
	o = c.nightly()
	require.Equal(t, exitOK, o.code, o.stderr)
	requireLines(t, o.stdout, `nightly demo: submitted results/demo_\S+; no night is over yet`)
	require.Len(t, c.jobs(), 2)
	roots, err := filepath.Glob(filepath.Join(c.dir, "results/demo_*"))
	require.NoError(t, err)
	require.Len(t, roots, 1, "it is the same night")

	o = c.nightly()
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stdout, "nothing was submitted")
	require.Len(t, c.jobs(), 2)
}

func TestNightlyTolerance(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	for day := 2; day <= 5; day++ {
		c.night(day, 100, false)
	}
	c.night(1, 80, false)
	o := c.nightly("--tolerance", "25", "--output", "json")
	require.Equal(t, exitOK, o.code)
	out := readDocument[document.Nightly](t, o)
	require.Equal(t, "profllm.output.nightly/1", out.Schema)
	require.Empty(t, out.Errors)
	require.Empty(t, out.Verdict.Changes)
	require.Equal(t, 6, out.Verdict.Compared)
	for _, bad := range [][]string{{"--tolerance=-1"}, {"--baselines=3"}, {"--notify="}, {`--notify=a "b`}} {
		require.Equal(t, exitUsage, c.nightly(bad...).code, bad)
	}
	o = c.nightly("--max-node-hours", "0.1", "--simulate")
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "above 0.1 node-hours\n\thint: --yes, or --max-node-hours 1.5\n")
}

// Several calls at once: one does the work, the others say who does.
func TestNightlyAtOnce(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	l, err := lease.Acquire(filepath.Join(c.dir, "results", ".leases", "demo"), lease.Options{Now: time.Now})
	require.NoError(t, err)
	o := c.nightly()
	require.Equal(t, exitOK, o.code)
	requireLines(t, o.stdout, fmt.Sprintf(`nightly demo: process %d on \S+ has held this lease since .*; nothing was done`, os.Getpid()))
	require.Empty(t, c.jobs())
	require.NoError(t, l.Release())

	var codes [4]chan outcome
	for i := range codes {
		codes[i] = make(chan outcome, 1)
		go func() { codes[i] <- c.nightly() }()
	}
	for i := range codes {
		require.Equal(t, exitOK, (<-codes[i]).code)
	}
	require.Len(t, c.jobs(), 2, "one night")
}

// Two nights on a real Slurm.
func TestNightlySlurm(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	for range 2 {
		o := profllm(t, dir, nil, "nightly", "demo", "--simulate", "--system", "site.toml", "--wait")
		require.Equal(t, exitOK, o.code)
		requireLines(t, o.stdout,
			`nightly demo: submitted \S+; demo of `+stampPattern+
				`: nothing changed; 2 runs, 2 without comparison \(simulated\)`)
	}
	require.Len(t, runs(t, dir), 4)
	for d := range runs(t, dir) {
		require.Equal(t, "COMPLETED", readResult(t, d).Slurm.State)
	}
}
