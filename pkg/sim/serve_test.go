package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

func post(ctx context.Context, url, body string) (int, string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, string(text), err
}

const hello = `{"prompt":"Hello","max_tokens":6,"ignore_eos":true}`
const helloStream = `{"prompt":"Hello","max_tokens":6,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`

func TestServeStopsAtOnce(t *testing.T) {
	c, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1h"})
	failed := make(chan error, 1)
	go func() {
		_, _, err := post(context.Background(), url+"/v1/completions", helloStream)
		failed <- err
	}()
	awaitGauge(t, url, "vllm:num_requests_running", "1.0")
	c.cancel()
	require.Equal(t, 0, c.exit(t))
	require.Error(t, <-failed, "the stream is cut")
	require.Contains(t, c.out.String(), "Application shutdown complete.")
}

func awaitGauge(t testing.TB, url, name, value string) {
	t.Helper()
	await.True(t, func() bool { return gaugeOf(t, url, name) == value }, "%s = %s", name, value)
}

func gaugeOf(t testing.TB, url, name string) string {
	t.Helper()
	a, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			_, v, _ := cutLast(line, " ")
			return v
		}
	}
	return ""
}

// The condition that the check PL-V14 must find (PL-V36); the check itself is tested where it
// lives.
func TestServeQueuesBeyondMaxNumSeqs(t *testing.T) {
	c, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1h"}, "--max-num-seqs", "2")
	for range 5 {
		go post(t.Context(), url+"/v1/completions", hello)
	}
	awaitGauge(t, url, "vllm:num_requests_running", "2.0")
	awaitGauge(t, url, "vllm:num_requests_waiting", "3.0")
	c.cancel()
	require.Equal(t, 0, c.exit(t))
}

func TestServeCountsClientsThatLeave(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"PROFLLM_SIM_TTFT": "1h"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := post(ctx, url+"/v1/completions", hello)
		done <- err
	}()
	awaitGauge(t, url, "vllm:num_requests_running", "1.0")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	awaitGauge(t, url, "vllm:num_requests_running", "0.0")
	await.True(t, func() bool {
		a, err := http.Get(url + "/metrics")
		require.NoError(t, err)
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return strings.Contains(string(text),
			`vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 1.0`)
	}, "the request is counted as aborted")
}

func TestServePortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	code, out, _ := run(t, nil, "vllm", "serve", "m", "--host", "127.0.0.1", "--port", port)
	require.Equal(t, 1, code)
	require.Contains(t, out, "Address already in use")
}

func TestServeBindsItsNode(t *testing.T) {
	for _, host := range []string{"0.0.0.0", ""} {
		c := start(t, map[string]string{"PROFLLM_NODE_ADDR": "127.0.1.2"}, "vllm", "serve", "m", "--port", "0",
			"--host", host)
		require.Contains(t, c.await(t, `on http://(\S+)`), "127.0.1.2:")
	}
	require.Equal(t, "127.0.0.1", engine.NodeHost("127.0.0.1", "127.0.1.2"), "an explicit address stays")
	require.Equal(t, "0.0.0.0", engine.NodeHost("0.0.0.0", ""))
}

func TestServeLogsWhereItRuns(t *testing.T) {
	c := start(t, map[string]string{
		"CUDA_VISIBLE_DEVICES": "4,5", "SLURM_PROCID": "3", "SLURMD_NODENAME": "node7", "HF_TOKEN": "hf_secret",
	}, "vllm", "serve", "m", "--port", "0", "--host", "127.0.0.1", "--api-key", "sk-secret", "--enforce-eager",
		"--seed", "1")
	c.await(t, `on (http://\S+)`)
	out := c.out.String()
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=4,5", "SLURM_PROCID=3", "SLURMD_NODENAME=node7",
		"--enforce-eager", "--seed 1"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "secret")
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		require.Contains(t, line, "profllm sim", "every line is labelled")
	}
}

func TestServeAPIKey(t *testing.T) {
	_, url := serveCommand(t, map[string]string{"VLLM_API_KEY": "k"})
	status, _, err := post(t.Context(), url+"/v1/completions", hello)
	require.NoError(t, err)
	require.Equal(t, 401, status)
	q, err := http.NewRequest(http.MethodGet, url+"/v1/models", nil)
	require.NoError(t, err)
	q.Header.Set("Authorization", "Bearer k")
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	a.Body.Close()
	require.Equal(t, 200, a.StatusCode)
}

