package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
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
	down   atomic.Bool      // it is not healthy

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
			if e.down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
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

// polling starts a proxy that polls its instances; stop ends it, and returns what
// Serve did.
func polling(t *testing.T, o Options) (p *Proxy, url string, stop func() error) {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	return p, "http://" + l.Addr().String(), func() error { cancel(); return <-served }
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
	await.True(t, ok, what)
}
