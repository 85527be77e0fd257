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

// Each instance has a row, and what its log does not say is n/a.
//
// covers: UC-9
func TestCapacity(t *testing.T) {
	inTemp(t)
	r := recordOf(numbers{Throughput: 800, TTFT: 50})
	r.Capacity = []result.Capacity{
		{Role: "prefill", Engines: 1, KVCacheTokens: new(int64(524288)), KVCacheGiB: new(64.0),
			RequestTokens: new(int64(4096)), Concurrency: new(128.0), WeightsGiB: new(14.99), Startup: []result.StartPhase{
				{Name: result.PhaseModelLoading, Duration: new(3.21), End: new(12.0)}, {Name: result.PhaseReady, End: new(40.0)},
			}},
		{Role: "decode", Replica: 1, Engines: 2},
	}
	writeRecord(t, filepath.Join(root, "told", "0"), r)
	writeRecord(t, filepath.Join(root, "untold", "0"), recordOf(numbers{Throughput: 800, TTFT: 50}))
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, report.Build(load(t, "results"), report.Options{})))
	_, text, _ := strings.Cut(out.String(), "== Capacity, as the engines' logs say\n\n")
	text, _, _ = strings.Cut(text, "\n\n")
	rows := strings.Split(text, "\n")
	require.Len(t, rows, 4)
	require.Equal(t, "told prefill 1 524288 64.0 128.00 4096 14.99 n/a 3.2 n/a 40.0", strings.Join(strings.Fields(rows[2]), " "))
	require.Equal(t, "told decode-1 2 n/a n/a n/a n/a n/a n/a n/a n/a n/a", strings.Join(strings.Fields(rows[3]), " "))
}
