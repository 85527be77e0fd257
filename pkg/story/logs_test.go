package story_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/story"
)

func TestOfLogs(t *testing.T) {
	e := story.Logs{Path: "logs", Files: []story.LogFile{{Name: "a.log", Role: "server"}, {Name: "b"}},
		Notes: []string{"b: permission denied"}}
	require.Equal(t, `logs: no failure found
  do        nothing: no line says that something failed
  logs      a.log (server), b (of an unknown role)
  note      b: permission denied
`, text(t, story.OfLogs(e)))
	require.True(t, story.OfLogs(e).Well())

	e.Failure = &result.Failure{Cause: "unhandled-exception", Confidence: result.FromSymptom, Kind: "model",
		About: "/models/m", Role: "server", File: "a.log", LineNumber: 3,
		Line: "ValueError: x", Next: "check it",
		Others: []result.OtherCause{{Cause: "connection-refused", File: "b", LineNumber: 9}}}
	s := story.OfLogs(e)
	require.Equal(t, "failed", s.Verdict)
	require.Contains(t, text(t, s),
		"unhandled-exception (the first thing that went wrong; no log says what led to it), model: /models/m in server: a.log:3\n")
	require.Contains(t, text(t, s), "followed  connection-refused: b:9\n")

	e.Failure = &result.Failure{Cause: "unknown", Confidence: result.NoCause, File: "b", Line: "tar: odd",
		Tail: []string{"x", "tar: odd"}}
	require.Equal(t, "unclear", story.OfLogs(e).Verdict)
}

// A job that waits for somebody, or for ever, is not to be waited for.
//
// covers: PL-S14
func TestWhatToDoOfAPendingJob(t *testing.T) {
	for note, want := range map[string]string{
		"": "wait; ", run.Held: "release the job: scontrol release 17", run.NeverStarts: "it cannot start as it is: profllm slurm cancel d, ",
	} {
		e := died()
		e.Dir, e.Sentinel, e.Result = "d", nil, &result.Result{Status: result.Unknown}
		e.State = &run.State{JobID: "17", State: run.Queued, Note: note, Reason: "QOSMaxGRESPerJob"}
		require.Contains(t, text(t, story.Of(e)), "do        "+want)
	}
}

// A job that was cancelled before it started left nothing to read, and a rehearsal cannot
// be resumed.
func TestWhatToDoOfACancelledJob(t *testing.T) {
	e := story.Evidence{
		Dir: "d", Again: collect.Again{Resume: "d"}, State: &run.State{JobID: "17", State: run.Cancelled, Note: run.NeverRan, Raw: "CANCELLED by 0",
			Source: "sacct"},
		Result: &result.Result{
			Status:   result.Cancelled,
			Validity: &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"phase-failed"}},
			Failure:  &result.Failure{Cause: "never-started", Confidence: result.FromState, Next: "see DIR"},
		},
	}
	require.Equal(t, `d: cancelled
  job       job 17 cancelled (CANCELLED by 0), never ran
  cause     never-started (from how it ended)
  do        nothing to read: it was cancelled before it started; profllm slurm resume d runs it again
`, text(t, story.Of(e)))

	e.State.Note, e.Result.Failure = "", nil
	require.Contains(t, text(t, story.Of(e)),
		"  do        the job was cancelled: profllm slurm resume d runs it again\n  logs      d\n")
	e.Local, e.Again = true, collect.Again{Local: "profllm rehearse d/definitions/scenario.toml"}
	require.Contains(t, text(t, story.Of(e)),
		"  do        the job was cancelled: profllm rehearse d/definitions/scenario.toml runs it again\n")
	e.Result = &result.Result{Status: result.Unknown}
	require.Contains(t, text(t, story.Of(e)), "  do        wait; profllm slurm status d shows its state\n")
}

// "failed" and "valid" of one run never stand side by side without the reason.
func TestJobAndNumbersJudgedApart(t *testing.T) {
	valid := &result.Validity{Valid: true, Verdict: result.VerdictValid}
	e := died()
	e.Events, e.Sentinel.Code, e.Sentinel.Phases = nil, 3, []run.Phase{{Name: "post_test/nccl", Code: 3}}
	e.Result = &result.Result{Status: result.Completed, Validity: valid}
	out := text(t, story.Of(e))
	require.Contains(t, out, ": valid\n")
	require.Contains(t, out, "verdict   the numbers are valid, and the job failed: it ended with code 3; phase post_test/nccl failed (exit code 3); sacct says failed, exit code 5:0\n")
	require.NotContains(t, out, "nothing: the run is valid")

	e.Result.Status = result.Failed
	require.Contains(t, text(t, story.Of(e)),
		"verdict   no check of the numbers failed; the run failed: it ended with code 3; ")

	e.Result.Status, e.State, e.Sentinel.Code, e.Sentinel.Phases = result.Completed, nil, 0, nil
	out = text(t, story.Of(e))
	require.NotContains(t, out, "verdict ")
	require.Contains(t, out, "nothing: the run is valid")
}
