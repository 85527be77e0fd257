package job

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

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
