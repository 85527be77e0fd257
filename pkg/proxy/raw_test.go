package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A raw is a backend that writes bytes, not answers. Every /health is good.
type raw struct {
	url string

	mu       sync.Mutex
	requests int // without /health
	conns    int
}

// newRaw serves each request by do: n counts the requests of all connections from
// 0, body is the request's. do returns false to close the connection.
func newRaw(t *testing.T, do func(c net.Conn, n int, body string) bool) *raw {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	r := &raw{url: "http://" + l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns++
			r.mu.Unlock()
			t.Cleanup(func() { c.Close() })
			go r.serve(c, do)
		}
	}()
	return r
}

func (r *raw) serve(c net.Conn, do func(c net.Conn, n int, body string) bool) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		first, err := br.Peek(12)
		if err != nil {
			return
		}
		health := string(first) == "GET /health "
		size, ok := readHead(br)
		if !ok {
			return
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(br, body); err != nil {
			return
		}
		if health {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		r.mu.Lock()
		n := r.requests
		r.requests++
		r.mu.Unlock()
		if !do(c, n, string(body)) {
			return
		}
	}
}

func (r *raw) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// always writes the same bytes to each request.
func always(text string) func(net.Conn, int, string) bool {
	return func(c net.Conn, _ int, _ string) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

// ok is a whole answer.
func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// reset closes a connection by a reset, as a killed process does with requests
// that it has not read.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// A request that a backend had is never sent again, however the backend lost it:
// on a new connection, on a kept one, at once or after a while, by an end or by a
// reset, short or long. The client sees the failure and the metrics its reason.
func TestNothingThatArrivedIsSentAgain(t *testing.T) {
	release := make(chan struct{})
	drop := map[string]func(net.Conn){
		"at once":         func(net.Conn) {},
		"by a reset":      reset,
		"after a while":   func(net.Conn) { <-release },
		"half an answer":  func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le") },
		"one byte of it":  func(c net.Conn) { io.WriteString(c, "H") },
		"interim answers": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\n") },
	}
	for _, role := range []string{prefillRole, decodeRole} {
		for name, lose := range drop {
			for _, prompt := range []int{10, 300_000} {
				t.Run(fmt.Sprintf("%s/%s/%d", role, name, prompt), func(t *testing.T) {
					const used = 3
					bad := newRaw(t, func(c net.Conn, n int, _ string) bool {
						if n == used {
							lose(c)
							return false
						}
						io.WriteString(c, ok(`{"kv_transfer_params":{"a":1}}`))
						return true
					})
					good := newEngine(t, prefillRole, nil)
					o := Options{Prefill: []string{bad.url}, Decode: []string{good.URL}}
					if role == decodeRole {
						o = Options{Prefill: []string{good.URL}, Decode: []string{bad.url}}
					}
					_, url, log := serve(t, o)
					body := `{"prompt":"` + strings.Repeat("x", prompt) + `"}`
					for range used {
						resp, _ := post(t, url+"/v1/completions", body)
						require.Equal(t, http.StatusOK, resp.StatusCode)
					}
					if name == "after a while" {
						go func() { release <- struct{}{} }()
					}
					resp, text := post(t, url+"/v1/completions", body)
					require.Equal(t, http.StatusBadGateway, resp.StatusCode)
					requireError(t, text, 502, role, bad.url)
					require.Equal(t, used+1, bad.seen(), "the request was there once")
					_, metrics := get(t, url+"/metrics")
					require.Contains(t, metrics,
						fmt.Sprintf(`profllm_proxy_backend_failures_total{role=%q,backend=%q,reason="closed"} 1`, role,
							bad.url))
					require.NotContains(t, metrics, "profllm_proxy_backend_resends_total{")
					eventually(t, "log line", func() bool { return log.lines()[0] != "" })
					require.Len(t, log.lines(), 1)
				})
			}
		}
	}
}

// A request that met a connection which had been closed before is sent again,
// counted and logged.
func TestWhatNeverArrivedIsSentAgain(t *testing.T) {
	for _, prompt := range []int{10, 300_000} {
		t.Run(fmt.Sprint(prompt), func(t *testing.T) {
			engine := newRaw(t, always(ok(`{}`)))
			p, url, log := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
			post(t, url+"/x", "")
			// The proxy believes that the connection is open; the kernel knows better.
			up := p.decode.all[0].upstream
			c := up.idle[0]
			require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
			eventually(t, "closed by the engine", func() bool { return !c.quiet() })
			a, err := up.exchange(t.Context(), c, http.MethodPost, []byte("POST / HTTP/1.1\r\n\r\n"))
			require.Nil(t, a)
			var f *fault
			require.ErrorAs(t, err, &f)
			require.True(t, f.unsent, "nothing was written")
			up.prune(true)

			// The same when the end comes between the look and the write: what was
			// written meets a closed socket.
			here, there := pipe(t)
			require.NoError(t, there.Close())
			request := []byte("POST / HTTP/1.1\r\n\r\n" + strings.Repeat("x", prompt))
			_, err = here.answer(here.send(request), http.MethodPost)
			require.ErrorAs(t, err, &f)
			require.True(t, f.unsent)

			up.idle = append(up.idle, dead{t}.conn())
			resp, _ := post(t, url+"/v1/completions", `{"prompt":"`+strings.Repeat("x", prompt)+`"}`)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, 3, engine.seen(), "x, prefill, decode")
			_, metrics := get(t, url+"/metrics")
			require.Contains(t, metrics,
				fmt.Sprintf(`profllm_proxy_backend_resends_total{role="decode",backend=%q,reason=`, engine.url))
			require.NotContains(t, metrics, "profllm_proxy_backend_failures_total{")
			require.Contains(t, log.lines()[0], "request sent again")
		})
	}
}

// pipe is a used connection of the proxy's to there.
func pipe(t *testing.T) (here *conn, there net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	there, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close(); there.Close() })
	here = newConn(nc, defaultHead)
	// An earlier request and its answer.
	w := here.send([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, w.err)
	_, err = io.ReadFull(there, make([]byte, w.n))
	require.NoError(t, err)
	here.earlier += uint64(w.n)
	return here, there
}

// dead makes a kept connection that looks open until something is written to it.
type dead struct{ t *testing.T }

func (d dead) conn() *conn {
	here, there := pipe(d.t)
	here.Conn = &closing{here.Conn, there}
	here.since = time.Now()
	return here
}

// closing closes the other end right before a write.
type closing struct {
	net.Conn
	there net.Conn
}

func (c *closing) Write(p []byte) (int, error) {
	c.there.Close()
	return c.Conn.Write(p)
}