// The condition that the check PL-V16 must find (PL-V36); the check itself is tested where it
// lives.
func TestTransferNeedsTheAnnouncedEngine(t *testing.T) {
	flags := []string{"--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`}
	_, prefill := serveCommand(t, nil, flags...)
	decodeCommand, decode := serveCommand(t, nil, flags...)
	_, body, err := post(t.Context(), prefill+"/v1/completions",
		`{"prompt":"Hello","max_tokens":1,"ignore_eos":true,"kv_transfer_params":{"do_remote_decode":true}}`)
	require.NoError(t, err)
	var a struct {
		KV map[string]any `json:"kv_transfer_params"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	require.Equal(t, true, a.KV["do_remote_prefill"])

	ask := func(kv map[string]any) int {
		text, err := json.Marshal(map[string]any{"prompt": "Hello", "max_tokens": 2, "kv_transfer_params": kv})
		require.NoError(t, err)
		status, _, err := post(t.Context(), decode+"/v1/completions", string(text))
		require.NoError(t, err)
		return status
	}
	require.Equal(t, 200, ask(a.KV))
	require.Equal(t, "1.0", gaugeOf(t, decode, "vllm:nixl_xfer_time_seconds_count"))

	wrong := maps.Clone(a.KV)
	wrong["remote_engine_id"] = "01234567-89ab-4cde-8f01-23456789abcd"
	require.Equal(t, 500, ask(wrong), "another engine lives at this address")
	require.Equal(t, "1.0", gaugeOf(t, decode, "vllm:nixl_xfer_time_seconds_count"))
	require.Equal(t, "1.0", gaugeOf(t, decode, "vllm:nixl_bytes_transferred_count"))
	require.Equal(t, "1.0", gaugeOf(t, decode, "vllm:nixl_num_failed_transfers_total"))

	decodeCommand.cancel()
	require.Equal(t, 0, decodeCommand.exit(t))
	require.Contains(t, decodeCommand.out.String(), "KV Transfer metrics: Num successful transfers=1,")
	require.Contains(t, decodeCommand.out.String(), "External prefix cache hit rate: 100.0%")
}

func TestServerWithoutConnectorIgnoresTransfers(t *testing.T) {
	_, url := serveCommand(t, nil)
	status, body, err := post(t.Context(), url+"/v1/completions",
		`{"prompt":"Hello","max_tokens":1,"ignore_eos":true,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":true}}`)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"kv_transfer_params":null`)
}

// FuzzRequestBody sends foreign bytes to the handlers; whatever they are, the answer is a
// complete HTTP answer in vLLM's shape.
func FuzzRequestBody(f *testing.F) {
	text := func(r request) string {
		if r.Raw != nil {
			return *r.Raw
		}
		b, err := json.Marshal(r.Body)
		require.NoError(f, err)
		return string(b)
	}
	for _, r := range readRequests(f) {
		if r.Method == http.MethodPost {
			f.Add(r.Path, text(r))
		}
	}
	f.Add("/v1/completions", `{"prompt":[[]],"n":99999999,"stop":[""],"logprobs":-1}`)
	f.Add("/v1/chat/completions", `{"messages":[{"content":[null]}],"max_tokens":9223372036854775807}`)
	c := engine.Config{
		Model: "m", Names: []string{"tiny"}, MaxLen: 256, MaxSeqs: engine.DefaultMaxSeqs,
		BlockSize: engine.DefaultBlockSize, TP: 1, PP: 1, Prefix: true,
	}
	k, err := knobs.Read(env(map[string]string{"PROFLLM_SIM_TTFT": "0s", "PROFLLM_SIM_ITL": "0s"}))
	require.NoError(f, err)
	h := engine.NewServer(c, k, time.Now()).Handler()
	f.Fuzz(func(t *testing.T, path, body string) {
		switch path {
		case "/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize":
		default:
			t.Skip("not a path that takes a body")
		}
		w := &answerRecorder{header: http.Header{}, status: 200}
		q, err := http.NewRequest(http.MethodPost, path, strings.NewReader(body))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, q)
		if strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream") {
			require.True(t, strings.HasSuffix(w.body.String(), "data: [DONE]\n\n"))
			return
		}
		require.True(t, json.Valid(w.body.Bytes()), "%s", &w.body)
		require.Contains(t, []int{200, 400, 404}, w.status)
		require.Equal(t, w.status != 200, strings.HasPrefix(w.body.String(), `{"error":{"message":`))
	})
}

// answerRecorder is httptest's recorder, flushable, without its snapshots.
type answerRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerRecorder) Header() http.Header         { return w.header }
func (w *answerRecorder) WriteHeader(status int)      { w.status = status }
func (w *answerRecorder) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *answerRecorder) Flush()                      {}

// vLLM draws several choices only where it draws: vllm/sampling_params.py, _verify_greedy_sampling.
func TestServeRefusesSeveralGreedyChoices(t *testing.T) {
	_, url := serveCommand(t, nil)
	for body, want := range map[string]int{
		`{"prompt":"Hi","max_tokens":2,"n":2,"temperature":0}`: http.StatusBadRequest,
		`{"prompt":"Hi","max_tokens":2,"n":1,"temperature":0}`: http.StatusOK,
		`{"prompt":"Hi","max_tokens":2,"n":2}`:                 http.StatusOK,
	} {
		code, answer, err := post(t.Context(), url+"/v1/completions", body)
		require.NoError(t, err)
		require.Equal(t, want, code, answer)
		if want != http.StatusOK {
			require.Contains(t, answer, "n must be 1 when using greedy sampling, got 2.")
		}
	}
}
