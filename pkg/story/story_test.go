package story_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/story"
)

func at(second float64) time.Time {
	return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
}

// died is a run whose decode server ran out of memory under load.
func died() story.Evidence {
	p := &plan.Plan{
		RunID: "exp_1", Test: "disagg", Scenario: "nightly", Dir: "/runs/disagg/0", Job: plan.Job{Nodes: 2},
		Roles: []plan.Role{
			{Name: "prefill", Nodes: plan.Slice{Offset: 0, Count: 1}, GPUs: []int{0, 1}, Engine: true},
			{Name: "decode", Nodes: plan.Slice{Offset: 1, Count: 1}, GPUs: []int{0, 1}, Engine: true},
		},
		Loads: []plan.Load{{RunID: "exp_1", Dir: "/runs/disagg/0", Client: "vllm",
			Clients: []plan.Step{{Name: "bench"}}}},
	}
	return story.Evidence{
		Dir: "disagg/0", Plan: p, Load: &p.Loads[0],
		Submission: &run.Submission{JobID: "17"},
		State: &run.State{JobID: "17", State: run.Failed, Raw: "FAILED", ExitCode: "5:0", Source: "sacct",
			At: at(600)},
		Claim:     &run.Claim{JobID: "17", Time: at(0)},
		Placement: &run.Placement{Nodes: []run.Node{{Host: "n1"}, {Host: "n2"}}},
		Sentinel: &run.Sentinel{Time: at(80), Code: 1,
			Phases: []run.Phase{{Name: "ready", Code: 0}, {Name: "bench", Code: -1}},
			Roles:  []run.Phase{{Name: "prefill", Code: 143}, {Name: "decode", Code: 1}}},
		Events: []job.Event{
			{Time: at(31), Event: job.RoleReady, Role: "prefill"}, {Time: at(42.5), Event: job.RoleReady, Role: "decode"},
			{Time: at(42.6), Event: job.AllReady}, {Time: at(70), Event: job.RoleDied, Role: "decode", Text: "while a client ran"},
			{Time: at(71), Event: job.Stopping},
		},
		Result: &result.Result{
			Status: result.Failed,
			Failure: &result.Failure{
				Cause: "cuda-oom", Confidence: result.Exact, Role: "decode", Node: "n2", Rank: "TP1",
				File: "logs/decode-0.log", LineNumber: 812,
				Line: "torch.OutOfMemoryError: CUDA out of memory.\x1b[2J Tried to allocate 1.96 GiB.",
				Next: "lower gpu_memory_utilization",
				Others: []result.OtherCause{{Cause: "cuda-oom", Role: "prefill", File: "logs/prefill-0.log"},
					{Cause: "connection-refused", Role: "bench", File: "logs/bench-0.log", LineNumber: 9}},
			},
			Validity: &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"role-died", "no-success"}},
		},
		Logs: []string{"logs/decode-0.log", "logs/prefill-0.log", "stderr.txt"},
	}
}

func text(t *testing.T, s story.Story) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.String()
}

// covers: PL-F7
func TestARoleThatDied(t *testing.T) {
	require.Equal(t, `disagg/0: failed
  asked     test disagg of scenario nightly: prefill on 2 GPUs, decode on 2 GPUs, bench; 2 nodes (n1, n2)
  happened  started 2026-11-21 10:00:00 UTC; prefill ready after 31.0 s; decode ready after 42.5 s; decode died at 70.0 s (exit code 1), while a client ran; ended at 80.0 s with code 1
  job       job 17 failed, exit code 5:0; sacct said so at 2026-11-21 10:10:00 UTC
  cause     cuda-oom in decode, rank TP1, on n2: logs/decode-0.log:812
  line      torch.OutOfMemoryError: CUDA out of memory.[2J Tried to allocate 1.96 GiB.
  followed  connection-refused in bench: logs/bench-0.log:9; phase bench was ended, because a role had died
  checks    role-died, no-success
  do        lower gpu_memory_utilization
  logs      disagg/0: logs/decode-0.log, logs/prefill-0.log, stderr.txt
`, text(t, story.Of(died())))
}

func TestOtherEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*story.Evidence)
		verdict string
		has     []string
		hasNot  []string
	}{
		"valid": {func(e *story.Evidence) {
			e.Sentinel.Code, e.Sentinel.Phases, e.State.State, e.State.ExitCode = 0, nil, run.Succeeded, "0:0"
			e.Result = &result.Result{Status: result.Completed,
				Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid}}
		}, "valid", []string{"the run is valid"}, []string{"cause", "logs "}},
		"a rehearsal": {func(e *story.Evidence) { e.State.Source = "local" }, "failed",
			[]string{"; this machine said so at 2026-11-21"}, nil},
		"a valid load of a job that failed": {func(e *story.Evidence) {
			e.Sentinel.Code, e.Sentinel.Phases, e.Events = 5, []run.Phase{{Name: "post_test/disk", Code: 1}}, nil
			e.Result = &result.Result{Status: result.Completed,
				Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid, Checks: []result.Check{
					{Word: "job-state", Outcome: result.Pass, Detail: "the job's exit code 5 means a failed phase"}}}}
		}, "valid", []string{"job 17 failed",
			"the numbers are valid, and the job failed: it ended with code 5; phase post_test/disk failed (exit code 1)"}, nil},
		"numbers that cannot be believed": {func(e *story.Evidence) {
			e.Sentinel.Code, e.Sentinel.Phases, e.Events = 6, nil, nil
			e.Result.Status = result.Partial
			e.Result.Failure = &result.Failure{Cause: "unknown", Confidence: result.NoCause, Next: "n",
				Tail: []string{"wrote x"}}
			e.Result.Validity = &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"cache-warm"},
				Checks: []result.Check{
					{Word: "cache-warm", Outcome: result.Fail, Severity: result.Invalid, Detail: "hit rate 0.9, planned 0", Why: "a warm cache makes prefill look free"}}}
		}, "invalid", []string{"cache-warm: hit rate 0.9, planned 0", "do not use the numbers: a warm cache"},
			[]string{"wrote x", "cause"}},
		"requests that a server failed": {func(e *story.Evidence) {
			e.Sentinel.Code, e.Sentinel.Phases, e.Events = 6, nil, nil
			e.Result.Status = result.Partial
			e.Result.Failure = &result.Failure{Cause: "backend-failed", Confidence: result.FromSymptom, Role: "decode",
				File: "logs/proxy-0.log", LineNumber: 6, Line: "status=500", Next: "n"}
			e.Result.Validity = &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"request-errors"},
				Checks: []result.Check{{Word: "request-errors", Outcome: result.Fail, Severity: result.Invalid,
					Detail: "33 of 160 requests failed"}}}
		}, "invalid", []string{" in decode: logs/proxy-0.log:6", "line      status=500",
			"request-errors: 33 of 160 requests failed"}, nil},
		"a role that died after some requests were done": {func(e *story.Evidence) {
			e.Result.Status = result.Partial
			e.Result.Validity.Checks = []result.Check{
				{Word: "role-died", Outcome: result.Fail, Severity: result.Invalid, Detail: "decode died"}}
		}, "failed", []string{"disagg/0: failed\n", "decode died at 70.0 s"}, nil},
		"a failure that nobody knows": {func(e *story.Evidence) {
			e.Result.Failure = &result.Failure{Cause: "unknown", Confidence: result.NoCause, Role: "decode",
				File: "logs/decode-0.log", LineNumber: 3,
				Line: "gave up", Next: "read", Tail: []string{"1", "2", "3", "4", "5", "6", "gave up"}}
		}, "failed", []string{"unknown, no signature knows it; it shows in decode: logs/decode-0.log:3",
			"tail      2\n            3"}, []string{"            1\n"}},
		"a symptom": {func(e *story.Evidence) {
			e.Result.Failure = &result.Failure{Cause: "permission-denied", Role: "serve",
				Confidence: result.FromSymptom}
		}, "failed", []string{"permission-denied (the first thing that went wrong; no log says what led to it) in serve"}, nil},
		"from how it ended": {func(e *story.Evidence) {
			e.Sentinel.Roles[1].Code = 137
			e.Result.Failure = &result.Failure{Cause: "process-killed", Confidence: result.FromState, Role: "decode"}
		}, "failed", []string{"process-killed (from how it ended) in decode", "decode died at 70.0 s (signal 9)"}, nil},
		"not ready in time": {func(e *story.Evidence) {
			e.Events = []job.Event{{Time: at(1800), Event: job.NotReady, Role: "decode"}}
		}, "failed", []string{"decode was not ready at 1800.0 s, when its time limit ended"}, nil},
		"running": {func(e *story.Evidence) {
			e.Sentinel, e.Result = nil, &result.Result{Status: result.Unknown}
			e.State = &run.State{JobID: "17", State: run.Running, Source: "squeue", At: at(50)}
		}, "not over", []string{"job 17 running; squeue said so", "decode ready after 42.5 s",
			"profllm slurm status disagg/0"}, []string{"cause"}},
		"held": {func(e *story.Evidence) {
			*e = story.Evidence{Dir: "d", Plan: e.Plan, Submission: e.Submission,
				Result: &result.Result{Status: result.Unknown},
				State: &run.State{JobID: "17", State: run.Queued, Note: "held", Reason: "JobHeldUser",
					Source: "squeue"}}
		}, "not over", []string{"job 17 queued, held, reason JobHeldUser"}, []string{"happened"}},
		"refused": {func(e *story.Evidence) {
			*e = story.Evidence{Dir: "d", Plan: e.Plan, Submission: &run.Submission{Refused: "Invalid partition"},
				Result: &result.Result{Status: result.Unknown}}
		}, "refused", []string{"refused: Invalid partition", "profllm slurm resume d"}, nil},
		"refused for its parent": {func(e *story.Evidence) {
			*e = story.Evidence{Dir: "d", Plan: e.Plan,
				Submission: &run.Submission{Refused: "it waits", ParentFailed: true},
				Result:     &result.Result{Status: result.Unknown}}
		}, "refused", []string{"profllm slurm resume --failed d runs both"}, nil},
		"never submitted": {func(e *story.Evidence) {
			*e = story.Evidence{Dir: "d", Plan: e.Plan, Result: &result.Result{Status: result.Unknown}}
		}, "not submitted", []string{"profllm slurm resume d"}, nil},
		"cancelled": {func(e *story.Evidence) {
			e.Result.Status, e.Result.Failure = result.Cancelled, &result.Failure{Cause: "unknown",
				Confidence: result.NoCause, Next: "read"}
			e.Result.Validity.Checks = []result.Check{{Word: "no-success", Severity: result.Invalid,
				Outcome: result.Fail, Detail: "0 requests completed", Why: "nothing was measured"}}
		}, "cancelled", []string{"no-success: 0 requests completed", "the job was cancelled: profllm slurm resume d"},
			[]string{"unknown", "do not use"}},
		"nothing at all": {func(e *story.Evidence) { *e = story.Evidence{Dir: "d"} }, "not over", []string{"d: not over"}, nil},
		"many of everything": {func(e *story.Evidence) {
			e.Events = nil
			for i := range 60 {
				e.Events = append(e.Events, job.Event{Time: at(float64(i)), Event: job.RoleReady, Role: "decode"})
				e.Logs = append(e.Logs, "logs/x")
				e.Plan.Roles = append(e.Plan.Roles, e.Plan.Roles[0])
			}
		}, "failed", []string{"60 roles ready after 0.0 s to 59.0 s", "and 56 more", "and 58 more"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := died()
			tt.change(&e)
			e.Again = collect.Again{Resume: "d"}
			s := story.Of(e)
			require.Equal(t, tt.verdict, s.Verdict)
			out := text(t, s)
			for _, want := range tt.has {
				require.Contains(t, out, want)
			}
			for _, not := range tt.hasNot {
				require.NotContains(t, out, not)
			}
			require.LessOrEqual(t, strings.Count(out, "\n"), 17, "about ten lines, and a tail at most")
		})
	}
}

