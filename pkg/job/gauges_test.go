package job

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// The engines are asked round the proxy of the job's environment; one that does not
// answer takes none of the others' samples with it.
func TestSamples(t *testing.T) {
	transport := http.DefaultTransport.(*http.Transport)
	proxy := transport.Proxy
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		t.Errorf("the proxy is asked for %s", r.URL)
		return nil, nil
	}
	defer func() { transport.Proxy = proxy }()

	j := replicated(t)
	j.plan.Loads = []plan.Load{{RunID: "R", Dir: j.Dir}}
	j.save(t)
	j.serve(t, map[string]http.HandlerFunc{"serve_0": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n")
	}, "serve_1": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	one, _ := startProcess(t, "serve_0", "sleep", "7200")
	two, _ := startProcess(t, "serve_1", "sleep", "7200")
	client, bench := startProcess(t, "bench", "sleep", "7200")
	watched := make(chan error, 1)
	go func() { watched <- j.Watch(t.Context(), "bench", client.PID, []Process{one, two}) }()
	file := j.path(run.TelemetryDir, GaugeFile("bench"))
	await.File(t, file)
	require.NoError(t, bench.Process.Kill())
	require.NoError(t, <-watched)
	lines := strings.Split(readFile(t, file), "\n")
	require.Equal(t, "time_s,role,running,waiting,kv_cache,generated_tokens", lines[0])
	require.Regexp(t, `^\d+\.\d{3},serve_0,3,2,0\.5$`, lines[1])
}
