package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/dryrun"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/templates"
)

// study is a scenario of small simulated runs on the lab, changed by hand before
// it is created.
type study struct {
	dir, root string
	campaign.Planned
}

// newStudy plans tests of one node each, one for every number of prompts.
func newStudy(t *testing.T, dir string, prompts ...int) *study {
	t.Helper()
	text := "name = \"study\"\n"
	for i, n := range prompts {
		text += fmt.Sprintf("[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\nnum_nodes = 1\ntime_limit = \"3m\"\n"+
			"[Tests.bench_cmd_args]\nnum_prompts = %d\nrandom_output_len = 20\nmax_concurrency = 4\n", i, n)
		if n > 1000 { // until something ends it
			name, value, _ := strings.Cut(slowTokens, "=")
			text += fmt.Sprintf("[Tests.extra_env_vars]\n%s = %q\n", name, value)
		}
	}
	s, err := scenario.Load(scenario.File{Name: "study.toml", Data: []byte(text)}, nil, scenario.HookFiles{})
	require.NoError(t, err)
	site, err := os.ReadFile("../../examples/slurm-lab/site.toml")
	require.NoError(t, err)
	sys, err := config.Parse("site.toml", site)
	require.NoError(t, err)
	o := planner.Options{Version: "v0", Created: time.Now(), Simulated: true, Output: filepath.Join(dir, "results"),
		Binary: binary, WorkDir: dir}
	st := &study{dir: dir, root: planner.Root(s, o)}
	st.Name, st.Root = s.Name, st.root
	set, err := planner.Plans(s, sys, o)
	require.NoError(t, err)
	for _, p := range set.Plans {
		st.Runs = append(st.Runs, run.Printed{Plan: p})
	}
	return st
}

// batch puts all runs into one.
func (s *study) batch(kind string, maxParallel int) {
	first := s.Runs[0].Plan
	b := &plan.Batch{
		Schema: plan.BatchSchema, RunID: first.RunID + "_b", Version: "v0", Created: first.Created,
		Scenario: first.Scenario,
		Dir:      filepath.Join(s.root, run.BatchDir, "1"), Kind: kind, MaxParallel: maxParallel, Binary: first.Binary,
		Job: first.Job,
	}
	b.Job.Name, b.Job.Comment = "batch."+b.RunID, "profllm:"+b.RunID
	for _, r := range s.Runs {
		b.Runs, b.Limits = append(b.Runs, r.Plan.Dir), append(b.Limits, r.Plan.Job.TimeLimit)
	}
	s.Batches = append(s.Batches, run.PrintedBatch{Batch: b})
}

// create writes the scenario's directory, as submit would.
func (s *study) create(t *testing.T) {
	t.Helper()
	var batches []*plan.Batch
	for _, b := range s.Batches {
		batches = append(batches, b.Batch)
	}
	var plans []*plan.Plan
	for _, r := range s.Runs {
		plans = append(plans, r.Plan)
	}
	s.Runs, s.Batches = nil, nil
	require.NoError(t, s.Render(plans, batches, []fs.FS{templates.FS}))
	require.NoError(t, run.Create(s.root, run.Scenario{Name: s.Name}, s.Runs, s.Batches))
}

// dirOf is the run directory of test i.
func (s *study) dirOf(i int) string { return s.Runs[i].Plan.Dir }

func (s *study) task(t *testing.T, i int) string {
	t.Helper()
	var book run.Book
	sub, err := book.ReadSubmission(s.dirOf(i))
	require.NoError(t, err)
	return sub.JobID
}

