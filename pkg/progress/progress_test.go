package progress

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

func TestLine(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.Local)
	p := Progress{Name: "a/0", Job: "60", State: run.Running, Text: run.Running, Since: at, Roles: 2, Ready: 1,
		Waiting: "serve", LastWords: "loading"}
	require.Equal(t, "a/0  job 60  running for 1m30s  ready 1/2  serve: loading", p.Line(at.Add(90*time.Second)))
	p.Ready, p.LastWords, p.Doing, p.Done, p.Total = 2, "", "bench", 10, 64
	require.Equal(t, "a/0  job 60  running for 0s  ready 2/2  bench  10/64", p.Line(at.Add(-time.Second)),
		"clocks differ")
	key := p.Key()
	p.Done, p.LastWords = 15, "more"
	require.Equal(t, key, p.Key(), "the same quarter, and what a role says is no news")
	p.Done = 16
	require.NotEqual(t, key, p.Key())
	require.Equal(t, "b  not submitted", Progress{Name: "b", Text: "not submitted", Since: at}.Line(at))
	ended := Progress{Name: "c", Job: "61", Text: "failed", Final: true, Since: at, Reason: "NonZeroExitCode"}
	require.Equal(t, "c  job 61  failed at 12:00:00  (NonZeroExitCode)", ended.Line(at))
}

// Runs that are over give way to the others.
func TestFit(t *testing.T) {
	all := []Progress{{Name: "a", Final: true}, {Name: "b"}, {Name: "c"}}
	require.Equal(t, all, Fit(all, 3))
	require.Equal(t, all[1:], Fit(all, 2))
	require.Equal(t, all[1:2], Fit(all, 1))
}

func TestLastWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "serve-0.log")
	for text, want := range map[string]string{
		"": "",
		"(EngineCore pid=7) INFO 11-22 03:06:11 [weights.py:7] Loading shards\n\n---\n": "Loading shards",
		"INFO 03:06:11 ready\n": "ready",
		"plain words\n":         "plain words",
	} {
		require.NoError(t, os.WriteFile(log, []byte(text), 0o644))
		require.Equal(t, want, lastWords(log), text)
	}
}

// While servers write traces, the client is over and the run is not.
func TestTracesAreWritten(t *testing.T) {
	dir := t.TempDir()
	p := &plan.Plan{Schema: plan.Schema, RunID: "R", Dir: dir, Loads: []plan.Load{{RunID: "R", Dir: dir}}}
	require.NoError(t, run.Fill(dir, p, []byte("#!/bin/bash\n")))
	events := `{"time":"2026-11-25T12:00:00Z","event":"client-ended","text":"bench"}
{"time":"2026-11-25T12:00:01Z","event":"trace-stopping"}
`
	for more, want := range map[string]string{
		"": "servers write their traces",
		`{"time":"2026-11-25T12:00:09Z","event":"trace-stopped"}` + "\n": "traces written",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, run.EventFile), []byte(events+more), 0o644))
		at := Progress{Dir: dir}
		(&Reader{}).inside(&at)
		require.Equal(t, want, at.Doing)
	}
}
