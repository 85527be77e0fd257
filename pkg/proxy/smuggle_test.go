package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"

// What a backend writes behind an answer is nobody's answer, whenever it comes
// and whatever kind of answer it stands behind.
func TestBytesBehindAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ method, answer string }{
		"length":            {"GET", ok("first")},
		"no bytes":          {"GET", ok("")},
		"chunks":            {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"},
		"trailers":          {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\nX-Usage: 1\r\n\r\n"},
		"head":              {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
		"head, no bytes":    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"204":               {"GET", "HTTP/1.1 204 No Content\r\n\r\n"},
		"204 with a length": {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"},
		"304":               {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"},
		"error":             {"POST", "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"},
		"interim":           {"GET", "HTTP/1.1 103 Early Hints\r\n\r\n" + ok("first")},
		"one byte":          {"GET", ok("first")},
	} {
		extra := stolen
		if name == "one byte" {
			extra = "H"
		}
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%v", name, late), func(t *testing.T) {
				write, written := make(chan struct{}), make(chan struct{})
				engine := newRaw(t, func(conn net.Conn, n int, _ string) bool {
					switch {
					case n > 0:
						io.WriteString(conn, ok("mine"))
					case late:
						io.WriteString(conn, c.answer)
						<-write
						io.WriteString(conn, extra)
						close(written)
					default:
						io.WriteString(conn, c.answer+extra)
					}
					return true
				})
				p, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
				first, err := http.NewRequest(c.method, url+"/x", nil)
				require.NoError(t, err)
				resp, err := http.DefaultClient.Do(first)
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.NotContains(t, string(text), "stolen")
				if late {
					close(write)
					<-written
					idle := p.decode.all[0].idle
					eventually(t, "the bytes are there", func() bool { return len(idle) == 0 || !idle[0].quiet() })
				}
				for range 3 {
					status, text := get(t, url+"/x")
					require.Equal(t, http.StatusOK, status)
					require.Equal(t, "mine", text)
				}
				require.GreaterOrEqual(t, engine.conns, 2)
			})
		}
	}
}

// Heads and bodies that two readers could understand in two ways are errors.
func TestBadAnswers(t *testing.T) {
	many := strings.Repeat("X: 1\r\n", maxHeaders+1)
	for name, c := range map[string]struct{ answer, reason string }{
		"chunked and length":         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad-answer"},
		"length and chunked":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\nhello", "bad-answer"},
		"two lengths":                {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "bad-answer"},
		"two equal lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "bad-answer"},
		"a list of lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", "bad-answer"},
		"signed length":              {"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", "bad-answer"},
		"negative length":            {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", "bad-answer"},
		"hexadecimal length":         {"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello", "bad-answer"},
		"empty length":               {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello", "bad-answer"},
		"length beyond 64 bits":      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", "bad-answer"},
		"other coding":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "bad-answer"},
		"unknown coding":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "bad-answer"},
		"coding twice":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad-answer"},
		"coding in HTTP/1.0":         {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad-answer"},
		"folded header":              {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"folded first header":        {"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"folded length":              {"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok", "bad-answer"},
		"bare line feeds":            {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "bad-answer"},
		"one bare line feed":         {"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"bare carriage return":       {"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 2\r\n\r\nok", "bad-answer"},
		"NUL in a value":             {"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"NUL in a name":              {"HTTP/1.1 200 OK\r\nX\x00: b\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"NUL in the status":          {"HTTP/1.1 200 O\x00K\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"space before the colon":     {"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", "bad-answer"},
		"no colon":                   {"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nok", "bad-answer"},
		"no name":                    {"HTTP/1.1 200 OK\r\n: 2\r\n\r\nok", "bad-answer"},
		"status of two digits":       {"HTTP/1.1 99 OK\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"status beyond 599":          {"HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"HTTP/2":                     {"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"HTTP/0.9":                   {"hello\r\n\r\n", "bad-answer"},
		"two spaces":                 {"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok", "bad-answer"},
		"body behind 1xx":            {"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nok" + ok("x"), "bad-answer"},
		"switched protocols":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "bad-answer"},
		"endless interim answers":    {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterim+1) + ok("x"), "bad-answer"},
		"long head":                  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", defaultHead) + "\r\n\r\n", "too-large"},
		"endless line":               {strings.Repeat("x", 2*defaultHead), "too-large"},
		"many headers":               {"HTTP/1.1 200 OK\r\n" + many + "Content-Length: 2\r\n\r\nok", "too-large"},
		"cut head":                   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "closed"},
		"bad chunk size":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broke-off"},
		"signed chunk size":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n", "broke-off"},
		"chunk size beyond 64 bits":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000002\r\nok\r\n0\r\n\r\n", "broke-off"},
		"bare line feed behind size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", "broke-off"},
		"long chunk-size line":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 8<<10) + "\r\nok\r\n0\r\n\r\n", "broke-off"},
		"endless chunk-size line":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 1<<20), "broke-off"},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newRaw(t, func(conn net.Conn, n int, _ string) bool {
				if n > 0 {
					_, err := io.WriteString(conn, ok("mine"))
					return err == nil
				}
				io.WriteString(conn, c.answer)
				return !strings.HasPrefix(name, "cut") // the others stay open
			})
			_, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
			resp, text := post(t, url+"/x", "{}")
			require.Equal(t, http.StatusBadGateway, resp.StatusCode, text)
			requireError(t, text, 502, "decode", engine.url)
			_, metrics := get(t, url+"/metrics")
			require.Contains(t, metrics,
				fmt.Sprintf(`profllm_proxy_backend_failures_total{role="decode",backend=%q,reason=%q} 1`, engine.url,
					c.reason))
			status, text := get(t, url+"/x")
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "mine", text)
			require.GreaterOrEqual(t, engine.conns, 2, "the bad connection is not used again")
		})
	}
}

