package collect_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

// nccl is the directory of a test that serves nothing, with a sentinel that says
// how its only phase ended.
func nccl(t *testing.T, phases ...run.Phase) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nccl", "0")
	two := plan.Slice{Count: 2}
	p := &plan.Plan{
		Schema: plan.Schema, RunID: "R", Scenario: "s", Test: "nccl", Workload: "NcclTest", Dir: dir,
		Job: plan.Job{Nodes: 2},
		Loads: []plan.Load{{RunID: "R", Dir: dir, Clients: []plan.Step{
			{Name: "nccl", Nodes: two, TasksPerNode: 4, Ends: true, Argv: plan.Texts("all_reduce_perf_mpi"), Log: "logs/nccl-%t.log", Success: "x"}}}},
		Config: plan.Config{Server: map[string]any{"nccl": map[string]any{"iters": 100}}},
	}
	require.NoError(t, run.Fill(dir, p, []byte("#!/bin/bash\n")))
	code := 0
	for _, ph := range phases {
		if ph.Code != 0 {
			code = 5
		}
	}
	sentinel := run.Sentinel{Schema: "profllm.finish/1", JobID: "20537",
		Time: time.Date(2026, 11, 21, 4, 56, 8, 0, time.UTC), Code: code, Phases: phases}
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), sentinel))
	return dir
}

// A test that serves nothing has completed when its phases ended with 0; no check
// of a benchmark is made.
func TestWithoutService(t *testing.T) {
	dir := nccl(t, run.Phase{Name: "nccl"})
	r := only(t, collector(t), dir, completed())
	require.Equal(t, result.Completed, r.Status)
	require.True(t, r.Validity.Valid)
	require.Equal(t, result.VerdictValid, r.Validity.Verdict)
	require.Nil(t, r.Failure)
	require.Nil(t, r.Results.GPUs, "how many GPUs a command used is not known")
	require.Equal(t, map[string]any{"nccl": map[string]any{"iters": float64(100)}}, r.Config.Server)
	require.Equal(t, []result.RoleArgv{{Role: "nccl", Argv: []string{"all_reduce_perf_mpi"}}}, r.Provenance.Commands)
	require.Equal(t, "1 phases ended with 0", r.Validity.Check("phase-failed").Detail)
	for _, word := range []string{"result-missing", "no-success", "accuracy-missing", "from-log"} {
		require.Equal(t, "not-possible", outcome(t, r, word), word)
	}
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
}

// covers: CD-43
func TestWithoutServiceFailed(t *testing.T) {
	for name, c := range map[string]struct {
		phases []run.Phase
		detail string
	}{
		"a bad exit":   {[]run.Phase{{Name: "nccl", Code: 3}}, "nccl ended with 3"},
		"lost":         {[]run.Phase{{Name: "nccl", Code: -1}}, "nccl was stopped, because a server that it needs died"},
		"never begun":  {nil, "nccl did not run to its end, because the job ended first"},
		"another name": {[]run.Phase{{Name: "bench"}}, "nccl did not run to its end, because the job ended first"},
	} {
		t.Run(name, func(t *testing.T) {
			r := only(t, collector(t), nccl(t, c.phases...), state("FAILED", run.Failed))
			require.Equal(t, result.Failed, r.Status)
			require.False(t, r.Validity.Valid)
			require.Equal(t, c.detail, r.Validity.Check("phase-failed").Detail)
		})
	}
}

// A run that was ended because the runs that it accompanied were over ended as planned, unless
// something of it had failed before.
//
// covers: CD-28
func TestEndedWithOthers(t *testing.T) {
	over := `{"time":"2026-11-21T04:56:07Z","event":"until-over","text":"every run is over: /r/a/0"}` + "\n"
	for name, c := range map[string]struct {
		phases []run.Phase
		status result.Status
		detail string
	}{
		"cut short": {nil, result.Ended, "nccl ended as planned: the runs that it accompanied were over"},
		"was done":  {[]run.Phase{{Name: "nccl"}}, result.Completed, "1 phases ended with 0"},
		"failed":    {[]run.Phase{{Name: "nccl", Code: 3}}, result.Failed, "nccl ended with 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := nccl(t, c.phases...)
			write(t, dir, "events.jsonl", over)
			r := only(t, collector(t), dir, completed())
			require.Equal(t, c.detail, r.Validity.Check("phase-failed").Detail)
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.status != result.Failed, r.Validity.Valid)
			require.Equal(t, c.status == result.Failed, r.JobFailed())
			data, err := resulttest.Marshal(r)
			require.NoError(t, err)
			require.NoError(t, result.Validate(data))
		})
	}
	dir := recorded(t) // a benchmark that was cut short has no numbers, and that is no failure
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile),
		run.Sentinel{JobID: "7", Phases: []run.Phase{{Name: "ready"}}, Script: new(0)}))
	write(t, dir, "events.jsonl", over)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, run.RawDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, run.LogDir)))
	r := only(t, collector(t), dir, completed())
	require.Equal(t, result.Ended, r.Status)
	require.False(t, r.JobFailed())
	require.Nil(t, r.Failure)
	require.Contains(t, r.Validity.Words, "result-missing")
}

// A phase whose log does not say what it should is a failure with its reason.
//
// covers: CD-40
func TestSuccessLineMissing(t *testing.T) {
	dir := nccl(t, run.Phase{Name: "nccl", Code: 7})
	write(t, dir, "events.jsonl",
		`{"time":"2026-11-21T04:56:07Z","event":"check-failed","phase":"nccl","text":"no line of nccl-%t.log (8 files) matches x"}`+"\n")
	r := only(t, collector(t), dir, state("FAILED", run.Failed))
	require.Equal(t, result.Failed, r.Status)
	require.Equal(t, "nccl ended with 7", r.Validity.Check("phase-failed").Detail)
	require.Equal(t, []result.Warning{{Kind: result.CheckFailed, Key: "nccl",
		Text: "no line of nccl-%t.log (8 files) matches x"}}, r.Warnings)
}
