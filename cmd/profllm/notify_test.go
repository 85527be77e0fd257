package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/run"
)

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
