package ray

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusText(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 44, 13, 903268000, time.UTC)
	id := strings.Repeat("ab", 28)
	got := statusText([]rayNode{{ID: id, CPUs: 1, GPUs: 2}}, at)
	// As Ray 2.56 printed it, but for the label and the memory.
	want := fmt.Sprintf(`======== Autoscaler status: 2026-11-21 03:44:13.903268 ======== (profllm sim)
Node status
---------------------------------------------------------------
Active:
 1 node_%s
Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 0.0/1.0 CPU
 0.0/2.0 GPU
 0B/0B memory
 0B/0B object_store_memory

From request_resources:
 (none)
Pending Demands:
 (no resource demands)
`, id)
	require.Equal(t, want, got)
}

func FuzzRayMessage(f *testing.F) {
	f.Add([]byte("{\"do\":\"join\",\"node\":{\"id\":\"a\"}}\n"))
	f.Add([]byte("{\"do\":\"status\"}\n"))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := readMessage(strings.NewReader(string(text)))
		if err == nil {
			require.Contains(t, string(text), "\n")
		}
	})
}