func scancel(t *testing.T, ids ...string) {
	t.Helper()
	out, err := exec.Command("scancel", ids...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// settled is how long states that are all final may stay as they are before they count as the last:
// Slurm's accounting may know better a while later.
const settled = 3 * time.Minute

// until asks for the states of a study's runs until the condition holds.
func (s *study) until(t *testing.T, what string, holds func(states []string) bool) {
	t.Helper()
	var last string
	var since time.Time
	await.True(t, func() bool {
		cmd := command(s.dir, nil, "slurm", "status", s.root, "--output", "json")
		out, err := cmd.Output()
		var answer document.States
		if err != nil || json.Unmarshal(out, &answer) != nil {
			return false
		}
		var states []string
		for _, l := range answer.Runs {
			states = append(states, l.State.State)
		}
		if now := strings.Join(states, " "); now != last || !over(states) {
			last, since = now, time.Now()
		}
		done := holds(states)
		require.False(t, !done && time.Since(since) > settled, "%s: all is over, with %s%s", what, last, s.said(t))
		return done
	}, "%s; last: %s", what, &last)
	t.Logf("%s: %s", what, last)
}

// said is what the runs of a study wrote about their ends.
func (s *study) said(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for i := range s.Runs {
		for _, name := range []string{"stderr.txt", run.EventFile, run.SentinelFile} {
			data, err := os.ReadFile(filepath.Join(s.dirOf(i), name))
			fmt.Fprintf(&text, "\nt%d, %s (%v):\n%s", i, name, err, data)
		}
	}
	return text.String()
}

func over(states []string) bool {
	return !slices.Contains(states, run.Queued) && !slices.Contains(states, run.Running) &&
		!slices.Contains(states, run.Unknown)
}

// faulty makes the server of a run die at its start.
func faulty(p *plan.Plan) {
	p.Env = append(p.Env, plan.Var{Name: "PROFLLM_SIM_FAULTS", Value: plan.Text("serve:die-at-start,exit=3")})
}

// An array of six: one task is cancelled while it runs, one while it waits; the
// resume runs these two in a new array, and nothing else again.
//
// covers: PL-S3, PL-S40, PL-D2
func TestSlurmArray(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 20, 100000, 20, 20, 20, 20)
	s.batch(plan.Array, 2)
	s.create(t)
	o := profllm(t, dir, nil, "slurm", "resume", s.root)
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "array of 6 runs")
	first := s.task(t, 1)
	scancel(t, s.task(t, 5))
	await.Text(t, filepath.Join(s.dirOf(1), "events.jsonl"), "all-ready")
	scancel(t, first)
	s.until(t, "the first array", over)
	o = profllm(t, dir, nil, "slurm", "resume", s.root)
	require.Equal(t, exitOK, o.code)
	require.Contains(t, o.stdout, "array of 2 runs")
	require.Contains(t, o.stderr, "1 run cancelled")
	require.Contains(t, o.stderr, "1 run never started")
	require.Contains(t, o.stderr, "4 runs left alone: succeeded")
	s.until(t, "what ends by itself", func(states []string) bool { return states[5] == run.Succeeded })
	await.Text(t, filepath.Join(s.dirOf(1), "events.jsonl"), "all-ready")
	var claim run.Claim
	require.NoError(t, run.ReadJSON(filepath.Join(s.dirOf(1), run.AttemptDir, "1", run.ClaimFile), &claim))
	require.Equal(t, first, claim.JobID)
	require.NoError(t, run.ReadJSON(filepath.Join(s.dirOf(1), run.ClaimFile), &claim))
	require.Equal(t, s.task(t, 1), claim.JobID)
	require.NotEqual(t, first, claim.JobID)

	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", s.root).code)
	require.Equal(t, exitJobFailed, profllm(t, dir, nil, "collect", s.root).code)
	for i := range s.Runs {
		r := readResult(t, s.dirOf(i))
		require.Equal(t, i != 1, r.Status == result.Completed, "t%d", i)
		require.Equal(t, s.task(t, i), r.Slurm.JobID)
	}
	require.Equal(t, result.Cancelled, readResult(t, s.dirOf(1)).Status)
	requireNoLeftovers(t, strings.SplitN(s.task(t, 1), "_", 2)[0])
}

