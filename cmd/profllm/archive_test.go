package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
)

// What may still run is archived only by force.
func TestArchiveOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := filepath.Join(dir, "s", "a", "0")
	require.NoError(t, os.MkdirAll(d, 0o755))
	require.NoError(t, run.WriteJSON(filepath.Join(dir, "s", run.ScenarioFile),
		run.Scenario{Schema: "profllm.scenario/1", Name: "s", Runs: []string{"a/0"}}))
	require.NoError(t, os.WriteFile(filepath.Join(d, run.PlanFile), []byte("{}"), 0o644))
	put := func(name string, v any) { require.NoError(t, run.WriteJSON(filepath.Join(d, name), v)) }
	refused := func(why string) {
		t.Helper()
		o := profllm(t, dir, nil, "archive", "s")
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr, why)
		require.NoFileExists(t, filepath.Join(dir, "s.tar.xz"))
	}
	refused("s/a/0: the run was not submitted, or its state is unknown")
	put(run.SubmitFile, run.Submission{JobID: "60"})
	refused("it is not known whether job 60 is over")
	put(run.StateFile, run.State{JobID: "60", State: run.Running})
	put(run.SentinelFile, run.Sentinel{JobID: "59"})
	refused("it is not known whether job 60 is over")

	over := func(o outcome) {
		t.Helper()
		require.Zero(t, o.code)
		require.NoError(t, os.Remove(filepath.Join(dir, "s.tar.xz")))
	}
	over(profllm(t, dir, nil, "archive", "--force", "s"))
	put(run.SentinelFile, run.Sentinel{JobID: "60"})
	over(profllm(t, dir, nil, "archive", "s"))
	require.NoError(t, os.Remove(filepath.Join(d, run.SentinelFile)))
	put(run.StateFile, run.State{JobID: "60", State: run.Cancelled})
	over(profllm(t, dir, nil, "archive", "s"))
	put(run.SubmitFile, run.Submission{Refused: "no such partition"})
	over(profllm(t, dir, nil, "archive", "s"))

	o := profllm(t, dir, nil, "archive", ".")
	require.Equal(t, exitUsage, o.code)
	require.Contains(t, o.stderr, "neither the directory of a scenario nor that of a run")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.tar.xz"), []byte("no archive"), 0o644))
	for _, args := range [][]string{{"archive", "--list", "x.tar.xz"}, {"archive", "--restore", "x.tar.xz"},
		{"collect", "x.tar.xz"}, {"report", "x.tar.xz"}} {
		o := profllm(t, dir, nil, args...)
		require.Equal(t, exitUsage, o.code)
		require.Contains(t, o.stderr, "x.tar.xz: not an xz file")
	}
}

// A command that is ended while it reads an archive leaves the folder that it has unpacked
// it to; the next one removes it.
func TestArchiveInterrupted(t *testing.T) {
	t.Parallel()
	dir, temps := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "x"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x/engine.log"), []byte("INFO a line\n"), 0o644))
	_, err := archive.Write(t.Context(), filepath.Join(dir, "x"), filepath.Join(dir, "x.tar.xz"))
	require.NoError(t, err)
	env := []string{"TMPDIR=" + temps}
	left := func() (names []string) {
		list, err := os.ReadDir(temps)
		require.NoError(t, err)
		for _, e := range list {
			names = append(names, e.Name())
		}
		return names
	}
	cmd := command(dir, env, "collect", "x.tar.xz")
	cmd.Stderr = fullPipe(t) // it is stuck in its note about the archive
	require.NoError(t, cmd.Start())
	await.True(t, func() bool { return stuck(cmd.Process.Pid) }, "the command has unpacked")
	require.Len(t, left(), 1)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
	require.Len(t, left(), 1, "if nothing is left, this test proves nothing")
	profllm(t, dir, env, "collect", "x.tar.xz")
	require.Empty(t, left())
}
