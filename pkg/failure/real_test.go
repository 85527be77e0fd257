package failure_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/tier"
)

// realLog is an entry of testdata/real/index.json: a log that a real program
// wrote, and how it was made to.
type realLog struct {
	File  string `json:"file"`
	Cause string `json:"cause"` // "" for a log that shows no failure
	Role  string `json:"role"`
	Exit  int    `json:"exit"` // of the process, where only that tells
	Line  string `json:"line"` // part of the line that must be shown, where no signature chooses it
	How   string `json:"how"`
}

func realLogs(t testing.TB) []realLog {
	t.Helper()
	data, err := os.ReadFile("testdata/real/index.json")
	require.NoError(t, err)
	var list []realLog
	require.NoError(t, json.Unmarshal(data, &list))
	return list
}

// covers: PL-F1, PL-F3, PL-F7, PL-F10, PL-F13, U-25
func TestRealFailures(t *testing.T) {
	tier.Alone(t)
	files, err := filepath.Glob("testdata/real/*.log")
	require.NoError(t, err)
	list := realLogs(t)
	require.Len(t, files, len(list), "every log is in the index")
	failures, healthy := 0, 0
	for _, x := range list {
		t.Run(x.File, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata/real", x.File))
			require.NoError(t, err)
			require.NotEmpty(t, x.How)
			f := explain(t, failure.Job{},
				failure.Log{Role: x.Role, File: x.File, Exit: x.Exit, Data: bytes.NewReader(data)})
			if x.Cause == "" {
				require.Equal(t, "unknown", f.Cause, "%d: %s", f.LineNumber, f.Line)
				require.Equal(t, result.NoCause, f.Confidence)
				f = explain(t, failure.Job{},
					failure.Log{Role: x.Role, File: x.File, Exit: 1, Data: bytes.NewReader(data)})
				require.Equal(t, "unknown", f.Cause, "nor does it say why a process failed in silence: %d: %s",
					f.LineNumber, f.Line)
				return
			}
			require.Equal(t, x.Cause, f.Cause, "%d: %s", f.LineNumber, f.Line)
			require.NotEmpty(t, f.Next)
			require.NotEmpty(t, f.Line, "something is shown even of what nobody knows")
			require.Contains(t, f.Line, x.Line, "%d is not the line to quote", f.LineNumber)
			if f.LineNumber > 0 {
				lines := strings.Split(string(data), "\n")
				line := lines[f.LineNumber-1]
				if strings.Contains(line, "╭─") { // the text is in the box below
					inside := strings.ReplaceAll(strings.Join(lines[f.LineNumber:], " "), "│", "")
					line = strings.Join(strings.Fields(inside), " ")
				}
				require.Contains(t, strings.ReplaceAll(redact.Line(line), "\x1b", ""),
					strings.TrimSuffix(f.Line, "…")[:min(len(f.Line), 20)])
			}
			checkPacked(t, x, data, f)
		})
		if x.Cause == "" {
			healthy++
		} else {
			failures++
		}
	}
	require.Greater(t, failures, 200)
	require.GreaterOrEqual(t, healthy, 25)
}

// checkPacked requires the same answer of the log packed by xz.
func checkPacked(t *testing.T, x realLog, data []byte, want *result.Failure) {
	t.Helper()
	var packed bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&packed)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, want, explain(t, failure.Job{},
		failure.Log{Role: x.Role, File: x.File, Exit: x.Exit, Data: &packed}))
}
