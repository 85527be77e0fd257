package columns_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/synthetic"
)

// benchRuns is how many runs benchmarks ask about.
func benchRuns(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("PROFLLM_BENCH_RUNS"))
	if os.Getenv("PROFLLM_BENCH_RUNS") == "" {
		return 1_000_000
	}
	require.NoError(b, err)
	return n
}

// batch is how many runs are put at once.
const batch = 10_000

// filled is a table of synthetic runs; runs are made on all processors, and what it takes to put
// them is measured alone. See is called with each of them.
func filled(b *testing.B, n int, see func([]query.Run)) (t *columns.Table, putting time.Duration) {
	g := synthetic.New(1, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	t = columns.New()
	for from := 0; from < n; from += batch {
		runs := make([]query.Run, min(batch, n-from))
		var group sync.WaitGroup
		for half := range 2 {
			group.Go(func() {
				for i := half; i < len(runs); i += 2 {
					runs[i] = g.Query(from + i)
				}
			})
		}
		group.Wait()
		start := cpuTime(b)
		t.PutAll(runs)
		putting += cpuTime(b) - start
		see(runs)
	}
	return t, putting
}

// cpuTime is that of the process so far: other work on the machine does not count.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkQuery asks for 60 facets and the statistics of 40 metrics of the runs that meet random
// filters of one to four conditions, beside DuckDB where PROFLLM_BENCH_DUCKDB names its program.
//
// covers: PERF-1, PERF-2
func BenchmarkQuery(b *testing.B) {
	var duck *duckTable
	n := benchRuns(b)
	q := benchQuestion()
	if program := os.Getenv("PROFLLM_BENCH_DUCKDB"); program != "" {
		duck = newDuckTable(b, program, q)
	} else {
		b.Log("DuckDB is not measured: PROFLLM_BENCH_DUCKDB names no program")
	}
	before := heap()
	t, putting := filled(b, n, func(runs []query.Run) {
		if duck != nil {
			duck.add(runs)
		}
	})
	held := heap() - before
	first := asked(b, t, q)
	filters := benchFilters(b, t, 100)
	var took []time.Duration
	var matches []int
	var used []time.Duration // by all processors
	for b.Loop() {
		for _, f := range filters {
			one := q
			one.Filter = f
			start, cpu := time.Now(), cpuTime(b)
			a, err := t.Query(b.Context(), one)
			require.NoError(b, err)
			took, matches = append(took, time.Since(start)), append(matches, a.Matches)
			used = append(used, cpuTime(b)-cpu)
		}
	}
	ours, cpu := quantiles(took), quantiles(used)
	if testing.Verbose() {
		for i, f := range filters {
			text, err := json.Marshal(f)
			require.NoError(b, err)
			b.Logf("%7.1f ms, CPU %7.1f ms, %7d runs %s", ms(took[i]), ms(used[i]), matches[i], text)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(ours[0]), "p50-ms")
	b.ReportMetric(ms(ours[1]), "p95-ms")
	b.ReportMetric(ms(cpu[0]), "p50-cpu-ms")
	b.ReportMetric(ms(cpu[1]), "p95-cpu-ms")
	b.ReportMetric(ms(first), "first-ms")
	b.ReportMetric(float64(held)/float64(n), "heap-bytes/run")
	b.ReportMetric(float64(t.Size())/float64(n), "bytes/run")
	b.ReportMetric(float64(n)/putting.Seconds(), "puts/cpu-s")
	if duck != nil {
		theirs := quantiles(duck.ask(filters, matches[:len(filters)]))
		b.ReportMetric(ms(theirs[0]), "DuckDB-p50-ms")
		b.ReportMetric(ms(theirs[1]), "DuckDB-p95-ms")
		b.ReportMetric(float64(theirs[0])/float64(ours[0]), "x-DuckDB-p50")
		b.ReportMetric(float64(theirs[1])/float64(ours[1]), "x-DuckDB-p95")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// quantiles are the median and the 95th percentile.
func quantiles(list []time.Duration) [2]time.Duration {
	list = slices.Sorted(slices.Values(list))
	return [2]time.Duration{list[len(list)/2], list[min(len(list)-1, len(list)*95/100)]}
}

// asked is how long a question takes.
func asked(b *testing.B, t *columns.Table, q query.Query) time.Duration {
	start := time.Now()
	_, err := t.Query(b.Context(), q)
	require.NoError(b, err)
	return time.Since(start)
}

// benchQuestion asks for 60 facets and 40 metrics that synthetic runs have.
func benchQuestion() query.Query {
	known := map[string]*field.Field{}
	g := synthetic.New(1, 2000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := range g.Len() {
		for _, c := range g.Query(i).Cells {
			known[c.Field.Name] = c.Field
		}
	}
	var q query.Query
	list := query.InOrder(func(yield func(*field.Field) bool) {
		for _, f := range known {
			if !yield(f) {
				return
			}
		}
	})
	for _, f := range list {
		if f.Group != field.Metric && !slices.Contains([]string{"run_id", "dir"}, f.Name) && len(q.Facets) < 60 {
			q.Facets = append(q.Facets, f.Name)
		}
		if f.Group == field.Metric && len(q.Metrics) < 40 {
			q.Metrics = append(q.Metrics, f.Name)
		}
	}
	for i := 0; len(q.Facets) < 60; i++ {
		q.Facets = append(q.Facets, q.Metrics[i])
	}
	return q
}

// benchFilters are what a person may ask, of one to four conditions.
func benchFilters(b *testing.B, t *columns.Table, n int) []*filter.Filter {
	q := benchQuestion()
	a, err := t.Query(b.Context(), query.Query{Facets: slices.Concat(q.Facets, q.Metrics)})
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(7, 7))
	list := make([]*filter.Filter, n)
	for i := range list {
		f := &filter.Filter{And: []filter.Filter{}}
		for range 1 + r.IntN(4) {
			f.And = append(f.And, filter.Filter{Condition: benchCondition(r, a.Facets)})
		}
		require.NoError(b, f.Check())
		list[i] = f
	}
	return list
}

func benchCondition(r *rand.Rand, facets []query.Facet) filter.Condition {
	for {
		f := facets[r.IntN(len(facets))]
		c := filter.Condition{Field: f.Field}
		switch h := f.Histogram; {
		case h != nil:
			at := func() *field.Value { return new(field.OfNumber(h.Min + r.Float64()*(h.Max-h.Min)/4)) }
			if c.Min = at(); r.IntN(2) == 0 {
				c.Min, c.Max = nil, at()
			}
			return c
		case f.Field == "case" || f.Field == "suite":
			c.Contains = []string{"load", "8", "rate", "quant"}[r.IntN(4)]
			return c
		case len(f.Values) > 1:
			for range 1 + r.IntN(3) {
				c.In = append(c.In, f.Values[r.IntN(min(len(f.Values), 6))].Value)
			}
			return c
		}
	}
}

// BenchmarkRows asks for the first 50 runs in several orders, and for a page in the middle.
func BenchmarkRows(b *testing.B) {
	t, _ := filled(b, benchRuns(b), func([]query.Run) {})
	fields := benchQuestion().Facets[:20]
	for _, c := range []struct {
		name string
		rows query.Rows
	}{
		{"newest", query.Rows{Limit: 50}},
		{"number", query.Rows{Limit: 50, Sort: []query.Order{{Field: "median_ttft_ms", Descending: true}}}},
		{"words", query.Rows{Limit: 50, Sort: []query.Order{{Field: "gpu"}, {Field: "engine", Descending: true}}}},
		{"ids", query.Rows{Limit: 50, Sort: []query.Order{{Field: "run_id"}}}},
		{"middle", query.Rows{Limit: 50, Offset: t.Len() / 2, Sort: []query.Order{{Field: "median_ttft_ms"}}}},
		{"points", query.Rows{Limit: query.MaxRows}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				rows := c.rows
				rows.Fields = slices.Clone(fields)
				_, err := t.Query(b.Context(), query.Query{Rows: &rows})
				require.NoError(b, err)
			}
		})
	}
	b.Run("text", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, err := t.Query(b.Context(), query.Query{Filter: &filter.Filter{Anywhere: fmt.Sprint("nightly ", i%10)}})
			require.NoError(b, err)
		}
	})
}

// BenchmarkPut replaces runs of a full table one at a time.
func BenchmarkPut(b *testing.B) {
	n := min(benchRuns(b), 200_000)
	t, _ := filled(b, n, func([]query.Run) {})
	g := synthetic.New(1, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	runs := make([]query.Run, 2000)
	for i := range runs {
		runs[i] = g.Query(i * (n / len(runs)))
	}
	for i := 0; b.Loop(); i++ {
		t.Put(runs[i%len(runs)].ID, runs[i%len(runs)].Cells)
	}
}