// Bodies that are bad behind their first bytes: the client sees a break.
func TestBadBodies(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
	for name, rest := range map[string]string{
		"bad size":                "zz\r\n",
		"no end":                  "0\r\n",
		"cut chunk":               "9\r\nhal",
		"no line end behind data": "2\r\nokay\r\n0\r\n\r\n",
		"long trailers":           "0\r\nX: " + strings.Repeat("x", 2*defaultHead) + "\r\n\r\n",
		"endless trailers":        "0\r\n" + strings.Repeat("X: y\r\n", defaultHead),
		"trailer without a name":  "0\r\n: y\r\n\r\n",
		"trailer without a colon": "0\r\nabc\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			engine := newRaw(t, func(conn net.Conn, _ int, _ string) bool {
				io.WriteString(conn, head)
				<-next
				io.WriteString(conn, rest)
				return false
			})
			p, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
			resp, err := http.Get(url + "/x")
			require.NoError(t, err)
			defer resp.Body.Close()
			first := make([]byte, 5)
			_, err = io.ReadFull(resp.Body, first)
			require.NoError(t, err)
			close(next)
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.EqualValues(t, 1, p.counts.broken.Load())
			require.EqualValues(t, 1, p.decode.all[0].counts.failures[brokeOff].Load())
		})
	}
}

// A completion whose end would be that of its connection is refused; another
// answer is passed on as it is, its end visible to the client as an end of the
// connection.
func TestAnswerWithoutAFrame(t *testing.T) {
	engine := newRaw(t, func(conn net.Conn, _ int, _ string) bool {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")
		return false
	})
	prefill := newEngine(t, prefillRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{engine.url}})
	resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	requireError(t, text, 502, "neither a length nor chunks")

	resp, err := http.Get(url + "/x")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Empty(t, resp.TransferEncoding)
	require.True(t, resp.Close)
}

// A backend that refuses a long request before it has read all of it is heard, and
// its connection is not used again.
func TestAnswerBeforeTheRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			br := bufio.NewReader(c)
			readHead(br) // and never the body
			io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
		}
	}()
	p, url, _ := serve(t, Options{Prefill: []string{"http://" + l.Addr().String()}, Decode: []string{unused(t)}})
	resp, text := post(t, url+"/v1/completions", `{"prompt":"`+strings.Repeat("x", 12<<20)+`"}`)
	require.Equal(t, 413, resp.StatusCode)
	require.Equal(t, "{}", text)
	require.Empty(t, p.prefill.all[0].idle)
}

// exchangeRaw sends bytes to the proxy and reads until it closes or says enough.
func exchangeRaw(t *testing.T, url, request string) (*http.Response, string, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, request)
	require.NoError(t, err)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text), br
}