// A chain whose first run fails: the others never run, and say why.
//
// covers: CD-6, CD-28, CD-42, PL-S26
func TestSlurmChain(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 20, 20, 20)
	faulty(s.Runs[2].Plan)
	for i := range 2 { // t0 waits for t1, t1 for t2: parents come first all the same
		s.Runs[i].Plan.Job.After = []plan.After{{Type: "afterok", Dir: s.dirOf(i + 1)},
			{Type: "after", Dir: s.dirOf(2)}}
	}
	s.create(t)
	o := profllm(t, dir, nil, "slurm", "resume", s.root, "--wait")
	require.Equal(t, exitJobFailed, o.code)
	require.Contains(t, o.stdout, "after afterok:"+s.task(t, 1)+" and after:"+s.task(t, 2))
	require.NoFileExists(t, filepath.Join(s.dirOf(0), run.ClaimFile))
	require.NoFileExists(t, filepath.Join(s.dirOf(1), run.ClaimFile))
	old := s.task(t, 1)

	o = profllm(t, dir, nil, "slurm", "resume", s.root)
	require.Equal(t, exitNotSubmit, o.code)
	require.Contains(t, o.stderr, "2 runs never started")
	require.Contains(t, o.stderr, "it waits for "+s.dirOf(2)+" (afterok), whose job "+s.task(t, 2)+" is over: failed")
	require.Contains(t, o.stderr, "it waits for "+s.dirOf(1)+" (afterok), which was not submitted")
	require.Empty(t, s.task(t, 1))
	require.FileExists(t, filepath.Join(s.dirOf(1), run.AttemptDir, "1", run.SubmitFile))
	require.Contains(t, o.stderr, "hint: profllm slurm resume --failed ")
	require.Contains(t, profllm(t, dir, nil, "why", s.dirOf(0)).stdout, "profllm slurm resume --failed ")

	o = profllm(t, dir, []string{"PROFLLM_SIM_FAULTS="}, "slurm", "resume", s.dirOf(0), "--failed")
	require.Equal(t, exitOK, o.code, "the parent is asked for once more, so the children wait for it again")
	require.NotEqual(t, old, s.task(t, 1))
	s.until(t, "the chain fails again", over)
}

// Three runs in one allocation that is larger than each needs: the second is at
// its own time limit, flushes, and the third runs.
//
// covers: CD-22
func TestSlurmSequence(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 20, 100000, 20)
	s.batch(plan.Sequence, 0)
	b := s.Batches[0].Batch
	b.Job.Nodes, b.Limits[1] = 2, plan.Seconds(40*time.Second) // it measures by then on a busy machine too
	s.create(t)
	o := profllm(t, dir, nil, "slurm", "resume", s.root, "--wait")
	require.Equal(t, exitJobFailed, o.code)
	job := s.task(t, 0)
	for i := range s.Runs {
		r := readResult(t, s.dirOf(i))
		require.Equal(t, i != 1, r.Status == result.Completed, "t%d: %s", i, r.Status)
		require.Equal(t, job, s.task(t, i), "one job")
		require.Len(t, r.Placement.Nodes, 1)
	}
	completed := readResult(t, s.dirOf(1)).Results.CompletedRequests
	require.NotNil(t, completed, "flushed")
	require.Positive(t, *completed, "flushed")
	out, err := os.ReadFile(filepath.Join(b.Dir, "stdout.txt"))
	require.NoError(t, err)
	require.Contains(t, string(out), s.dirOf(1)+": exit code 124\n")
	s.until(t, "the second was at its limit", func(states []string) bool {
		return slices.Equal(states, []string{run.Succeeded, run.Timeout, run.Succeeded})
	})
	r := readResult(t, s.dirOf(1))
	require.Equal(t, "TIMEOUT", r.Slurm.State)
	require.Equal(t, "slurm-time-limit", r.Failure.Cause)
	requireNoLeftovers(t, job)
}

// A run that was at its own limit stays so when its job is cancelled later.
//
// covers: CD-22
func TestSlurmSequenceCancelledAfterALimit(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 100000, 100000)
	s.batch(plan.Sequence, 0)
	s.Batches[0].Batch.Limits[0] = plan.Seconds(8 * time.Second)
	s.create(t)
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "resume", s.root).code)
	s.until(t, "the second run begins",
		func(states []string) bool { return slices.Equal(states, []string{run.Timeout, run.Running}) })
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", s.root).code)
	s.until(t, "the second run alone is cancelled",
		func(states []string) bool { return slices.Equal(states, []string{run.Timeout, run.Cancelled}) })
	requireNoLeftovers(t, s.task(t, 0))
}

