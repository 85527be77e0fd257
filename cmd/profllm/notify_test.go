package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/run"
)

// A command that cannot run is a mistake in the command line, of each verb that takes one.
//
// covers: PL-D13
func TestNotifyIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tell.sh"), []byte("#!/bin/sh\n"), 0o644))
	for _, verb := range [][]string{
		{"nightly", "demo"}, {"slurm", "submit", "demo"}, {"slurm", "resume"}, {"confirm", "a", "b"},
	} {
		for command, want := range map[string]string{
			"./tell.sh now": ": --notify: ./tell.sh is not executable\n\thint: chmod +x ./tell.sh\n",
			"./tel.sh":      ": --notify: ./tel.sh: no such file or directory\n\thint: did you mean tell.sh?\n",
			"no-such-tell":  ": --notify: no program \"no-such-tell\" on the PATH\n\thint: name its whole path; under cron, the PATH is short\n",
		} {
			o := profllm(t, dir, nil, append(verb, "--notify", command)...)
			require.Equal(t, exitUsage, o.code)
			require.True(t, strings.HasSuffix(o.stderr, want), o.stderr)
			require.Empty(t, o.stdout)
		}
	}
	require.NoDirExists(t, filepath.Join(dir, "results"))
}

// A folder of results that is a file is found before anything is read.
func TestImportIntoAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	for _, to := range []string{"f", "f/below"} {
		o := profllm(t, dir, nil, "import", "nowhere", "--output-dir", to)
		require.Equal(t, exitUsage, o.code)
		require.Equal(t, "profllm import: --output-dir is a file, or lies below one: "+to+"\n\thint: name a folder\n", o.stderr)
	}
}

// The end of a submission is told with its exit code, which stays what it was.
//
// covers: PL-D13
func TestTellEnd(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run.WriteJSON(filepath.Join(dir, "scenario.json"), run.Scenario{Name: "qwen"}))
	event, hook := filepath.Join(dir, "event"), filepath.Join(dir, "hook")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat > "+event+"\n"), 0o755))
	var stderr bytes.Buffer
	a := &app{environ: os.Environ(), stderr: &stderr, now: time.Now}
	for _, c := range []struct {
		ended error
		code  int
		line  string
	}{
		{nil, exitOK, "every job is done and every result is valid"},
		{exit(exitJobFailed), exitJobFailed, "a job failed"},
		{exit(exitInvalid), exitInvalid, "a result is invalid"},
		{errors.New("disk full"), exitInternal, "disk full"},
	} {
		var f notifyFlags
		require.NoError(t, f.Notify.UnmarshalText([]byte(hook)))
		require.Equal(t, c.ended, a.tellEnd(t.Context(), f, dir, c.ended))
		var e notify.Event
		require.NoError(t, run.ReadJSON(event, &e))
		require.Equal(t, notify.Event{
			Schema: "profllm.event/1", Kind: "submission", Time: e.Time, Scenario: "qwen", Run: dir, Code: c.code,
			Lines: []string{c.line},
		}, e)
		require.NoError(t, os.Remove(event))
	}
	var f notifyFlags
	require.NoError(t, a.tellEnd(t.Context(), f, dir, nil), "no hook")
	require.NoError(t, f.Notify.UnmarshalText([]byte(hook)))
	require.Error(t, a.tellEnd(t.Context(), f, dir, fail(exitInterrupted, errors.New("interrupted"))))
	require.NoFileExists(t, event, "the jobs go on")
	require.Empty(t, stderr.String())
}
