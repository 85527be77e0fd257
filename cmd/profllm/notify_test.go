package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/notify"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
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
	t.Parallel()
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

// Who gets an event need not open a terminal: a line for each run that failed says in which role
// and node, with the line of the log. A hint stands in the line of its error.
//
// covers: PL-D13
func TestEventsSayWhatHappened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, run.WriteJSON(filepath.Join(dir, "scenario.json"), run.Scenario{Name: "qwen"}))
	event, hook := filepath.Join(dir, "event"), filepath.Join(dir, "hook")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat > "+event+"\n"), 0o755))
	for i := range nightly.MostProblems + 2 {
		r := resulttest.Good()
		r.RunID, r.Status = fmt.Sprintf("qwen_%d", i), result.Failed
		r.Failure = &result.Failure{Cause: "oom-gpu", Confidence: result.Exact, Role: "decode", Node: "node2",
			File: "logs/decode-0.log", LineNumber: 412, Line: "torch.OutOfMemoryError: CUDA out of memory",
			Next: "lower gpu_memory_utilization"}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", strconv.Itoa(i)), 0o755))
		data, err := resulttest.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a", strconv.Itoa(i), run.ResultFile), data, 0o644))
	}
	a := &app{environ: os.Environ(), stderr: io.Discard, now: time.Now}
	var f notifyFlags
	require.NoError(t, f.Notify.UnmarshalText([]byte(hook)))
	told := func(ended error) []string {
		require.Equal(t, ended, a.tellEnd(t.Context(), f, dir, ended))
		var e notify.Event
		require.NoError(t, run.ReadJSON(event, &e))
		return e.Lines
	}
	lines := told(exit(exitJobFailed))
	require.Len(t, lines, 1+nightly.MostProblems+1)
	require.Equal(t, "a job failed", lines[0])
	require.Regexp(t, `^failed \S+: failed, cause oom-gpu \(exact\) in decode on node2: logs/decode-0.log:412: `+
		`torch.OutOfMemoryError: CUDA out of memory; lower gpu_memory_utilization \(\S+/a/0\)$`, lines[1])
	require.Equal(t, "and 2 other runs: profllm why "+dir, lines[len(lines)-1])
	lines = told(errors.Join(errors.New("disk full\n\thint: df -h"), errors.New("no table")))
	require.Equal(t, []string{"disk full; hint: df -h", "no table"}, lines[:2])
}