// Of what a client sends no byte reaches a backend that the proxy did not frame
// anew, and behind an ambiguous request there is no second one.
func TestRequestsOfClients(t *testing.T) {
	const host = "Host: h\r\n"
	const second = "GET /second HTTP/1.1\r\n" + host + "\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		body    string // that the backend got
		absent  string // a header that it must not get
		closed  bool   // no second request is read
	}{
		"chunked and length": {"POST /x HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello", "Transfer-Encoding", true},
		"chunked":            {"POST /x HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello", "Transfer-Encoding", true},
		"length":             {"POST /x HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", 200, "hello", "Transfer-Encoding", false},
		"two lengths":        {"POST /x HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400, "", "", true},
		"other coding":       {"POST /x HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "", "", true},
		"NUL in a header":    {"GET /x HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", 400, "", "", true},
		"NUL in the path":    {"GET /x\x00 HTTP/1.1\r\n" + host + "\r\n", 400, "", "", true},
		"space before colon": {"GET /x HTTP/1.1\r\n" + host + "Content-Length : 5\r\n\r\n", 400, "", "", true},
		"hop-by-hop":         {"GET /x HTTP/1.1\r\n" + host + "Keep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: secret\r\n\r\n", 200, "", "Proxy-Authorization", false},
		"connection lists":   {"GET /x HTTP/1.1\r\n" + host + "X-Secret: 1\r\nConnection: keep-alive, X-SECRET\r\n\r\n", 200, "", "X-Secret", false},
		"connection twice":   {"GET /x HTTP/1.1\r\n" + host + "X-Secret: 1\r\nConnection: keep-alive\r\nConnection: x-secret\r\n\r\n", 200, "", "X-Secret", false},
		"lists the length":   {"POST /x HTTP/1.1\r\n" + host + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", "", false},
		"upgrade":            {"GET /x HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200, "", "Upgrade", false},
		"upgrade to HTTP/2":  {"GET /x HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", 200, "", "Http2-Settings", false},
		"other expectation":  {"POST /x HTTP/1.1\r\n" + host + "Expect: magic\r\nContent-Length: 5\r\n\r\nhello", 417, "", "", true},
		"connect":            {"CONNECT h:80 HTTP/1.1\r\n" + host + "\r\n", 405, "", "", false},
		"absolute target":    {"GET http://other/x HTTP/1.1\r\n" + host + "\r\n", 200, "", "", false},
		"many headers":       {"GET /x HTTP/1.1\r\n" + host + strings.Repeat("X: 1\r\n", maxHeaders+1) + "\r\n", 431, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			decode := newEngine(t, decodeRole, nil)
			_, url, _ := serve(t, Options{Prefill: []string{unused(t)}, Decode: []string{decode.URL}})
			resp, text, br := exchangeRaw(t, url, c.request+second)
			require.Equal(t, c.status, resp.StatusCode, text)
			if c.closed {
				_, err := br.ReadByte()
				require.Error(t, err)
			} else {
				next, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				text, err := io.ReadAll(next.Body)
				require.NoError(t, err)
				require.Equal(t, `{"path":"/second"}`, string(text))
			}
			if c.status != 200 {
				require.LessOrEqual(t, decode.count(), 1)
				return
			}
			got := decode.calls[0]
			require.Equal(t, "/x", got.path)
			require.Equal(t, c.body, got.body)
			require.Empty(t, got.header[c.absent])
			require.Empty(t, got.header["Connection"])
		})
	}
}

// A client that waits for a go-ahead gets it, and the backend is not asked for one.
func TestExpectContinue(t *testing.T) {
	decode := newEngine(t, decodeRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{unused(t)}, Decode: []string{decode.URL}})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	require.NoError(t, err)
	br := bufio.NewReader(c)
	line, err := br.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = br.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(c, "hello")
	require.NoError(t, err)
	resp, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "hello", decode.calls[0].body)
	require.Empty(t, decode.calls[0].header["Expect"])
}

// Of a backend's trailers those are passed on that frame and route nothing.
func TestTrailersThatFrame(t *testing.T) {
	engine := newRaw(t, always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nHost: x\r\nConnection: close\r\nX-Usage: 5\r\n\r\n"))
	_, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
	for range 2 {
		resp, err := http.Get(url + "/x")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "ok", string(text))
		require.Equal(t, http.Header{"X-Usage": {"5"}}, resp.Trailer)
	}
}

// FuzzAnswer: whatever a backend writes, the proxy answers each client or cuts it
// off, hangs nowhere, and hands no byte behind one answer to the next client.
func FuzzAnswer(f *testing.F) {
	f.Add(ok("hello"))
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: 1\r\n\r\n" + stolen)
	f.Add("HTTP/1.1 204 No Content\r\n\r\n" + stolen)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 3\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, answer string) {
		closed := make(chan struct{})
		engine := newRaw(t, func(c net.Conn, n int, _ string) bool {
			if n > 0 {
				_, err := io.WriteString(c, ok("mine"))
				return err == nil
			}
			io.WriteString(c, answer)
			c.(*net.TCPConn).CloseWrite()
			close(closed)
			return false
		})
		_, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}})
		if resp, err := http.Get(url + "/x"); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		<-closed // else the next request may meet the end on its way, and is not sent again
		status, text := get(t, url+"/x")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "mine", text)
	})
}

// FuzzHead: a head that is let pass is read by net/http in the one way that it was
// checked for.
func FuzzHead(f *testing.F) {
	for _, head := range []string{ok("x"), "HTTP/1.0 404 \r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX:\ty \r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "HTTP/1.1 200 OK\n\n"} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, text string) {
		br := bufio.NewReaderSize(strings.NewReader(text), defaultHead)
		if checkHead(br) != nil {
			return
		}
		require.Equal(t, min(len(text), br.Size()), br.Buffered(), "nothing is taken")
		end := strings.Index(text, "\r\n\r\n") + 4
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return
		}
		lines := strings.Split(text[:end-4], "\r\n")
		headers := 0
		for _, values := range resp.Header {
			headers += len(values)
		}
		if len(resp.TransferEncoding) > 0 {
			headers++ // net/http takes it out
		}
		require.Equal(t, len(lines)-1, headers, "a line is a header")
		require.NotContains(t, text[:end], "\x00")
	})
}
