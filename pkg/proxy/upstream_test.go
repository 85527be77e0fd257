package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
			_, url, _ := serve(t,
				Options{Prefill: []string{unused(t)}, Decode: []string{"http://" + l.Addr().String()}})
			status, body := get(t, url+"/x")
			require.Equal(t, c.status, status)
			if c.status != 502 {
				require.Equal(t, c.body, body)
			}
		})
	}
}