// The run of a sequence that its job's end cuts short is cancelled at every step of its script. Slurm
// ends the steps first, so the script may have seen one fail by then.
//
// covers: CD-22
func TestSlurmSequenceCancelledAtAnyStep(t *testing.T) {
	t.Parallel()
	for _, file := range []string{run.ClaimFile, run.NodesFile, "job.env", "logs/serve-0.log", run.EventFile} {
		t.Run(strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			s := newStudy(t, dir, 5, 100000)
			s.batch(plan.Sequence, 0)
			s.create(t)
			require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "resume", s.root).code)
			await.True(t, func() bool {
				_, err := os.Stat(filepath.Join(s.dirOf(1), file))
				return err == nil
			}, "the second run has written %s", file)
			require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", s.root).code)
			s.until(t, "the second run alone is cancelled",
				func(states []string) bool { return slices.Equal(states, []string{run.Succeeded, run.Cancelled}) })
			requireNoLeftovers(t, s.task(t, 0))
		})
	}
}

// hook makes a run of a study a hook of its first one.
func (s *study) hook(t *testing.T, i int, folder string) plan.Hook {
	t.Helper()
	p := s.Runs[i].Plan
	dir := filepath.Join(s.dirOf(0), folder, "h")
	data, err := p.Encode()
	require.NoError(t, err)
	p, err = plan.Decode(bytes.ReplaceAll(data, []byte(p.Dir), []byte(dir)))
	require.NoError(t, err)
	return plan.Hook{Name: "h", Dir: dir, Plan: p}
}

// A run before a test gates it; one after it sees its roles gone. Both serve and
// measure, which is more than one step.
//
// covers: CD-21
func TestSlurmHooks(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("pre-test fails: %v", fails), func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			s := newStudy(t, dir, 20, 10, 10)
			if fails {
				faulty(s.Runs[1].Plan)
			}
			s.Runs[0].Plan.PreTest = []plan.Hook{s.hook(t, 1, run.PreTestDir)}
			s.Runs[0].Plan.PostTest = []plan.Hook{s.hook(t, 2, run.PostTestDir)}
			s.Runs = s.Runs[:1]
			s.create(t)
			o := profllm(t, dir, nil, "slurm", "resume", s.root, "--wait")
			var end run.Sentinel
			require.NoError(t, run.ReadJSON(filepath.Join(s.dirOf(0), run.SentinelFile), &end))
			if fails {
				require.Equal(t, exitJobFailed, o.code)
				require.Equal(t, []run.Phase{{Name: "pre_test/h", Code: 1}}, end.Phases)
				require.NoFileExists(t, filepath.Join(s.dirOf(0), run.PlacementFile))
				require.NoFileExists(t, filepath.Join(s.dirOf(0), run.PostTestDir, "h", run.ClaimFile))
				return
			}
			require.Equal(t, exitOK, o.code)
			require.Equal(t, []run.Phase{{Name: "pre_test/h"}, {Name: "ready"}, {Name: "bench"}, {Name: "post_test/h"}},
				end.Phases)
			for _, folder := range []string{"", "pre_test/h", "post_test/h"} {
				r := readResult(t, filepath.Join(s.dirOf(0), folder))
				require.Equal(t, result.Completed, r.Status)
			}
			requireNoLeftovers(t, s.task(t, 0))
		})
	}
}

