package format_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

// Of each number, the busiest node is shown; runs without samples have no row.
//
// covers: OUT-4
func TestHosts(t *testing.T) {
	inTemp(t)
	r := recordOf(numbers{Throughput: 800, TTFT: 50})
	r.SetHosts([]result.HostUse{
		{Node: "n1", Samples: 30, CPU: new(12.0), PeakCPU: new(80.0), PeakMemory: new(90.0), NetIn: new(2.5e6)},
		{Node: "n2", Samples: 30, CPU: new(30.0), PeakCPU: new(40.0), PeakMemory: new(70.0), NetIn: new(1e6), NetOut: new(3e9)},
	})
	writeRecord(t, filepath.Join(root, "seen", "0"), r)
	writeRecord(t, filepath.Join(root, "unseen", "0"), recordOf(numbers{Throughput: 800, TTFT: 50}))
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, report.Build(load(t, "results"), report.Options{})))
	_, text, _ := strings.Cut(out.String(), "== Busiest node in the client's window\n\n")
	text, _, _ = strings.Cut(text, "\n\n")
	rows := strings.Split(text, "\n")
	require.Len(t, rows, 3)
	require.Equal(t, "seen 2 30.0 80.0 90.0 2.50 3000.00 n/a n/a", strings.Join(strings.Fields(rows[2]), " "))
}
