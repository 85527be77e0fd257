package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call is one request that a fake engine got.
type call struct {
	role   string
	path   string
	from   string // the connection
	header http.Header
	body   string
}

// An engine is a fake instance. Without an answer of its own it behaves like
// vLLM with the NIXL connector: prefill answers one token and params, decode an
// event per token.
type engine struct {
	*httptest.Server
	role   string
	answer http.HandlerFunc // replaces the default one for POST

	mu    sync.Mutex
	calls []call
}

// params has what a decoded map would lose: an integer beyond 2^53, spaces and
// the order of its members.
const params = `{"remote_port": 5600, "remote_block_ids": [[1,2]],"do_remote_prefill":true,"remote_engine_id":"é","n":12345678901234567890}`

const events = "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"é\"}]}\n\ndata: [DONE]\n\n"

func newEngine(t *testing.T, role string, log *[]call) *engine {
	e := &engine{role: role}
	var mu sync.Mutex
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		body, _ := io.ReadAll(r.Body)
		c := call{role, r.URL.RequestURI(), r.RemoteAddr, r.Header.Clone(), string(body)}
		mu.Lock()
		if log != nil {
			*log = append(*log, c)
		}
		mu.Unlock()
		e.mu.Lock()
		e.calls = append(e.calls, c)
		e.mu.Unlock()
		switch {
		case e.answer != nil && r.Method == http.MethodPost:
			e.answer(w, r)
		case role == prefillRole:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"x","choices":[{"text":"a"}], "kv_transfer_params" : %s }`, params)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, events)
		default:
			w.Header().Set("X-Engine", "decode")
			fmt.Fprintf(w, `{"path":%q}`, r.URL.RequestURI())
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.calls)
}

func urls(engines []*engine) []string {
	var list []string
	for _, e := range engines {
		list = append(list, e.URL)
	}
	return list
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.buf.String(), "\n"), "\n")
}

// serve starts a proxy and returns it, its URL and its log.
func serve(t *testing.T, o Options) (*Proxy, string, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	p, err := New(o)
	require.NoError(t, err)
	s := httptest.NewServer(p)
	t.Cleanup(func() { s.Close(); p.Close() })
	return p, s.URL, log
}

// pairOf is a proxy over one prefill and one decode engine.
func pairOf(t *testing.T) (prefill, decode *engine, url string, p *Proxy, log *logBuffer) {
	prefill, decode = newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	p, url, log = serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}})
	return prefill, decode, url, p, log
}

func post(t *testing.T, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, time.Millisecond, what)
}

// covers: spec/vllm-bench.md 7.3
func TestWire(t *testing.T) {
	var log []call
	prefill, decode := newEngine(t, prefillRole, &log), newEngine(t, decodeRole, &log)
	_, url, lines := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}})
	resp, text := post(t, url+"/v1/completions?x=1", `{"model":"m","prompt":"p","max_tokens":7,"stream":true,"min_tokens":3,"stream_options":{"include_usage":true}}`,
		"X-Request-Id", "mine", "Authorization", "Bearer key", "X-Other", "kept", "Connection", "X-Drop", "X-Drop", "1", "Accept-Encoding", "identity")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, events, text)

	require.Len(t, log, 2)
	require.Equal(t, prefillRole, log[0].role)
	require.Equal(t, `{"max_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null},"model":"m","prompt":"p"}`, log[0].body)
	require.Equal(t, decodeRole, log[1].role)
	require.Equal(t, `{"kv_transfer_params":`+params+`,"model":"m","prompt":"p","max_tokens":7,"stream":true,"min_tokens":3,"stream_options":{"include_usage":true}}`, log[1].body)
	for _, c := range log {
		require.Equal(t, "/v1/completions?x=1", c.path)
		require.Equal(t, []string{"mine"}, c.header["X-Request-Id"])
		require.Equal(t, "Bearer key", c.header.Get("Authorization"))
		require.Equal(t, "kept", c.header.Get("X-Other"))
		require.Empty(t, c.header.Get("X-Drop"))
		require.Empty(t, c.header.Get("Connection"))
	}
	require.Empty(t, log[0].header.Get("Accept-Encoding"))
	require.Equal(t, "identity", log[1].header.Get("Accept-Encoding"))
	require.Equal(t, []string{""}, lines.lines(), "a good request logs nothing")
}

func TestWireChatAndGeneratedID(t *testing.T) {
	prefill, decode, url, _, _ := pairOf(t)
	for range 2 {
		resp, text := post(t, url+"/v1/chat/completions", `{"messages":[],"stream":true}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, events, text)
	}
	require.Contains(t, prefill.calls[0].body, `"max_completion_tokens":1,`)
	require.Equal(t, `{"kv_transfer_params":`+params+`,"messages":[],"stream":true}`, decode.calls[0].body)
	for i := range 2 {
		id := prefill.calls[i].header.Get("X-Request-Id")
		require.Len(t, id, 32)
		require.Equal(t, id, decode.calls[i].header.Get("X-Request-Id"))
	}
	require.NotEqual(t, prefill.calls[0].header.Get("X-Request-Id"), prefill.calls[1].header.Get("X-Request-Id"))
}

func TestPrefillWithoutParams(t *testing.T) {
	for _, answer := range []string{`{}`, `{"kv_transfer_params":null}`} {
		prefill, decode, url, p, _ := pairOf(t)
		prefill.answer = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
		resp, _ := post(t, url+"/v1/completions", `{"kv_transfer_params":{"remote_host":"evil"},"prompt":"p"}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, `{"prompt":"p"}`, decode.calls[0].body)
		require.EqualValues(t, 1, p.counts.withoutKV.Load())
	}
}

func TestForward(t *testing.T) {
	prefill, decode, url, _, _ := pairOf(t)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/models", ""}, {"GET", "/version", ""}, {"POST", "/tokenize", `{"prompt":"é"}`},
		{"POST", "/detokenize", `not json`}, {"DELETE", "/x%2Fy?q=1&r=%20", ""}, {"GET", "/v1/completions", ""}, {"HEAD", "/version", ""},
	} {
		req, err := http.NewRequest(c.method, url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, c.path)
		require.Equal(t, "decode", resp.Header.Get("X-Engine"))
		got := decode.calls[len(decode.calls)-1]
		require.Equal(t, c.path, got.path)
		require.Equal(t, c.body, got.body)
		if c.method != "HEAD" {
			require.Equal(t, fmt.Sprintf(`{"path":%q}`, c.path), string(text))
		}
	}
	require.Zero(t, prefill.count())
}

