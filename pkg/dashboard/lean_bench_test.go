package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
)

// BenchmarkStore asks a server what the page asks, of 100,000 made-up runs: the database alone (lean), and
// columns that were read from it. It reports what it took to store the runs and to read them as well.
// PROFLLM_BENCH_STORE names a store that is asked instead, and filled if it is empty.
//
// covers: PERF-1, SM-2
func BenchmarkStore(b *testing.B) {
	if place := os.Getenv("PROFLLM_BENCH_STORE"); place != "" {
		benchmarkStore(b, place)
		return
	}
	b.Run("postgres", func(b *testing.B) {
		b.Cleanup(pgtest.Stop)
		benchmarkStore(b, pgtest.Database(b, os.Environ()))
	})
	b.Run("sqlite", func(b *testing.B) { benchmarkStore(b, filepath.Join(b.TempDir(), "runs.db")) })
}

func benchmarkStore(b *testing.B, place string) {
	s, err := store.Open(b.Context(), place, store.Options{Create: true})
	require.NoError(b, err)
	defer s.Close()
	n, err := s.Count(b.Context())
	require.NoError(b, err)
	var stored time.Duration
	if n == 0 {
		n = benchRuns(b, 100_000)
		stored = fillMadeUp(b, s, n)
	}
	began := time.Now()
	live, err := Load(b.Context(), s)
	require.NoError(b, err)
	loaded := time.Since(began)
	for name, l := range map[string]*Live{"columns": live, "lean": InDatabase(s)} {
		b.Run(name, func(b *testing.B) {
			a := &asker{b: b, Server: httptest.NewServer(New(l, Options{Version: "bench"}).Handler())}
			defer a.Close()
			for b.Loop() {
				a.all()
			}
			b.ReportMetric(0, "ns/op")
			if stored > 0 {
				b.ReportMetric(float64(n)/stored.Seconds(), "stored/s")
			}
			b.ReportMetric(float64(n)/loaded.Seconds(), "loaded/s")
		})
	}
}

// fillMadeUp stores runs in batches as an upload does, and says how long the store took.
func fillMadeUp(b *testing.B, s *store.Store, n int) (took time.Duration) {
	g := synthetic.New(1, n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for runs := range made(n, g.Run) {
		began := time.Now()
		_, err := s.Put(b.Context(), runs)
		require.NoError(b, err)
		took += time.Since(began)
	}
	return took
}

// asker asks a server.
type asker struct {
	*httptest.Server
	b *testing.B
}

func (a *asker) ask(path string, body any) (text []byte, took time.Duration) {
	sent, err := json.Marshal(body)
	require.NoError(a.b, err)
	began := time.Now()
	for { // on a busy machine, what a store has to find first may take longer than a request may
		r, err := a.Client().Post(a.URL+path, "application/json", bytes.NewReader(sent))
		if body == nil {
			r, err = a.Client().Get(a.URL + path)
		}
		require.NoError(a.b, err)
		text, err = io.ReadAll(r.Body)
		r.Body.Close()
		require.NoError(a.b, err)
		if r.StatusCode == http.StatusOK {
			return text, time.Since(began)
		}
		require.Equal(a.b, http.StatusGatewayTimeout, r.StatusCode, "%s %s: %s", path, sent, text)
		a.b.Logf("%s took longer than a request may, and is asked again", path)
	}
}

// all asks what a page asks at its start and under 20 filters.
func (a *asker) all() {
	text, took := a.ask("/api/filters/options", nil)
	a.report("options", []time.Duration{took})
	var o struct{ Defaults query.Defaults }
	require.NoError(a.b, json.Unmarshal(text, &o))
	facets := o.Defaults.Facets[:min(len(o.Defaults.Facets), 8)]
	q := query.Query{Facets: facets, Metrics: o.Defaults.Metrics}
	var first query.Answer
	text, took = a.ask("/api/filters/apply", query.Query{Facets: append(slices.Clone(q.Facets), q.Metrics...)})
	a.report("unfiltered", []time.Duration{took})
	require.NoError(a.b, json.Unmarshal(text, &first))
	points := []string{"case", "verdict", "kind", "median_ttft_ms", "output_throughput_per_gpu", "gpu"}
	took4 := map[string][]time.Duration{}
	r := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		q.Filter = pageFilter(r, first.Facets)
		for name, rows := range map[string]*query.Rows{
			"table": {Fields: o.Defaults.Columns, Limit: 200}, "scatter": {Fields: points, Limit: query.MaxRows},
		} {
			q.Rows = rows
			_, took := a.ask("/api/filters/apply", q)
			took4[name] = append(took4[name], took)
			if testing.Verbose() {
				filter, _ := json.Marshal(q.Filter)
				a.b.Logf("%s %4d ms %s", name, took.Milliseconds(), filter)
			}
		}
		_, took := a.ask("/api/analysis/pareto", map[string]any{"filter": q.Filter, "x": points[3], "y": points[4]})
		took4["frontier"] = append(took4["frontier"], took)
	}
	for name, list := range took4 {
		a.report(name, list)
	}
	_, took = a.ask("/api/export/csv", map[string]any{
		"fields": o.Defaults.Columns, "filter": filter.Condition{Field: "timestamp", Min: a.newest(10_000)},
	})
	a.report("csv-10000", []time.Duration{took})
}

// newest is the time since which so many runs began.
func (a *asker) newest(n int) *field.Value {
	text, _ := a.ask("/api/filters/apply", query.Query{Rows: &query.Rows{Fields: []string{"timestamp"}, Offset: n - 1, Limit: 1}})
	var got query.Answer
	require.NoError(a.b, json.Unmarshal(text, &got))
	require.GreaterOrEqual(a.b, got.Matches, n, "PROFLLM_BENCH_RUNS is too small")
	return &got.Rows.Columns[0][0]
}

// report reports the median and the 95th percentile.
func (a *asker) report(name string, list []time.Duration) {
	slices.Sort(list)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	a.b.ReportMetric(ms(list[len(list)/2]), name+"-p50-ms")
	if len(list) > 1 {
		a.b.ReportMetric(ms(list[min(len(list)-1, len(list)*95/100)]), name+"-p95-ms")
	}
}

// pageFilter chooses one to three values or ranges, as clicks do.
func pageFilter(r *rand.Rand, facets []query.Facet) *filter.Filter {
	f := &filter.Filter{And: []filter.Filter{}}
	for range 1 + r.IntN(3) {
		x := facets[r.IntN(len(facets))]
		c := filter.Condition{Field: x.Field}
		if h := x.Histogram; h != nil {
			c.Max = new(field.OfNumber(h.Min + (h.Max-h.Min)*float64(1+r.IntN(query.Bins/2))/query.Bins))
		} else {
			c.In = append(c.In, x.Values[r.IntN(min(len(x.Values), 5))].Value)
		}
		f.And = append(f.And, filter.Filter{Condition: c})
	}
	return f
}

// benchRuns is how many runs benchmarks ask about.
func benchRuns(b *testing.B, usual int) int {
	n := usual
	if text := os.Getenv("PROFLLM_BENCH_RUNS"); text != "" {
		_, err := fmt.Sscan(text, &n)
		require.NoError(b, err)
	}
	return n
}
