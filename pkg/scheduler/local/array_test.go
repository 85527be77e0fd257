package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// The tasks of an array run one after the other, each with the variables and the
// state that Slurm gives it.
func TestArray(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	l := New(t.TempDir(), self, os.Environ(), time.Now)
	root := t.TempDir()
	dir := filepath.Join(root, run.BatchDir, "1")
	b := &plan.Batch{Schema: plan.BatchSchema, RunID: "B", Dir: dir, Kind: plan.Array,
		Job: plan.Job{Name: "n.B", Nodes: 2}, Limits: make([]plan.Seconds, 3)}
	for _, name := range []string{"a", "b", "c"} {
		b.Runs = append(b.Runs, filepath.Join(root, name))
	}
	require.NoError(t, run.FillBatch(dir, b, []byte(`#!/bin/bash
echo "$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID $SLURM_JOB_NUM_NODES"
[ "$SLURM_ARRAY_TASK_ID" -ne 1 ] || exit 4
[ "$SLURM_ARRAY_TASK_ID" -ne 2 ] || { trap 'exit 143' TERM; touch up; while :; do sleep 0.02; done; }
`)))
	sub, err := l.Submit(t.Context(), run.Request{Script: filepath.Join(dir, run.ScriptFile), Name: "n.B", Dir: dir})
	require.NoError(t, err)
	ids := []string{sub.JobID + "_0", sub.JobID + "_1", sub.JobID + "_2", sub.JobID + "_3"}
	await.File(t, filepath.Join(dir, "up"))
	states, err := l.States(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, []string{run.Succeeded, run.Failed, run.Running, run.Queued},
		[]string{states[ids[0]].State, states[ids[1]].State, states[ids[2]].State, states[ids[3]].State})
	require.Equal(t, "4:0", states[ids[1]].ExitCode)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	st, err := l.Wait(ctx, sub.JobID)
	require.NoError(t, err)
	require.Equal(t, run.Cancelled, st.State)
	states, err = l.States(t.Context(), ids)
	require.NoError(t, err)
	require.Equal(t, run.Cancelled, states[ids[2]].State)
	require.Equal(t, run.Cancelled, states[ids[3]].State)
	require.Equal(t, run.NeverRan, states[ids[3]].Note)
	out, err := os.ReadFile(filepath.Join(dir, "stdout.txt"))
	require.NoError(t, err)
	require.Equal(t, sub.JobID+".0 2\n"+sub.JobID+".1 2\n"+sub.JobID+".2 2\n", string(out))
}
