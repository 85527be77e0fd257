package dashboard_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
)

// benchRuns is how many runs a benchmark has: PROFLLM_BENCH_RUNS, or 10,000.
func benchRuns(b *testing.B) int {
	b.Helper()
	n := 10_000
	if text := os.Getenv("PROFLLM_BENCH_RUNS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	return n
}

// asked are the filters of users, each with the facets, metrics and rows that the page asks for with them.
func asked(b *testing.B) [][]byte {
	b.Helper()
	var list [][]byte
	for _, f := range []string{
		`null`, `{"field": "verdict", "in": ["valid"]}`, `{"field": "gpu", "contains": "h100"}`, `{"text": "llama"}`,
		`{"and": [{"field": "median_ttft_ms", "max": 100}, {"or": [{"field": "gpus", "min": 8}, {"field": "cmd_args.model", "contains": "qwen"}]}]}`,
		`{"not": {"field": "max_concurrency", "in": [1, 2, 4]}}`,
	} {
		body := `{"filter": ` + f + `, "facets": ["verdict", "kind", "gpu", "cmd_args.model", "gpus", "max_concurrency", "engine_version",
			"median_ttft_ms", "output_throughput"], "metrics": ["output_throughput", "median_ttft_ms", "median_tpot_ms"],
			"rows": {"fields": ["case", "verdict", "gpu", "median_ttft_ms", "output_throughput"], "sort": [{"field": "timestamp", "descending": true}], "limit": 200}}`
		require.True(b, json.Valid([]byte(body)))
		list = append(list, []byte(body))
	}
	return list
}

// A filter is answered over HTTP to one user in less than a second; what 32 users wait who ask without a pause is
// reported.
//
// covers: SM-2
func BenchmarkApply(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), store.Options{Create: true})
	require.NoError(b, err)
	defer s.Close()
	made := synthetic.New(1, benchRuns(b), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := 0; i < made.Len(); i += 1000 {
		var runs []records.Run
		for k := i; k < min(i+1000, made.Len()); k++ {
			runs = append(runs, made.Run(k))
		}
		_, err := s.Put(b.Context(), runs)
		require.NoError(b, err)
	}
	l, err := dashboard.Load(b.Context(), s)
	require.NoError(b, err)
	server := httptest.NewServer(dashboard.New(l, dashboard.Options{}).Handler())
	defer server.Close()
	bodies := asked(b)
	for _, users := range []int{1, 32} {
		b.Run(strconv.Itoa(users), func(b *testing.B) {
			var took []time.Duration
			begin := time.Now()
			for b.Loop() {
				took = append(took, rush(b, server.URL, bodies, users)...)
			}
			slices.Sort(took)
			at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / float64(time.Millisecond) }
			b.ReportMetric(at(0.5), "p50-ms")
			b.ReportMetric(at(0.99), "p99-ms")
			b.ReportMetric(at(1), "max-ms")
			b.ReportMetric(float64(len(took))/time.Since(begin).Seconds(), "answers/s")
			b.ReportMetric(0, "ns/op")
			if users == 1 && at(1) >= 1000 {
				b.Errorf("an answer took %.0f ms", at(1))
			}
		})
	}
}

// rush has each user ask every question once, and gives how long each answer took.
func rush(b *testing.B, url string, bodies [][]byte, users int) []time.Duration {
	took := make([]time.Duration, users*len(bodies))
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: users}}
	defer client.CloseIdleConnections()
	for u := range users {
		all.Go(func() {
			for i := range bodies {
				start := time.Now()
				answer, err := client.Post(url+"/api/filters/apply", "application/json", bytes.NewReader(bodies[(i+u)%len(bodies)]))
				if err != nil {
					b.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK || n == 0 {
					b.Errorf("status %d, %d bytes, %v", answer.StatusCode, n, err)
				}
				took[u*len(bodies)+i] = time.Since(start)
			}
		})
	}
	all.Wait()
	return took
}
