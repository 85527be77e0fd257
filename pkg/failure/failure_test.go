package failure_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
)

var builtin = sync.OnceValues(failure.Builtin)

func table(t testing.TB) *failure.Table {
	t.Helper()
	tab, err := builtin()
	require.NoError(t, err)
	return tab
}

// covers: PL-F11
func TestRealLogs(t *testing.T) {
	tests := []struct {
		file, role, want string
		confidence       result.Confidence
		line             int
		contains         string
	}{
		{"serve-enginedead", "serve", "unhandled-exception", result.FromSymptom, 136, "Unsupported CPU attention configuration"},
		{"serve-ray-on-cpu", "serve", "executor-unsupported", result.Exact, 52, "current platform cpu does not support ray"},
		{"ray-head-port-clash", "head", "ray-port-clash", result.Exact, 36, "Ray component worker_ports"},
		{"ray-worker-gcs-timeout", "worker", "ray-gcs-unreachable", result.FromSymptom, 2, "Failed to connect to GCS at address"},
		{"serve-ok", "serve", "unknown", result.NoCause, 0, ""},
		{"pd-prefill", "prefill", "unknown", result.NoCause, 0, ""},
		{"pd-decode", "decode", "unknown", result.NoCause, 0, ""},
		{"bench-startup", "offline", "unknown", result.NoCause, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", "logs", tt.file+".log"))
			require.NoError(t, err)
			for _, role := range []string{tt.role, "some-role-nobody-knows"} {
				got, err := table(t).
					Explain([]failure.Log{{Role: role, Node: "node7", File: tt.file, Data: bytes.NewReader(data)}},
						failure.Job{})
				require.NoError(t, err)
				require.Equal(t, tt.want, got.Cause)
				require.Equal(t, tt.confidence, got.Confidence)
				require.NotEmpty(t, got.Next)
				require.Equal(t, role, got.Role)
				require.Equal(t, "node7", got.Node)
				require.Equal(t, tt.file, got.File)
				require.Equal(t, tt.line, got.LineNumber)
				require.Contains(t, got.Line, tt.contains)
				if tt.want == "unknown" {
					require.LessOrEqual(t, len(got.Tail), 50)
					require.Greater(t, len(got.Tail), 40)
				}
			}
		})
	}
}
