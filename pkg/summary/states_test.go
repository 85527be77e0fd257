package summary

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

func TestStates(t *testing.T) {
	long := "squeue: " + strings.Repeat("no host ", 20)
	b := States([]string{"/s/a/0", "/s/b/0", "/s/c/0", "/s/d/0"},
		map[string]run.Submission{"/s/a/0": {JobID: "60"}, "/s/b/0": {Refused: "no partition"},
			"/s/d/0": {JobID: "61", Waits: []string{"afterok:60"}}},
		map[string]run.State{"/s/a/0": {State: run.Unknown, Reason: long}, "/s/c/0": {State: run.Unknown, Reason: long},
			"/s/d/0": {State: run.Cancelled, Note: run.NeverRan}},
		func(path string) string { return strings.TrimPrefix(path, "/s/") })
	require.Equal(t, []string{long}, b.Lines)
	text := b.Table.Text(terminal.Screen{})
	require.NotContains(t, text, "settings")
	require.Regexp(t, `refused +no partition +b/0\n`, text)
	require.Regexp(t, `61 +cancelled .*waited for afterok:60 +d/0`, text)
	require.Equal(t, terminal.Bad, StateTone(run.State{State: run.Failed}))
	require.Equal(t, terminal.Plain, StateTone(run.State{}))
}

// Runs beside each other whose job ended before their turn have one row; a run of another job or
// folder has its own.
func TestStatesOfRunsWithoutATurn(t *testing.T) {
	missed := run.State{State: run.Cancelled, Note: run.NeverRan, NoTurn: true, Reason: "its job ended"}
	require.True(t, missed.MissedTurn())
	require.False(t, run.State{State: run.Cancelled, Note: run.NeverRan, Reason: "its job ended"}.MissedTurn())
	old := run.State{State: run.Cancelled, Note: run.NeverRan, // of a file from before the field
		Reason: "the job of the sequence ended (cancelled) before this run's turn"}
	require.True(t, old.MissedTurn())
	dirs := []string{"/s/a/0", "/s/a/1", "/s/a/2", "/s/a/3", "/s/b/4", "/s/b/5"}
	jobs, states := map[string]run.Submission{}, map[string]run.State{}
	for _, dir := range dirs {
		jobs[dir], states[dir] = run.Submission{JobID: "60"}, missed
	}
	states["/s/a/0"], jobs["/s/b/5"] = run.State{State: run.Cancelled}, run.Submission{JobID: "61"}
	b := States(dirs, jobs, states, func(path string) string { return strings.TrimPrefix(path, "/s/") })
	text := b.Table.Text(terminal.Screen{})
	require.Equal(t, 3, strings.Count(text, "never ran"), text)
	require.Regexp(t, `60 +cancelled +a/0\n`, text)
	require.Regexp(t, `60 +cancelled never ran .* a/1-3\n`, text)
	require.Regexp(t, `60 +cancelled never ran .* b/4\n`, text)
	require.Regexp(t, `61 +cancelled never ran .* b/5`, text)
}