// Two loads on one service, the second with an empty cache, each with a
// directory, a result and counters of its own.
func TestSlurmLoads(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 20, 30)
	p := s.Runs[0].Plan
	other := s.hook(t, 1, "../9").Plan.Loads[0] // of test t1, as if it were a point of t0's sweep
	other.Dir = filepath.Join(filepath.Dir(p.Dir), "9")
	other.Clients[0].Argv = retarget(other.Clients[0].Argv, filepath.Join(p.Dir, "../9/h"), other.Dir)
	other.Clients[0].Log = "../9/logs/bench-%t.log"
	p.Loads[0].Name, other.Name, other.Cache = "1", "9", plan.CacheReset
	p.Loads, p.CachePath = append(p.Loads, other), "/reset_prefix_cache"
	p.Env = append(p.Env, plan.Var{Name: "VLLM_SERVER_DEV_MODE", Value: plan.Text("1")}) // else vLLM has no such route
	s.Runs = s.Runs[:1]
	s.create(t)
	o := profllm(t, dir, nil, "slurm", "resume", s.root, "--wait")
	require.Equal(t, exitOK, o.code)
	for rel, n := range map[string]int{p.Dir: 20, other.Dir: 30} {
		r := readResult(t, rel)
		require.Equal(t, result.Completed, r.Status)
		require.Equal(t, n, *r.Results.CompletedRequests)
		for _, when := range []string{"before", "after"} {
			require.FileExists(t, filepath.Join(rel, run.RawDir, job.MetricsFile("serve", when)))
		}
	}
	var end run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(p.Dir, run.SentinelFile), &end))
	require.Equal(t, []run.Phase{{Name: "ready"}, {Name: "1/load"}, {Name: "1/bench"}, {Name: "9/load"},
		{Name: "9/bench"}}, end.Phases)
}

func retarget(words []plan.Word, from, to string) []plan.Word {
	for i, w := range words {
		if text, ok := w.Literal(); ok {
			words[i] = plan.Text(strings.ReplaceAll(text, from, to))
		}
	}
	return words
}

// A run that accompanies another ends with it, as planned.
//
// covers: CD-28
func TestSlurmUntil(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	s := newStudy(t, dir, 100000, 20)
	s.Runs[0].Plan.Job.Until = []string{s.dirOf(1)}
	s.Runs[1].Plan.Job.After = []plan.After{{Type: "after", Dir: s.dirOf(0)}}
	s.create(t)
	o := profllm(t, dir, nil, "slurm", "resume", s.root, "--wait")
	require.Equal(t, exitOK, o.code)
	r := readResult(t, s.dirOf(0))
	require.Equal(t, result.Ended, r.Status)
	require.Equal(t, "COMPLETED", r.Slurm.State)
	data, err := os.ReadFile(filepath.Join(s.dirOf(0), run.EventFile))
	require.NoError(t, err)
	require.Contains(t, string(data), `"event":"until-over","text":"every run is over: `+s.dirOf(1))
	require.Equal(t, result.Completed, readResult(t, s.dirOf(1)).Status)
	requireNoLeftovers(t, s.task(t, 0))
}

// The dry run says what sbatch is told about other jobs, outside of the script.
func TestSymbolicDependency(t *testing.T) {
	t.Parallel()
	s := newStudy(t, t.TempDir(), 20, 20)
	s.Runs[1].Plan.Job.After = []plan.After{{Type: "afterok", Dir: s.dirOf(0)}, {Type: "after", Dir: s.dirOf(0)},
		{Type: "afterok", Dir: s.dirOf(0)}}
	require.Equal(t, "# sbatch --dependency=afterok:<job of test t0>,after:<job of test t0> --kill-on-invalid-dep=yes\n", dryrun.Dependency(&s.Planned, &s.Runs[1].Plan.Job))
	require.Empty(t, dryrun.Dependency(&s.Planned, &s.Runs[0].Plan.Job))
}

// An array costs what its runs cost, a sequence what its allocation does.
func TestCost(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"": "3 jobs, at most 0.2 node-hours\n",
		plan.Array:    "3 runs in 1 job, at most 0.2 node-hours\n",
		plan.Sequence: "3 runs in 1 job, at most 2.0 node-hours\n"} {
		s := newStudy(t, t.TempDir(), 1, 2, 3)
		if kind != "" {
			s.batch(kind, 0)
		}
		if kind == plan.Sequence {
			s.Batches[0].Batch.Job.Nodes, s.Batches[0].Batch.Job.TimeLimit = 2, plan.Seconds(time.Hour)
		}
		var said bytes.Buffer
		a := &app{stderr: &said}
		require.NoError(t, a.allow(100, false)(s.Cost()))
		require.Equal(t, want, said.String(), kind)
		require.Error(t, a.allow(0, false)(s.Cost()))
		require.NoError(t, a.allow(0, true)(s.Cost()))
	}
}