// Sequential requests go round; requests in flight at once are spread evenly,
// and a busy instance is left alone.
func TestSpread(t *testing.T) {
	var prefill, decode []*engine
	for range 2 {
		prefill = append(prefill, newEngine(t, prefillRole, nil))
	}
	release := make(chan struct{})
	for range 3 {
		e := newEngine(t, decodeRole, nil)
		e.answer = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Hold") != "" {
				<-release
			}
		}
		decode = append(decode, e)
	}
	p, url, _ := serve(t, Options{Prefill: urls(prefill), Decode: urls(decode)})
	for range 12 {
		post(t, url+"/v1/completions", `{}`)
	}
	for _, e := range prefill {
		require.Equal(t, 6, e.count())
	}
	for _, e := range decode {
		require.Equal(t, 4, e.count())
	}

	var held sync.WaitGroup
	for range 30 {
		held.Go(func() { post(t, url+"/v1/completions", `{}`, "X-Hold", "1") })
	}
	eventually(t, "30 more calls", func() bool {
		return decode[0].count()+decode[1].count()+decode[2].count() == 42
	})
	for _, e := range decode {
		require.Equal(t, 14, e.count(), "ten each of those in flight at once")
	}
	close(release)
	held.Wait()
	for _, b := range p.decode.all {
		require.Zero(t, p.decode.busy(b))
	}
	p.decode.mu.Lock()
	p.decode.all[1].busy = 5
	p.decode.mu.Unlock()
	for range 8 {
		post(t, url+"/v1/completions", `{}`)
	}
	require.Equal(t, 14, decode[1].count())
	require.Equal(t, 36, decode[0].count()+decode[2].count())
}

