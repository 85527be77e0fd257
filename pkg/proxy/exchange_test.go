package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Prefill and decode get the requests that vLLM's KV connectors expect, with the
// client's own headers.
func TestWire(t *testing.T) {
	var log []call
	prefill, decode := newEngine(t, prefillRole, &log), newEngine(t, decodeRole, &log)
	_, url, lines := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}})
	resp, text := post(t, url+"/v1/completions?x=1",
		`{"model":"m","prompt":"p","max_tokens":7,"stream":true,"min_tokens":3,"stream_options":{"include_usage":true}}`,
		"X-Request-Id", "mine", "Authorization", "Bearer key", "X-Other", "kept", "Connection", "X-Drop", "X-Drop", "1", "Accept-Encoding", "identity")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, events, text)

	require.Len(t, log, 2)
	require.Equal(t, prefillRole, log[0].role)
	require.Equal(t, `{"max_tokens":1,"stream":false,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null},"model":"m","prompt":"p"}`, log[0].body)
	require.Equal(t, decodeRole, log[1].role)
	require.Equal(t, `{"kv_transfer_params":`+params+
		`,"model":"m","prompt":"p","max_tokens":7,"stream":true,"min_tokens":3,"stream_options":{"include_usage":true}}`, log[1].body)
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
			require.Contains(t, metrics,
				fmt.Sprintf(`profllm_proxy_requests_total{method="POST",path="/v1/completions",status="%d"} 1`, status))
			require.Contains(t, metrics,
				fmt.Sprintf(`profllm_proxy_backend_requests_total{role=%q,backend=%q,status="%d"} 1`, role, bad.URL,
					status))
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

// unused returns a loopback URL where nothing listens. The port stays bound, so
// that no server of the test is given it.
func unused(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("http://127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
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
			require.Contains(t, metrics,
				fmt.Sprintf(`profllm_proxy_backend_requests_total{role=%q,backend=%q,status="error"} 1`, role, dead))
			require.Contains(t, metrics, `status="502"} 1`)
		})
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
	for body, status := range map[string]int{``: 400, `[]`: 400, `{"a":`: 400,
		`{"a":"` + strings.Repeat("x", 1000) + `"}`: 413} {
		resp, text := post(t, url+"/v1/completions", body)
		require.Equal(t, status, resp.StatusCode)
		requireError(t, text, status)
	}
	_, url, _ = serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}})
	resp, text := post(t, url+"/v1/completions", "{"+strings.Repeat(`"":1,`, maxMembers)+`"":1}`)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	requireError(t, text, 400, "more than 4096 members")
	_, url, _ = serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, MaxBody: 1000})
	// length unknown
	resp, err := http.Post(url+"/v1/completions", "", io.MultiReader(strings.NewReader(strings.Repeat(" ", 1001))))
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

// No read of a client ends within an event, however the engine's bytes arrive: vLLM's client
// takes the white space off both ends of everything that it reads.
func TestWholeEvents(t *testing.T) {
	var all strings.Builder
	for i := range 400 {
		fmt.Fprintf(&all, "data: {\"id\": \"cmpl-%d\", \"choices\": [{\"index\": 0, \"text\": \"%s\"}]}\n\n", i,
			strings.Repeat("word ", 30+i%5))
	}
	all.WriteString("data: [DONE]\n\n")
	for name, size := range map[string]int{"all in one write": all.Len(), "cut anywhere": 1009, "a little at a time": 7} {
		t.Run(name, func(t *testing.T) {
			decode := newRaw(t, func(c net.Conn, _ int, _ string) bool {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"+
					"Transfer-Encoding: chunked\r\n\r\n")
				for part := range slices.Chunk([]byte(all.String()), size) {
					fmt.Fprintf(c, "%x\r\n%s\r\n", len(part), part)
				}
				io.WriteString(c, "0\r\n\r\n")
				return true
			})
			prefill := newEngine(t, prefillRole, nil)
			_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.url}})
			body := &reads{conn: sendRequest(t, url, `{"stream":true}`)}
			resp, err := http.ReadResponse(bufio.NewReaderSize(body, 1<<20), nil)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, all.String(), string(got))
			for i, end := range body.ends {
				require.Contains(t, []string{"\n\n\r\n", "\r\n\r\n"}, end, "read %d of %d", i+1, len(body.ends))
			}
		})
	}
}

// reads remembers how each read of a connection ended.
type reads struct {
	conn net.Conn
	ends []string
}

func (r *reads) Read(p []byte) (int, error) {
	n, err := r.conn.Read(p)
	if n > 0 {
		r.ends = append(r.ends, string(p[max(0, n-4):n]))
	}
	return n, err
}

// sendRequest asks for a completion on a connection of its own.
func sendRequest(t *testing.T, url, body string) net.Conn {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	return c
}

// What came of a stream that breaks within an event reaches the client.
func TestStreamThatBreaksWithinAnEvent(t *testing.T) {
	const sent = "data: {\"text\": \"a\"}\r\n\r\ndata: {\"text"
	decode := newRaw(t, func(c net.Conn, _ int, _ string) bool {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			len(sent), sent)
		return false
	})
	prefill := newEngine(t, prefillRole, nil)
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.url}})
	resp, err := http.ReadResponse(bufio.NewReader(sendRequest(t, url, `{"stream":true}`)), nil)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.Equal(t, sent, string(got))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// An event that is longer than what the proxy holds back passes in parts.
func TestLongEvent(t *testing.T) {
	_, decode, url, _, _ := pairOf(t)
	long := "data: {\"text\": \"" + strings.Repeat("long ", 20_000) + "\"}\n\ndata: [DONE]\n\n"
	decode.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, long)
	}
	_, got := post(t, url+"/v1/completions", `{"stream":true}`)
	require.Equal(t, long, got)
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
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions",
				strings.NewReader(`{"stream":true}`))
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
	_, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL},
		Timeout: 20 * time.Millisecond})
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
