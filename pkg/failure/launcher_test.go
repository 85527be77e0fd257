package failure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
)

// What stands in front of every line hides nothing, and is no part of the answer.
//
// covers: PL-F7
func TestLaunchers(t *testing.T) {
	lines := []string{"INFO loading", header, `  File "/app/a.py", line 1, in f`, "    run(x)",
		`RuntimeError: no "path"`}
	for name, wrap := range map[string]func(string) string{
		"none":     func(l string) string { return l },
		"mpirun":   func(l string) string { return "[1,0]<stderr>:" + l },
		"torchrun": func(l string) string { return "[default0]:" + l },
		"compose":  func(l string) string { return "vllm-1  | " + l },
		"kubectl":  func(l string) string { return "[pod/vllm-0/vllm] " + l },
		"journal":  func(l string) string { return "Nov 21 10:00:01 node1 vllm[4390]: " + l },
		"a mail":   func(l string) string { return "> " + l },
		"docker": func(l string) string {
			return `{"log":"` + strings.ReplaceAll(l, `"`,
				`\"`) + `\n","stream":"stderr","time":"2026-11-21T10:00:01.123Z"}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			var wrapped []string
			for _, l := range lines {
				wrapped = append(wrapped, wrap(l))
			}
			f, err := table(t).ExplainLogs([]failure.Log{log("serve", wrapped...)}, time.UTC)
			require.NoError(t, err)
			require.NotNil(t, f)
			require.Equal(t, []string{"unhandled-exception", lines[4]}, []string{f.Cause, f.Line})
			require.Equal(t, 5, f.LineNumber)
			require.Equal(t, "a.py:1", f.About)
		})
	}
	f := explain(t, failure.Job{}, log("serve", "INFO a", "> a quote", "INFO b", "> "+plainBug))
	require.Equal(t, "> "+plainBug, f.Line, "a log that only quotes a few lines")
}
