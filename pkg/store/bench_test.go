package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
)

// madeUp are simulated records.
func madeUp(n int) []records.Run {
	m := synthetic.New(1, n, time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC))
	runs := make([]records.Run, n)
	for i := range runs {
		runs[i] = m.Run(i)
	}
	return runs
}

// benchmarkEach runs a benchmark on both databases.
func benchmarkEach(b *testing.B, bench func(b *testing.B, place string)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, filepath.Join(b.TempDir(), "runs.db")) })
	b.Run("postgres", func(b *testing.B) { bench(b, pgtest.Database(b, os.Environ())) })
}

// cpu is what this process has computed.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStore stores 10,000 made-up runs in batches of 1,000, and asks a question of them.
func BenchmarkStore(b *testing.B) {
	const n = 10_000
	runs := madeUp(n)
	benchmarkEach(b, func(b *testing.B, place string) {
		s := open(b, place)
		for b.Loop() {
			began, used := time.Now(), cpu(b)
			for some := range slices.Chunk(runs, 1000) {
				_, err := s.Put(b.Context(), some)
				require.NoError(b, err)
			}
			b.ReportMetric(n/time.Since(began).Seconds(), "rows/s")
			b.ReportMetric(n/(cpu(b)-used).Seconds(), "rows/cpu-s") // of this process
			info, err := s.Info(b.Context())
			require.NoError(b, err)
			b.ReportMetric(float64(info.PerRun), "B/run")
			b.ReportMetric(float64(info.Records)/float64(info.Runs), "B/record")

			began = time.Now()
			table := columns.New()
			_, err = s.Changes(b.Context(), 0, func(c store.Change) error { table.Put(c.ID, c.Cells); return nil })
			require.NoError(b, err)
			b.ReportMetric(n/time.Since(began).Seconds(), "loaded/s")

			f, err := filter.Parse([]byte(`{"and":[{"field":"gpu","contains":"h100"},{"field":"median_ttft_ms","max":500}]}`))
			require.NoError(b, err)
			q := query.Query{Filter: f, Facets: []string{"gpu", "gpus", "engine_version", "cmd_args.model", "verdict", "status", "kind",
				"cmd_args.max_num_seqs", "bench_cmd_args.max_concurrency", "median_ttft_ms", "output_throughput", "suite"},
				Metrics: []string{"output_throughput", "median_ttft_ms", "median_tpot_ms"},
				Rows:    &query.Rows{Fields: []string{"run_id", "timestamp", "gpu", "median_ttft_ms"}, Limit: 100}}
			for _, name := range []string{"first-ask-ms", "ask-ms"} {
				began = time.Now()
				_, err = s.Query(b.Context(), q)
				require.NoError(b, err)
				b.ReportMetric(time.Since(began).Seconds()*1000, name)
			}
		}
	})
}
