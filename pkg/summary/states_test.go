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
