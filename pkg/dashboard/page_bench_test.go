package dashboard

import (
	"encoding/json"
	"iter"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
)

// made makes values up by all processors, in batches as an upload has them.
func made[T any](n int, one func(i int) T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for from := 0; from < n; from += batch {
			list := make([]T, min(batch, n-from))
			var group sync.WaitGroup
			for part := range runtime.GOMAXPROCS(0) {
				group.Go(func() {
					for i := part; i < len(list); i += runtime.GOMAXPROCS(0) {
						list[i] = one(from + i)
					}
				})
			}
			group.Wait()
			if !yield(list) {
				return
			}
		}
	}
}

// madeUp are made-up runs in memory, as many as PROFLLM_BENCH_RUNS says, over a store without any: their
// records alone would be 5 GB.
func madeUp(b *testing.B) *Live {
	n := benchRuns(b, 1_000_000)
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), store.Options{Create: true})
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	g, t := synthetic.New(1, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)), columns.New()
	for runs := range made(n, g.Query) {
		t.PutAll(runs)
	}
	return &Live{Store: s, table: t}
}

// BenchmarkPage clicks through the filters of the page in a headless Chromium (web/bench/clicks.mjs), over a
// million made-up runs, and reports what that took. make bench-web calls it.
//
// covers: PERF-1
func BenchmarkPage(b *testing.B) {
	if os.Getenv("PROFLLM_BENCH_WEB") == "" {
		b.Skip("PROFLLM_BENCH_WEB=1 asks for it: it needs Node, Chromium and web/node_modules")
	}
	server := httptest.NewServer(New(madeUp(b), Options{Version: "bench", Demo: true}).Handler())
	defer server.Close()
	runtime.GC()
	for b.Loop() {
		clicks := exec.CommandContext(b.Context(), "node", "bench/clicks.mjs", server.URL+"/", os.Getenv("PROFLLM_BENCH_CLICKS"))
		if os.Getenv("PROFLLM_BENCH_CLICKS") == "" {
			clicks.Args = clicks.Args[:3]
		}
		clicks.Dir, clicks.Stderr = "../../web", os.Stderr
		text, err := clicks.Output()
		require.NoError(b, err)
		var found map[string]float64
		require.NoError(b, json.Unmarshal(text, &found))
		for name, x := range found {
			b.ReportMetric(x, name)
		}
	}
	b.ReportMetric(0, "ns/op")
}