// covers: PL-V34
func TestBackendErrorsArePassedOn(t *testing.T) {
	const problem = `{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}`
	for _, role := range []string{prefillRole, decodeRole} {
		for _, status := range []int{400, 422, 500, 503} {
			prefill, decode, url, _, log := pairOf(t)
			bad := map[string]*engine{prefillRole: prefill, decodeRole: decode}[role]
			bad.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Reason", "because")
				w.WriteHeader(status)
				io.WriteString(w, problem)
			}
			resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
			require.Equal(t, status, resp.StatusCode)
			require.Equal(t, problem, text)
			require.Equal(t, "because", resp.Header.Get("X-Reason"))
			require.Equal(t, role+" "+bad.URL, resp.Header.Get("X-Profllm-Backend"))
			if role == prefillRole {
				require.Zero(t, decode.count())
			}
			eventually(t, "log line", func() bool { return log.lines()[0] != "" })
			require.Len(t, log.lines(), 1)
			require.Contains(t, log.lines()[0], role+" "+bad.URL)
			_, metrics := get(t, url+"/metrics")
			require.Contains(t, metrics, fmt.Sprintf(`profllm_proxy_requests_total{method="POST",path="/v1/completions",status="%d"} 1`, status))
			require.Contains(t, metrics, fmt.Sprintf(`profllm_proxy_backend_requests_total{role=%q,backend=%q,status="%d"} 1`, role, bad.URL, status))
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// unused returns a loopback URL where nothing listens.
func unused(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return "http://" + l.Addr().String()
}

func requireError(t *testing.T, text string, code int, words ...string) {
	t.Helper()
	var e struct {
		Error struct {
			Message, Type string
			Param         any
			Code          int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	require.Equal(t, code, e.Error.Code)
	require.NotEmpty(t, e.Error.Type)
	for _, w := range words {
		require.Contains(t, e.Error.Message, w)
	}
}

// covers: PL-V34
func TestUnreachable(t *testing.T) {
	for _, role := range []string{prefillRole, decodeRole} {
		t.Run(role, func(t *testing.T) {
			live, dead := newEngine(t, prefillRole, nil).URL, unused(t)
			o := Options{Prefill: []string{dead}, Decode: []string{live}}
			if role == decodeRole {
				o = Options{Prefill: []string{live}, Decode: []string{dead}}
			}
			_, url, log := serve(t, o)
			resp, text := post(t, url+"/v1/completions", `{"prompt":"p"}`)
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			require.Equal(t, role+" "+dead, resp.Header.Get("X-Profllm-Backend"))
			requireError(t, text, 502, role, dead)
			eventually(t, "log line", func() bool { return log.lines()[0] != "" })
			require.Len(t, log.lines(), 1)
			_, metrics := get(t, url+"/metrics")
			require.Contains(t, metrics, fmt.Sprintf(`profllm_proxy_backend_requests_total{role=%q,backend=%q,status="error"} 1`, role, dead))
			require.Contains(t, metrics, `status="502"} 1`)
		})
	}
}

// One dead instance of two: the request that meets it fails, the next ones go
// to the other.
func TestDeadInstanceIsLeftOut(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{unused(t), decode.URL}})
	resp, _ := post(t, url+"/v1/completions", `{}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	for range 5 {
		resp, _ = post(t, url+"/v1/completions", `{}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
}

func TestBadAnswersOfPrefill(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			io.WriteString(w, `{"a`)
		},
		"no answer":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half a value": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"kv_transfer_params":{"a":}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			prefill, decode, url, _, _ := pairOf(t)
			prefill.answer = answer
			resp, text := post(t, url+"/v1/completions", `{}`)
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			requireError(t, text, 502, "prefill", prefill.URL)
			require.Zero(t, decode.count())
		})
	}
}

func TestBadRequests(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, MaxBody: 1000})
	for body, status := range map[string]int{``: 400, `[]`: 400, `{"a":`: 400, `{"a":"` + strings.Repeat("x", 1000) + `"}`: 413} {
		resp, text := post(t, url+"/v1/completions", body)
		require.Equal(t, status, resp.StatusCode)
		requireError(t, text, status)
	}
	resp, err := http.Post(url+"/v1/completions", "", io.MultiReader(strings.NewReader(strings.Repeat(" ", 1001)))) // length unknown
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 413, resp.StatusCode)
	require.Zero(t, prefill.count()+decode.count())
}

