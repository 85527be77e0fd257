package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
)

// What became of a rehearsal is this machine's to say: no Slurm is asked, also
// where there is one, and none is needed.
//
// covers: PL-S8, PL-S40
func TestRehearsalsAreNotSlurms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "nap"
[[Tests]]
id = "long"
name = "nap"
description = "waits"
test_template_name = "Sleep"
[Tests.cmd_args]
seconds = 300
`), 0o644))
	slurm := fakeSlurm(t)
	env := append(withSlurm(slurm), "TMPDIR="+dir)
	status := func() string {
		t.Helper()
		o := profllm(t, dir, env, "slurm", "status")
		require.Equal(t, exitOK, o.code)
		require.Equal(t, 1, strings.Count(o.stdout, run.LocalPrefix))
		return o.stdout
	}
	rehearsal := func() *exec.Cmd {
		t.Helper()
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "results")))
		cmd := command(dir, env, "rehearse", "s.toml", "--output-dir", "results")
		require.NoError(t, cmd.Start())
		await.True(t, func() bool {
			claims, _ := filepath.Glob(filepath.Join(dir, "results", "*", "long", "0", run.ClaimFile))
			answers, _ := filepath.Glob(filepath.Join(dir, "results", "*", "long", "0", run.SubmitFile))
			return len(claims) == 1 && len(answers) == 1
		}, "the job has claimed its run, and the command has noted the submission")
		return cmd
	}

	// The command is killed, and its job goes on: it can be followed and cancelled.
	cmd := rehearsal()
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	require.Contains(t, status(), "running")
	root, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	require.NoError(t, err)
	o := profllm(t, dir, env, "slurm", "resume", root[0])
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "ran on one machine and cannot be resumed")
	o = profllm(t, dir, env, "slurm", "cancel", "results")
	require.Equal(t, exitOK, o.code)
	require.Contains(t, status(), "cancelled")
	o = profllm(t, dir, env, "slurm", "watch", "results")
	require.Equal(t, exitJobFailed, o.code)

	// The answer to the submission is lost too: the job is found by its name.
	cmd = rehearsal()
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	submit, err := filepath.Glob(filepath.Join(dir, "results", "*", "long", "0", run.SubmitFile))
	require.NoError(t, err)
	require.NoError(t, os.Remove(submit[0]))
	require.Contains(t, status(), "running")

	// After a reboot what /tmp held is gone, and so is every process.
	var sub run.Submission
	require.NoError(t, run.ReadJSON(submit[0], &sub))
	require.Equal(t, exitOK, profllm(t, dir, env, "slurm", "cancel", "results").code)
	jobs, err := filepath.Glob(filepath.Join(dir, "profllm-local-*"))
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.NoError(t, os.RemoveAll(jobs[0]))
	state := filepath.Join(filepath.Dir(submit[0]), run.StateFile)
	require.NoError(t, os.Remove(state))
	sentinel := filepath.Join(filepath.Dir(submit[0]), run.SentinelFile)
	if err := os.Remove(sentinel); err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.Contains(t, status(), "failed "+run.Killed)
	require.NoError(t, os.Remove(state))
	require.NoError(t, run.WriteJSON(sentinel, run.Sentinel{Schema: "profllm.finish/1", JobID: sub.JobID}))
	require.Contains(t, status(), "succeeded")

	for _, program := range []string{"squeue.calls", "sacct.calls"} {
		require.NoFileExists(t, filepath.Join(slurm, program), "Slurm was asked")
	}
}

// Rehearsals that begin in the same second all run, each in a directory of its own.
//
// covers: PL-D2
func TestRehearsalsOfOneSecond(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "nap"
[[Tests]]
id = "short"
name = "nap"
description = "waits"
test_template_name = "Sleep"
[Tests.cmd_args]
seconds = 0
`), 0o644))
	var all sync.WaitGroup
	var said [3]outcome
	for i := range said {
		all.Go(func() {
			said[i] = outcomeOf(t, command(dir, nil, "rehearse", "s.toml", "--output-dir", "results", "--output", "json"))
		})
	}
	all.Wait()
	roots := map[string]bool{}
	for _, o := range said {
		require.Equal(t, exitOK, o.code, o.stderr)
		var doc struct{ Root string }
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &doc))
		require.FileExists(t, filepath.Join(doc.Root, "short", "0", run.ResultFile))
		roots[doc.Root] = true
	}
	require.Len(t, roots, len(said))
}