func TestRead(t *testing.T) {
	e, err := story.Read("../collect/testdata/disaggregated")
	require.NoError(t, err)
	require.Equal(t, "demo", e.Plan.Scenario)
	require.NotNil(t, e.Claim)
	require.NotNil(t, e.Sentinel)
	require.NotEmpty(t, e.Events)
	require.Nil(t, e.State, "there is none")
	require.Contains(t, e.Logs, "logs/decode-0.log")

	dir := t.TempDir()
	p := &plan.Plan{Schema: plan.Schema, Dir: "/was/elsewhere",
		Loads: []plan.Load{{Name: "c4", Dir: "/was/elsewhere/c4"}}}
	require.NoError(t, run.Fill(dir, p, nil))
	for _, name := range []string{"logs/serve-0.log", "c4/logs/bench-0.log", "c4/logs/eval-0.log.xz", "stderr.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "logs/empty-0.log"), nil, 0o644))
	e, err = story.Read(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"logs/serve-0.log", "stderr.txt", "c4/logs/bench-0.log", "c4/logs/eval-0.log.xz"}, e.Logs)

	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.ClaimFile), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.SentinelFile), []byte("{"), 0o644))
	e, err = story.Read(dir)
	require.NoError(t, err, "what a crash left unreadable is absent")
	require.Nil(t, e.Claim)
	require.Nil(t, e.Sentinel)

	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), []byte(`{"schema":"profllm.plan/99"}`), 0o644))
	_, err = story.Read(dir)
	require.ErrorContains(t, err, "profllm.plan/99")
}
