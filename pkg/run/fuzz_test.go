package run_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Whatever a full disk, another version or a hand has left in a run directory:
// nothing panics or hangs, and no success is made of it.
//
// covers: PL-S5
func FuzzRunDirectory(f *testing.F) {
	p, err := (&plan.Plan{Schema: plan.Schema, RunID: "r", Dir: "/r",
		Job: plan.Job{Name: "n", After: []plan.After{{Type: "afterok", Dir: "/r"}}}}).Encode()
	require.NoError(f, err)
	f.Add(p, []byte(`{"job_id":"60","attempt":1}`),
		[]byte(`{"job_id":"60","state":"failed","at":"2026-01-02T03:04:05Z"}`), []byte(`{"job_id":"60"}`),
		[]byte(`{"job_id":"60","code":5}`))
	f.Add(p, []byte(`{"refused":"no","attempt":-1}`), []byte(`{"state":"unknown","note":"forgotten"}`), []byte(`{}`),
		[]byte(`{`))
	f.Add([]byte(`{}`), []byte(``), []byte(`[]`), []byte(`null`), []byte("\x00"))
	f.Fuzz(func(t *testing.T, p, submit, state, claim, sentinel []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{
			run.PlanFile: p, run.SubmitFile: submit, run.StateFile: state, run.ClaimFile: claim,
			run.SentinelFile: sentinel,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
		}
		found, err := run.Find(dir)
		require.NoError(t, err)
		require.Equal(t, []string{dir}, found)
		run.ReadUnit(dir)
		sub, _ := run.Answered(dir)
		var old run.State
		run.ReadJSON(filepath.Join(dir, run.StateFile), &old)
		var end run.Sentinel
		good := run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.JobID == sub.JobID &&
			end.Code == 0
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		for _, kind := range []string{"", plan.Array, plan.Sequence} {
			for _, word := range []string{run.Queued, run.Running, run.Succeeded, run.Failed, run.Cancelled,
				run.Unknown, run.Timeout} {
				st := run.State{JobID: sub.JobID, State: word, Note: old.Note, At: now}.WithSentinel(dir, kind).
					Follows(old)
				require.False(t, st.State == run.Succeeded && !good, "%s %s: %+v", kind, word, st)
				st.News(old)
				st.NeedsController(old)
				st.Kept(now)
				st.Outdated(dir)
			}
		}
	})
}
