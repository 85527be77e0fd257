package job

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/stretchr/testify/require"
)

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the proxy refused")
}

// The proxy of the environment, which http.DefaultTransport asks, knows no nodes.
func TestGaugesGoRoundTheProxy(t *testing.T) {
	usual := http.DefaultTransport
	http.DefaultTransport = refusing{}
	t.Cleanup(func() { http.DefaultTransport = usual })
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\nvllm:generation_tokens_total 12\n"))
	}))
	t.Cleanup(engine.Close)

	file := filepath.Join(t.TempDir(), "telemetry", "engines.csv")
	w := &watch{job: &Job{Now: func() time.Time { return time.Unix(1000, 0) }}}
	require.NoError(t, w.look(t.Context(), file, map[string]string{"serve": engine.URL}))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "time_s,role,running,waiting,kv_cache,generated_tokens\n1000.000,serve,3,1,0.5,12\n", string(data))
}

// Each engine calls its gauges by names of its own, which a table and the page of engines have.
// A page of another program is left out.
//
// covers: MET-3
func TestGaugesOfEachEngine(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/engines.md")
	require.NoError(t, err)
	for _, e := range gaugesByEngine {
		text := fmt.Sprintf("%s 3\n%s 1\n%s{rank=\"0\"} 0.25\n%[3]s{rank=\"1\"} 0.125\n", e.running, e.waiting, e.cache)
		want := ",3,1,0.25"
		if e.generated != "" {
			text, want = text+e.generated+" 7\n", want+",7"
		}
		for _, name := range []string{e.running, e.waiting, e.cache} {
			require.Contains(t, string(reference), "`"+name+"`")
		}
		page, err := promtext.Read(strings.NewReader(text))
		require.NoError(t, err)
		line, ok := sampled(page)
		require.True(t, ok, e.running)
		require.Equal(t, want, line, e.running)
		_, _, values, ok := ParseGauges("1000.000,serve" + line)
		require.True(t, ok, e.running)
		require.Equal(t, []float64{3, 1, 0.25}, values[:Gauges])
	}
	page, err := promtext.Read(strings.NewReader("other:running 3\n"))
	require.NoError(t, err)
	_, ok := sampled(page)
	require.False(t, ok)
}
