package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
	"github.com/profllm/profllm/pkg/synthetic"
)

// The load: so many clients ask a server of so many made-up runs.
const (
	loadClients = 32
	loadRuns    = 100_000
)

// TestLoad measures a server under load, for as long as PROFLLM_DASHBOARD_LOAD says, such as 60s. It prints
// percentiles of the answers' times and fails on any error, never on a time.
//
//	make load TIME=60s
//
// covers: SM-3
func TestLoad(t *testing.T) {
	text := os.Getenv("PROFLLM_DASHBOARD_LOAD")
	if text == "" {
		t.Skip("PROFLLM_DASHBOARD_LOAD=60s asks for it")
	}
	long, err := time.ParseDuration(text)
	require.NoError(t, err)
	box := t.TempDir()
	fillStore(t, filepath.Join(box, "runs.db"))
	began := time.Now()
	s := start(t, box, config{})
	t.Logf("%d runs read into memory in %s", loadRuns, time.Since(began).Round(time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	all := make([]map[string][]time.Duration, loadClients)
	var clients sync.WaitGroup
	began = time.Now()
	for i := range all {
		clients.Go(func() { all[i] = s.client(ctx, t, uint64(i)) })
	}
	clients.Wait()
	report(t, all, time.Since(began))
	s.well()
}

// fillStore makes a store of made-up runs.
func fillStore(t *testing.T, place string) {
	t.Helper()
	began := time.Now()
	db, err := store.Open(t.Context(), place, store.Options{Create: true})
	require.NoError(t, err)
	m := synthetic.New(1, loadRuns, time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC))
	for at := 0; at < loadRuns; at += 1000 {
		runs := make([]records.Run, 1000)
		for i := range runs {
			runs[i] = m.Run(at + i)
		}
		_, err := db.Put(t.Context(), runs)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	t.Logf("%d made-up runs stored in %s", loadRuns, time.Since(began).Round(time.Second))
}

// client asks what a page asks, one question after the other, until ctx ends, and gives the times by question.
func (s *site) client(ctx context.Context, t *testing.T, seed uint64) map[string][]time.Duration {
	r := rand.New(rand.NewPCG(seed, 1))
	took := map[string][]time.Duration{}
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		name, method, path, body := question(r)
		began := time.Now()
		status, answer, err := s.answer(c, method, path, body)
		took[name] = append(took[name], time.Since(began))
		if err != nil || status != 200 {
			t.Errorf("%s %s %s: %d %.300s: %v", method, path, body, status, answer, err)
			return took
		}
	}
	return took
}

func (s *site) answer(c *http.Client, method, path, body string) (int, []byte, error) {
	q, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	got, err := c.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	return got.StatusCode, data, err
}

// question is one of a page, at random.
func question(r *rand.Rand) (name, method, path, body string) {
	filter := fmt.Sprintf(`{"and":[{"field":"gpu","contains":%q},{"field":"median_ttft_ms","max":%d}]}`,
		[]string{"h100", "h200", "b200", "a"}[r.IntN(4)], 20+r.IntN(2000))
	switch r.IntN(10) {
	case 0:
		return "options", "GET", "/api/filters/options", ""
	case 1:
		return "summary", "GET", "/api/data/summary", ""
	case 2:
		return "scatter", "POST", "/api/filters/apply", `{"filter": ` + filter +
			`, "rows": {"fields": ["median_ttft_ms", "output_throughput", "gpu", "verdict"], "limit": 10000}}`
	case 3:
		return "presets", "GET", "/api/filters/presets", ""
	}
	return "filter", "POST", "/api/filters/apply", `{"filter": ` + filter + `, "facets": ["gpu", "gpus", "engine_version", "cmd_args.model",
		"verdict", "status", "kind", "bench_cmd_args.max_concurrency"], "metrics": ["output_throughput", "median_ttft_ms"],
		"rows": {"fields": ["timestamp", "gpu", "median_ttft_ms"], "sort": [{"field": "timestamp", "descending": true}], "limit": 200}}`
}

func report(t *testing.T, all []map[string][]time.Duration, long time.Duration) {
	t.Helper()
	by := map[string][]time.Duration{}
	for _, one := range all {
		for name, list := range one {
			by[name] = append(by[name], list...)
			by["all"] = append(by["all"], list...)
		}
	}
	for _, name := range []string{"filter", "scatter", "summary", "options", "presets", "all"} {
		list := by[name]
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		at := func(share float64) time.Duration {
			return list[int(share*float64(len(list)-1))].Round(100 * time.Microsecond)
		}
		t.Logf("%-8s %7d requests %8.1f /s  p50 %10s  p99 %10s  max %10s", name, len(list), float64(len(list))/long.Seconds(), at(0.5), at(0.99), at(1))
	}
	errors := "no error"
	if t.Failed() {
		errors = "errors"
	}
	t.Logf("%d clients, %d runs (made up), %d CPUs, %s: %s", loadClients, loadRuns, runtime.NumCPU(), long.Round(time.Second), errors)
}