// Each event reaches the client before the engine writes the next one.
func TestFlushPerChunk(t *testing.T) {
	_, decode, url, p, _ := pairOf(t)
	next := make(chan struct{})
	decode.answer = func(w http.ResponseWriter, r *http.Request) {
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
		w.Header().Set(http.TrailerPrefix+"X-Usage", "5 tokens")
	}
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for i := range 5 {
		line, err := br.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
		br.ReadString('\n')
		require.EqualValues(t, 1, p.counts.inFlight.Load())
		next <- struct{}{}
	}
	_, err = br.ReadByte()
	require.Equal(t, io.EOF, err)
}

func TestTrailers(t *testing.T) {
	_, decode, url, _, _ := pairOf(t)
	decode.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Usage")
		io.WriteString(w, events)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Usage", "5")
	}
	resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
	require.Equal(t, events, text)
	require.Equal(t, "5", resp.Trailer.Get("X-Usage"))
}

// A stream that breaks off must not look complete, however the engine framed it.
func TestBrokenStream(t *testing.T) {
	for name, head := range map[string]string{"chunked": "", "known length": "1000"} {
		t.Run(name, func(t *testing.T) {
			_, decode, url, p, log := pairOf(t)
			decode.answer = func(w http.ResponseWriter, _ *http.Request) {
				if head != "" {
					w.Header().Set("Content-Length", head)
				}
				io.WriteString(w, "data: 1\n\n")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"stream":true}`))
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, "data: 1\n\n", string(text))
			eventually(t, "log line", func() bool { return log.lines()[0] != "" })
			require.Contains(t, log.lines()[0], "broke off")
			_, metrics := get(t, url+"/metrics")
			require.Contains(t, metrics, "profllm_proxy_broken_streams_total 1\n")
			require.EqualValues(t, 0, p.counts.gone.Load())
		})
	}
}

// An engine that dies after its head and before its first token is an error.
func TestDeathBeforeFirstToken(t *testing.T) {
	_, decode, url, _, _ := pairOf(t)
	decode.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	requireError(t, text, 502, "decode", decode.URL)
}

// A client that leaves ends the work of whichever engine has its request.
func TestClientCancel(t *testing.T) {
	for _, role := range []string{prefillRole, decodeRole} {
		t.Run(role, func(t *testing.T) {
			prefill, decode, url, p, log := pairOf(t)
			slow := map[string]*engine{prefillRole: prefill, decodeRole: decode}[role]
			started, ended := make(chan struct{}), make(chan struct{})
			slow.answer = func(w http.ResponseWriter, r *http.Request) {
				if role == decodeRole {
					io.WriteString(w, "data: 1\n\n")
					w.(http.Flusher).Flush()
				}
				close(started)
				<-r.Context().Done()
				close(ended)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(`{"stream":true}`))
			require.NoError(t, err)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			<-ended
			eventually(t, "in flight", func() bool { return p.counts.inFlight.Load() == 0 })
			require.EqualValues(t, 1, p.counts.gone.Load())
			require.EqualValues(t, 0, p.counts.broken.Load())
			require.Len(t, log.lines(), 1)
			for _, in := range []*pool{p.prefill, p.decode} {
				require.Zero(t, in.busy(in.all[0]))
				require.False(t, in.all[0].is(unhealthy), "the client's leaving is not the engine's fault")
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	prefill.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, Timeout: 20 * time.Millisecond})
	resp, text := post(t, url+"/v1/completions", `{}`)
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	requireError(t, text, 504, "prefill", "timeout")
}

func TestHugeBody(t *testing.T) {
	prefill, decode, url, _, _ := pairOf(t)
	prompt := strings.Repeat("héllo \\\"wörld\\\" 😀 \\\\ ", 300_000)
	answer := strings.Repeat("x", 5<<20)
	decode.answer = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
	resp, text := post(t, url+"/v1/completions", `{"prompt":"`+prompt+`","stream":true}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.True(t, answer == text)
	require.True(t, strings.HasSuffix(prefill.calls[0].body, `,"prompt":"`+prompt+`"}`))
	require.True(t, `{"kv_transfer_params":`+params+`,"prompt":"`+prompt+`","stream":true}` == decode.calls[0].body)
}

// An engine that closes its idle connections costs no request.
func TestConnectionClosedWhileIdle(t *testing.T) {
	prefill, decode, url, p, _ := pairOf(t)
	for range 20 {
		resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, events, text)
		prefill.CloseClientConnections()
		decode.CloseClientConnections()
	}
	require.Equal(t, 20, prefill.count(), "nothing was sent twice")
	require.Equal(t, 20, decode.count())
	require.Zero(t, p.decode.all[0].counts.errors.Load())
}

func TestConnectionsAreReused(t *testing.T) {
	prefill, decode, url, p, _ := pairOf(t)
	for range 10 {
		post(t, url+"/v1/completions", `{"stream":true}`)
	}
	for _, e := range []*engine{prefill, decode} {
		for _, c := range e.calls {
			require.Equal(t, e.calls[0].from, c.from)
		}
	}
	require.Len(t, p.prefill.all[0].idle, 1)
	p.prefill.all[0].prune(false)
	require.Len(t, p.prefill.all[0].idle, 1)
	p.prefill.all[0].idle[0].since = time.Now().Add(-maxIdleTime)
	post(t, url+"/v1/completions", `{"stream":true}`)
	require.NotEqual(t, prefill.calls[0].from, prefill.calls[10].from, "too old to be used")
	p.Close()
	require.Empty(t, p.prefill.all[0].idle)
}

// The text of every answer as a raw engine writes it, framing included.
func TestRawAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		raw    string
		status int
		body   string
	}{
		"until close": {"HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello"},
		"continue":    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"no body":     {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
		"garbage":     {"SSH-2.0-x\r\n\r\n", 502, ""},
		"switch":      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502, ""},
		"bad chunk":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				readHead(bufio.NewReader(conn))
				io.WriteString(conn, c.raw)
				conn.Close()
			}()
			_, url, _ := serve(t, Options{Prefill: []string{unused(t)}, Decode: []string{"http://" + l.Addr().String()}})
			status, body := get(t, url+"/x")
			require.Equal(t, c.status, status)
			if c.status != 502 {
				require.Equal(t, c.body, body)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	dead := unused(t)
	_, url, _ := serve(t, Options{Prefill: []string{dead, prefill.URL}, Decode: []string{decode.URL}})
	for _, path := range []string{"/health", "/healthcheck"} {
		status, text := get(t, url+path)
		require.Equal(t, http.StatusOK, status)
		var h struct {
			Status          string
			Prefill, Decode []instanceJSON
		}
		require.NoError(t, json.Unmarshal([]byte(text), &h))
		require.Equal(t, "ok", h.Status)
		require.Equal(t, dead, h.Prefill[0].URL)
		require.False(t, h.Prefill[0].Healthy)
		require.Contains(t, h.Prefill[0].Reason, "refused")
		require.True(t, h.Prefill[1].Healthy)
		require.True(t, h.Decode[0].Healthy)
	}
	for _, o := range []Options{
		{Prefill: []string{dead}, Decode: []string{decode.URL}},
		{Prefill: []string{prefill.URL}, Decode: []string{dead}},
	} {
		_, url, _ := serve(t, o)
		status, text := get(t, url+"/health")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, text, `"status":"unavailable"`)
	}
}

