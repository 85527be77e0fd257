package failure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
)

// Whatever logs say, an answer cites a line that says something, and names a known cause.
func FuzzExplainLogs(f *testing.F) {
	f.Add("╭─ Error ─╮\n│ no such thing │\n╰─╯\n", "vllm serve m --dtype lotus")
	f.Add("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    assert x\nAssertionError\n", "")
	f.Add("  | ExceptionGroup: x (1 sub-exception)\n    | ValueError: 'lotus'\n", "--dtype=lotus")
	f.Add("RuntimeError: the following:\n\n  a\n", "serve")
	f.Add("non-default args: {'dtype': 'lotus', 'x'=}\nsrun: error: n1: task 0: Killed\n", "")
	f.Add("INFO:     1.2.3.4:5 - \"POST /v1/x HTTP/1.1\" 502 Bad Gateway\nError 0: Traceback (most recent call last):\n", "")
	f.Fuzz(func(t *testing.T, text, argv string) {
		l := failure.Log{File: "x", Argv: strings.Fields(argv), Data: strings.NewReader(text)}
		role, err := failure.Origin(strings.NewReader(text), "x")
		require.NoError(t, err)
		l.Role = role
		got, err := table(t).ExplainLogs([]failure.Log{l}, time.UTC)
		require.NoError(t, err)
		if got == nil {
			return
		}
		require.NotEmpty(t, got.Next)
		if got.Confidence != result.NoCause {
			require.NotEmpty(t, strings.TrimSpace(got.Line), got.Cause)
		}
	})
}
