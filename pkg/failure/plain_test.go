package failure_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

// plainLogs is an entry of testdata/plain/index.json: a folder of logs that real programs
// wrote, and what was expected before they were explained.
type plainLogs struct {
	Name  string   `json:"name"`
	Cause []string `json:"cause"` // none for healthy logs
	Kind  []string `json:"kind"`  // of an exception without a signature
	About string   `json:"about"`
	File  string   `json:"file"`
	Line  string   `json:"line"` // part of the line
}

// general are causes that name a kind, and no particular failure.
var general = []string{"unhandled-exception", "error-message"}

func (p plainLogs) right(f *result.Failure) bool {
	named := slices.Contains(p.Cause, f.Cause)
	if slices.Contains(general, f.Cause) {
		named = slices.Contains(p.Kind, f.Kind) && contains(f.About+f.Line, p.About)
	}
	return named && (p.File == "" || p.File == f.File) && contains(f.Line, p.Line)
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// covers: PL-F1, PL-F7, PL-F11
func TestPlainLogs(t *testing.T) {
	tier.Alone(t)
	data, err := os.ReadFile("testdata/plain/index.json")
	require.NoError(t, err)
	var list []plainLogs
	require.NoError(t, json.Unmarshal(data, &list))
	var wrong []string
	failures, healthy := 0, 0
	for _, p := range list {
		f := explainFolder(t, filepath.Join("testdata/plain", p.Name))
		switch {
		case len(p.Cause) == 0:
			healthy++
			require.Nil(t, f, "%s: an alarm: %+v", p.Name, f)
			continue
		case f == nil:
			wrong = append(wrong, p.Name+": no failure found")
		case !p.right(f):
			wrong = append(wrong, p.Name+": "+f.Cause+", "+f.Kind+": "+f.About+": "+f.File+": "+f.Line)
		default:
			require.NotEmpty(t, f.Next)
			require.NotEmpty(t, f.Kind, p.Name)
		}
		failures++
	}
	require.GreaterOrEqual(t, failures, 40)
	require.GreaterOrEqual(t, healthy, 10)
	require.LessOrEqual(t, len(wrong)*20, failures, "at least 19 of 20 are right:\n%s", strings.Join(wrong, "\n"))
}

// explainFolder explains all logs of a folder, as somebody finds them.
func explainFolder(t *testing.T, dir string) *result.Failure {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	var logs []failure.Log
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		role, err := failure.Origin(strings.NewReader(string(data)), file.Name())
		require.NoError(t, err)
		logs = append(logs, failure.Log{Role: role, File: file.Name(), Data: strings.NewReader(string(data))})
	}
	require.NotEmpty(t, logs)
	f, err := table(t).ExplainLogs(logs, time.UTC)
	require.NoError(t, err)
	return f
}