// covers: PL-V37
func TestMetrics(t *testing.T) {
	_, _, url, _, _ := pairOf(t)
	post(t, url+"/v1/completions", `{"stream":true}`)
	get(t, url+"/version")
	_, text := get(t, url+"/metrics")
	for _, line := range []string{
		`profllm_proxy_requests_total{method="POST",path="/v1/completions",status="200"} 1`,
		`profllm_proxy_requests_total{method="GET",path="other",status="200"} 1`,
		"profllm_proxy_in_flight 0", "profllm_proxy_request_bytes_total 15",
		`profllm_proxy_prefill_seconds_bucket{le="+Inf"} 1`, "profllm_proxy_prefill_seconds_count 1",
		"profllm_proxy_overhead_seconds_count 1", "# TYPE profllm_proxy_overhead_seconds histogram",
		"profllm_proxy_without_kv_total 0",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Positive(t, metric(t, strings.TrimPrefix(url, "http://"), "profllm_proxy_cpu_seconds_total"))
	require.Positive(t, metric(t, strings.TrimPrefix(url, "http://"), "profllm_proxy_overhead_seconds_sum"))
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(# (HELP|TYPE) profllm_proxy_\w+ .+|profllm_proxy_\w+(\{.+\})? [0-9.eE+-]+)\n$`, line)
	}
}

func TestServe(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	for _, graceful := range []bool{true, false} {
		started, end := make(chan struct{}), make(chan struct{})
		decode.answer = func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			close(started)
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
		o := Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, Grace: 20 * time.Second}
		if !graceful {
			o.Grace = time.Millisecond
		}
		p, err := New(o)
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		url := "http://" + l.Addr().String()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, l) }()
		eventually(t, "health", func() bool { status, _ := get(t, url+"/health"); return status == 200 })

		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"stream":true}`))
		require.NoError(t, err)
		<-started
		stop()
		eventually(t, "listener closed", func() bool {
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				c.Close()
			}
			return err != nil
		})
		if graceful {
			close(end)
		}
		_, readErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		err = <-served
		if graceful {
			require.NoError(t, readErr)
			require.NoError(t, err)
		} else {
			require.Error(t, readErr)
			require.ErrorContains(t, err, "1 requests cut")
		}
		require.Empty(t, p.decode.all[0].idle)
	}
	prefill.Close()
	decode.Close()
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "no goroutine is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("pkg/proxy.(*")) && !bytes.Contains(stacks, []byte("net/http.(*conn).serve"))
	})
}

// Health follows an instance that dies and returns while Serve polls.
func TestServeFollowsHealth(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	log := &logBuffer{}
	p, err := New(Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	b := p.decode.all[0]
	eventually(t, "healthy", func() bool { return b.is(healthy) })
	decode.Close()
	eventually(t, "unhealthy", func() bool { return b.is(unhealthy) })
	stop()
	require.NoError(t, <-served)
	require.Contains(t, strings.Join(log.lines(), "\n"), "instance is not healthy")
}

func TestNewRefuses(t *testing.T) {
	ok := []string{"http://a:1"}
	for _, o := range []Options{
		{}, {Prefill: ok}, {Decode: ok},
		{Prefill: ok, Decode: []string{"https://a:1"}}, {Prefill: ok, Decode: []string{"a:1"}}, {Prefill: ok, Decode: []string{"http://"}},
		{Prefill: ok, Decode: []string{"http://u:p@a:1"}}, {Prefill: ok, Decode: []string{"http://a:1?x"}}, {Prefill: []string{"http://a:x"}, Decode: ok},
	} {
		_, err := New(o)
		require.Error(t, err, "%v", o)
	}
	_, err := New(Options{})
	require.ErrorContains(t, err, "prefill")
	require.ErrorContains(t, err, "decode")
}

// A path in an instance's URL stands in front of every request.
func TestURLWithPath(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL + "/p/"}, Decode: []string{decode.URL + "/d"}})
	post(t, url+"/v1/completions", `{}`)
	require.Equal(t, "/p/v1/completions", prefill.calls[0].path)
	require.Equal(t, "/d/v1/completions", decode.calls[0].path)
}

var errReader = errors.New("reader broke")

func TestReadAll(t *testing.T) {
	for _, size := range []int64{-1, 0, 3, 11, 100} {
		got, err := readAll([]byte("a"), strings.NewReader("hello world"), size)
		require.NoError(t, err)
		require.Equal(t, "ahello world", string(got))
	}
	got, err := readAll(nil, io.MultiReader(strings.NewReader("x"), &failing{}), -1)
	require.ErrorIs(t, err, errReader)
	require.Equal(t, "x", string(got))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errReader }