func TestCostText(t *testing.T) {
	t.Parallel()
	for want, cost := range map[string]campaign.Cost{
		"1 job, at most 0.2 node-hours":                             {Runs: 1, Jobs: 1, NodeHours: 0.2},
		"3 runs in 1 job, at most 0.1 node-hours":                   {Runs: 3, Jobs: 1, NodeHours: 0.04},
		"1 job, without a time limit":                               {Runs: 1, Jobs: 1, Unlimited: 1},
		"3 jobs, at most 8.0 node-hours and 1 without a time limit": {Runs: 3, Jobs: 3, NodeHours: 8, Unlimited: 1},
	} {
		require.Equal(t, want, cost.String())
	}
	a := &app{stderr: io.Discard}
	err := a.allow(0.1, false)(campaign.Cost{Runs: 1, Jobs: 1, NodeHours: 0.25})
	require.ErrorContains(t, err, "above 0.1 node-hours\n\thint: --yes, or --max-node-hours 0.3")
}

// In a rehearsal too, a test that ends with another runs beside it, and what
// follows it waits for its end.
//
// covers: CD-6
func TestRehearseCompany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "name = \"s\"\n"
	for _, x := range [][2]string{
		{"beside", "dependencies = [{ type = \"end_post_comp\", id = \"z\" }]\n[Tests.cmd_args]\nseconds = 600\n"},
		{"later", "dependencies = [{ type = \"start_post_comp\", id = \"beside\" }]\n[Tests.cmd_args]\nseconds = 0\n"},
		{"z", "[Tests.cmd_args]\nseconds = 1\n"},
	} {
		text += fmt.Sprintf("[[Tests]]\nid = %q\ntest_template_name = \"Sleep\"\n%s", x[0], x[1])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	site, err := filepath.Abs("../../examples/slurm-lab/site.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "rehearse", "s.toml", "--system", site, "--output-dir", "out")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Regexp(t, `(?s)beside/0: .*z/0: .*later/0: `, o.stderr)
	roots, err := filepath.Glob(filepath.Join(dir, "out", "*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	events, err := job.ReadEvents(filepath.Join(roots[0], "beside/0"))
	require.NoError(t, err)
	require.True(t, job.EndedWithOthers(events))
	require.FileExists(t, filepath.Join(roots[0], "later/0", run.SentinelFile))

	require.Regexp(t, `beside/0 +ended as planned, valid \(simulated\)`, o.stdout)
	require.NotContains(t, o.stderr+o.stdout, "phase-failed")
	for command, said := range map[string]string{
		"collect":                  "ended as planned, valid (simulated)",
		"report":                   "ended as planned, valid (simulated)",
		"slurm status --exit-code": "succeeded",
		"why":                      "nothing: it ended, as planned, when the runs that it accompanied (end_post_comp) were over",
	} {
		o := profllm(t, dir, nil, append(strings.Fields(command), roots[0])...)
		require.Equal(t, exitOK, o.code, "%s: %s", command, o.stderr)
		require.Contains(t, o.stdout, said, command)
		for _, wrong := range []string{"cancelled", "invalid", "resume", "again"} {
			require.NotContains(t, o.stdout+o.stderr, wrong, command)
		}
	}
}

// Points of a sweep one after the other in one allocation: each is measured on
// a server of its own, a server that does not start ends its own points only,
// and each run cleans up once, whatever variable of CloudAI's script is set.
//
// covers: CD-22, CD-37, C.9
func TestRehearsePointsInOneAllocation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "vllm.agg.1node"
test_template_name = "vllm"
[Tests.extra_env_vars]
PROFLLM_SIM_ITL = ["2ms", "20ms"]
PROFLLM_SIM_FAULTS = ["", "serve:die-at-start,exit=3"]
CLOUDAI_VLLM_AGG_1NODE_0_CLEANUP_DONE = "1"
[Tests.bench_cmd_args]
max_concurrency = [1, 2]
num_prompts = 4
random_output_len = 5
`), 0o644))
	o := profllm(t, dir, nil, "rehearse", "--single-sbatch", "s.toml")
	require.Equal(t, exitJobFailed, o.code)
	require.Contains(t, o.stderr, "sequence of 4 runs")
	all := runs(t, dir)
	require.Len(t, all, 4)
	for d, p := range all {
		data, err := os.ReadFile(filepath.Join(d, run.EventFile))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(data), `"event":"stopping"`))
		sound, itl := p.Step == 1 || p.Step == 5, 2.0
		if p.Step > 4 {
			itl = 20
		}
		for _, l := range p.Loads {
			r := readResult(t, filepath.Join(d, "..", fmt.Sprint(l.Step)))
			require.Equal(t, sound, r.Validity.Valid, "step %d", l.Step)
			if !sound {
				require.Contains(t, r.Validity.Check("role-died").Detail, "ended with 3")
				continue
			}
			p50, ok := r.Results.Latency[result.TPOT].Percentile(50)
			require.True(t, ok)
			require.InDelta(t, itl, p50, 8, "step %d was measured on the server of its own", l.Step)
		}
	}
}

// chained is a scenario whose first test fails, with a child, a grandchild, and
// one that waits for nobody.
const chained = `name = "chained"
[[Tests]]
id = "base"
name = "base"
description = "fails"
test_template_name = "BashCmd"
time_limit = "00:02:00"
[Tests.cmd_args]
cmd = "exit 3"
[[Tests]]
id = "child"
name = "child"
description = "after it"
test_template_name = "Sleep"
time_limit = "00:02:00"
dependencies = [{ type = "start_post_comp", id = "base" }]
[Tests.cmd_args]
seconds = 1
[[Tests]]
id = "grandchild"
name = "grandchild"
description = "after that"
test_template_name = "Sleep"
time_limit = "00:02:00"
dependencies = [{ type = "start_post_comp", id = "child" }]
[Tests.cmd_args]
seconds = 1
[[Tests]]
id = "other"
name = "other"
description = "for itself"
test_template_name = "Sleep"
time_limit = "00:02:00"
[Tests.cmd_args]
seconds = 1
`

// requireChained looks at what became of the tests of chained, in one allocation
// or in several; with goOn the children ran.
func requireChained(t *testing.T, dir string, goOn bool) {
	t.Helper()
	for d, p := range runs(t, dir) {
		began := goOn || p.Test == "base" || p.Test == "other"
		if _, err := os.Stat(filepath.Join(d, run.ClaimFile)); began != (err == nil) {
			t.Errorf("%s: began %v, want %v", p.Test, err == nil, began)
		}
		var st run.State
		err := run.ReadJSON(filepath.Join(d, run.StateFile), &st)
		switch {
		case p.Test == "base":
			require.NoError(t, err)
			require.Equal(t, run.Failed, st.State)
		case began:
			require.NoError(t, err)
			require.Equal(t, run.Succeeded, st.State, p.Test)
		case err == nil: // a rehearsal refuses it instead
			require.Equal(t, run.Cancelled, st.State, p.Test)
			require.Equal(t, run.NeverRan, st.Note)
		}
	}
}

// What waits for a failed run does not begin, in one allocation as in several
// jobs; with job_status_check = false it does.
//
// covers: CD-6, CD-22, CD-42
func TestRehearseChainInOneAllocation(t *testing.T) {
	t.Parallel()
	for _, goOn := range []bool{false, true} {
		for _, args := range [][]string{{"--single-sbatch"}, {}} {
			t.Run(fmt.Sprint(goOn, args), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				text := chained
				if goOn {
					text = "job_status_check = false\n" + text
				}
				require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
				o := profllm(t, dir, nil, append([]string{"rehearse", "s.toml", "--output-dir", "results"}, args...)...)
				require.Equal(t, exitJobFailed, o.code)
				requireChained(t, dir, goOn)
			})
		}
	}
}

// The same on Slurm, and resume asks for the parent and for its children.
//
// covers: CD-22, CD-42
func TestSlurmChainInOneAllocation(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(chained), 0o644))
	o := profllm(t, dir, nil, "slurm", "submit", "s.toml", "--system", "site.toml", "--single-sbatch", "--wait", "-y",
		"--output-dir", "results")
	require.Equal(t, exitJobFailed, o.code)
	requireChained(t, dir, false)
	o = profllm(t, dir, nil, "slurm", "status", "results")
	require.Equal(t, 2, strings.Count(o.stdout, "cancelled never ran"))
	require.Contains(t, o.stdout, "base/0 (afterok), which ended with ")
	roots, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	require.NoError(t, err)
	o = profllm(t, dir, nil, "slurm", "resume", "--failed", roots[0], "--wait")
	require.Equal(t, exitJobFailed, o.code)
	require.Contains(t, o.stderr, "2 runs never started")
	require.Contains(t, o.stdout, "sequence of 3 runs")
	requireChained(t, dir, false)
}

// Hooks are runs: shell text goes to the nodes of the hook and has a log for each
// rank, a served benchmark keeps its own files, and one that fails keeps the
// test from starting.
//
// covers: CD-21, CD-40
func TestRehearseHooks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	for _, code := range []int{0, 3} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "hook"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "hook/h.toml"), []byte(fmt.Sprintf(`name = "h"
[[Tests]]
id = "serve"
test_template_name = "vllm"
[Tests.bench_cmd_args]
num_prompts = 4
random_output_len = 3
[[Tests]]
id = "look"
test_template_name = "BashCmd"
num_nodes = 2
cmd_args.cmd = "echo rank $SLURM_PROCID; exit %d"
`, code)), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
pre_test = "h"
[[Tests]]
id = "a"
test_template_name = "BashCmd"
num_nodes = 2
cmd_args.cmd = "echo ran"
`), 0o644))
			o := profllm(t, dir, nil, "rehearse", "s.toml")
			d := only(t, dir)
			require.Equal(t, 4, *readResult(t, filepath.Join(d, "pre_test/serve")).Results.CompletedRequests)
			require.FileExists(t, filepath.Join(d, "pre_test/serve/logs/serve-0.log"))
			if code == 0 {
				require.Equal(t, exitOK, o.code)
				for rank := range 2 { // of a hook that fails, one rank ends the other
					log, err := os.ReadFile(filepath.Join(d, fmt.Sprintf("pre_test/look/logs/bash-%d.log", rank)))
					require.NoError(t, err)
					require.Contains(t, string(log), fmt.Sprintf("rank %d\n", rank))
				}
				require.FileExists(t, filepath.Join(d, "logs/bash-0.log"))
				return
			}
			require.Equal(t, exitJobFailed, o.code)
			require.Contains(t, o.stdout, "pre_test/look ended with 5")
			require.NoFileExists(t, filepath.Join(d, "logs/bash-0.log"))
		})
	}
}

