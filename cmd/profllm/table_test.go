package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// What Slurm's programs complain of is told whole, once, and not in the table.
func TestLongReasons(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	complaint := "squeue: exit status 1: " + strings.Repeat("no host ", 20) + "at all"
	states := map[string]run.State{}
	for _, dir := range []string{"/s/a/0", "/s/b/0"} {
		states[dir] = run.State{State: run.Unknown, Reason: complaint}
	}
	a := &app{stdout: &out}
	require.NoError(t, a.printStates("status", []string{"/s/a/0", "/s/b/0"}, map[string]run.Submission{}, states))
	require.Equal(t, 1, strings.Count(out.String(), "at all"), out.String())
	for line := range strings.Lines(out.String()) {
		require.True(t, strings.TrimSpace(line) == complaint || utf8.RuneCountInString(line) < 130, line)
	}
}