// One cancel ends a test with all its iterations, also where the next would run
// after a failure.
//
// covers: CD-27
func TestSlurmCancelEndsWhatFollows(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
job_status_check = false
[[Tests]]
id = "a"
test_template_name = "Sleep"
iterations = 3
time_limit = "5m"
cmd_args.seconds = 200
`), 0o644))
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "submit", "--system", "site.toml", "s.toml").code)
	roots, err := filepath.Glob(filepath.Join(dir, "results", "s_*"))
	require.NoError(t, err)
	require.Len(t, roots, 1)
	await.Text(t, filepath.Join(roots[0], "a/0", run.ClaimFile), "job_id")
	require.Equal(t, exitOK, profllm(t, dir, nil, "slurm", "cancel", roots[0]).code)
	lines := readDocument[document.States](t, profllm(t, dir, nil, "slurm", "status", "--output", "json", roots[0])).
		Runs
	require.Len(t, lines, 3)
	for i, l := range lines {
		require.Equal(t, run.Cancelled, l.State.State)
		out, err := exec.Command("squeue", "-h", "-j", l.State.JobID, "-t", "PENDING,RUNNING").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
		if i > 0 {
			require.NoFileExists(t, filepath.Join(roots[0], "a", fmt.Sprint(i), run.ClaimFile), "never began")
		}
	}
}
