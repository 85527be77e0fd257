package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All bodies together have a limit: who finds no room is told to come again, and
// room is given back at the end of each request.
func TestRoomForBodies(t *testing.T) {
	prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
	hold := make(chan struct{})
	decode.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hold") != "" {
			<-hold
		}
		io.WriteString(w, `{}`)
	}
	p, url, log := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, MaxBody: 5000,
		MaxBodies: 10_000})
	body := `{"prompt":"` + strings.Repeat("x", 4000) + `"}`
	held := make(chan int, 2)
	for range 2 {
		go func() {
			resp, _ := post(t, url+"/v1/completions", body, "X-Hold", "1")
			held <- resp.StatusCode
		}()
	}
	eventually(t, "both wait in decode", func() bool { return decode.count() == 2 })
	for name, b := range map[string]io.Reader{"known length": strings.NewReader(body),
		"unknown length": io.MultiReader(strings.NewReader(body))} {
		resp, err := http.Post(url+"/v1/completions", "application/json", b)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, name)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		requireError(t, string(text), 503, "memory limit")
	}
	resp, _ := post(t, url+"/v1/completions", `{}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, "a small one has room")
	require.Len(t, log.lines(), 2)
	close(hold)
	require.Equal(t, []int{200, 200}, []int{<-held, <-held})
	eventually(t, "all room is back", func() bool { return p.room.used.Load() == 0 })
	resp, _ = post(t, url+"/v1/completions", body)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// Prefill's answer and its kv_transfer_params have limits, framed or not.
func TestLimitsOfPrefill(t *testing.T) {
	long := strings.Repeat("1,", maxParams/2) + "1"
	for name, c := range map[string]struct {
		limit   Bytes
		chunked bool
		answer  string
		ok      bool
	}{
		"within":                {100, false, `{"kv_transfer_params":{"a":"` + strings.Repeat("x", 60) + `"}}`, true},
		"above":                 {100, false, `{"kv_transfer_params":{"a":"` + strings.Repeat("x", 80) + `"}}`, false},
		"above, chunked":        {100, true, `{"kv_transfer_params":{"a":"` + strings.Repeat("x", 80) + `"}}`, false},
		"params above":          {0, false, `{"kv_transfer_params":{"a":[` + long + `]}}`, false},
		"params above, chunked": {0, true, `{"kv_transfer_params":{"a":[` + long + `]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			prefill, decode := newEngine(t, prefillRole, nil), newEngine(t, decodeRole, nil)
			prefill.answer = func(w http.ResponseWriter, _ *http.Request) {
				if c.chunked {
					w.(http.Flusher).Flush()
				}
				io.WriteString(w, c.answer)
			}
			p, url, _ := serve(t,
				Options{Prefill: []string{prefill.URL}, Decode: []string{decode.URL}, MaxAnswer: c.limit})
			resp, text := post(t, url+"/v1/completions", `{"prompt":"p"}`)
			if c.ok {
				require.Equal(t, http.StatusOK, resp.StatusCode, text)
				return
			}
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			requireError(t, text, 502, "prefill", prefill.URL)
			require.Zero(t, decode.count())
			require.EqualValues(t, 1, p.prefill.all[0].counts.failures[tooLarge].Load())
			require.Zero(t, p.room.used.Load())
		})
	}
}

// A limit of a head is that of the answers' heads and trailers.
func TestMaxHead(t *testing.T) {
	engine := newRaw(t, always("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 3000)+"\r\nContent-Length: 2\r\n\r\nok"))
	for limit, want := range map[Bytes]int{2048: 502, 4096: 200} {
		_, url, _ := serve(t, Options{Prefill: []string{engine.url}, Decode: []string{engine.url}, MaxHead: limit})
		status, _ := get(t, url+"/x")
		require.Equal(t, want, status)
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	some := []string{"http://a:1"}
	for name, o := range map[string]Options{
		"negative":             {MaxBody: -1},
		"all below one":        {MaxBody: 2, MaxBodies: 1},
		"head below 1 KiB":     {MaxHead: 100},
		"head beyond 16 MiB":   {MaxHead: 1 << 30},
		"negative room":        {MaxBodies: -5},
		"negative answer":      {MaxAnswer: -5},
		"negative answer head": {MaxHead: -5},
	} {
		o.Prefill, o.Decode = some, some
		_, err := New(o)
		require.Error(t, err, name)
	}
	_, o, err := ParseArgs(strings.Fields("--max-body 1GiB --max-bodies 4GiB --max-answer 16MiB --max-head 32KiB"))
	require.NoError(t, err)
	require.Equal(t, []Bytes{1 << 30, 4 << 30, 16 << 20, 32 << 10},
		[]Bytes{o.MaxBody, o.MaxBodies, o.MaxAnswer, o.MaxHead})
	for _, args := range []string{"--max-body 0", "--max-body -1", "--max-body 1GB", "--max-body 99999999999GiB",
		"--max-body x", "--max-body 4GiB", "--max-head 1"} {
		_, _, err := ParseArgs(strings.Fields(args))
		require.Error(t, err, args)
	}
}

// A 200 that is none is passed on as it is, and counted and logged.
func TestAnswersThatAreNone(t *testing.T) {
	const good = "data: {\"choices\":[{\"text\":\"\\\"finish_reason\\\":\\\"error\\\" \\\"error\\\"\",\"finish_reason\":null}],\"error\":null}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"
	const done = "data: [DONE]\n\n"
	for name, c := range map[string]struct{ kind, body, reason string }{
		"good":                   {"text/event-stream; charset=utf-8", good + done, ""},
		"good, no line end":      {"text/event-stream", good + "data: [DONE]", ""},
		"good, carriage returns": {"text/event-stream", strings.ReplaceAll(good+done, "\n", "\r\n"), ""},
		"good JSON":              {"application/json", `{"choices":[{"text":"an \"error\" in \"object\"","finish_reason":"length"}]}`, ""},
		"error first":            {"text/event-stream", "data: {\"error\": {\"message\": \"dead\", \"code\": 500}}\n\n" + done, "bad-body"},
		"error later":            {"text/event-stream", good + "data: {\"error\": {\"message\": \"dead\"}}\n\n" + done, "bad-body"},
		"error behind choices":   {"text/event-stream", good + "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"completion_tokens\":5},\"error\":{\"message\":\"dead\"}}\n\n" + done, "bad-body"},
		"error object of old":    {"text/event-stream", "data: {\"object\":\"error\",\"message\":\"dead\"}\n\n" + done, "bad-body"},
		"event: error":           {"text/event-stream", "event: error\ndata: {\"message\":\"dead\"}\n\n" + done, "bad-body"},
		"finished by error":      {"text/event-stream", "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"error\"}]}\n\n" + done, "bad-body"},
		"finished by abort":      {"text/event-stream", "data: {\"choices\":[{\"text\":\"\",\"finish_reason\" : \"abort\"}]}\n\n" + done, "bad-body"},
		"JSON error":             {"application/json", `{"error":{"message":"dead"}}`, "bad-body"},
		"empty":                  {"application/json", "", "bad-body"},
		"no last event":          {"text/event-stream", good, "unfinished"},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, piece), func(t *testing.T) {
				_, decode, url, p, log := pairOf(t)
				decode.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.kind)
					for i := 0; i < len(c.body); i += piece {
						io.WriteString(w, c.body[i:min(i+piece, len(c.body))])
						w.(http.Flusher).Flush()
					}
				}
				resp, text := post(t, url+"/v1/completions", `{"stream":true}`)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, c.body, text)
				_, metrics := get(t, url+"/metrics")
				if c.reason == "" {
					require.Contains(t, metrics, "profllm_proxy_bad_answers_total 0\n")
					require.Equal(t, []string{""}, log.lines())
					return
				}
				eventually(t, "counted", func() bool { return p.counts.bad.Load() == 1 })
				_, metrics = get(t, url+"/metrics")
				require.Contains(t, metrics,
					fmt.Sprintf(`profllm_proxy_backend_failures_total{role="decode",backend=%q,reason=%q} 1`,
						decode.URL, c.reason))
				eventually(t, "log line", func() bool { return log.lines()[0] != "" })
			})
		}
	}
}

// Prefill's 200 is no success by itself, and its other successes are none.
func TestPrefillThatSaysNo(t *testing.T) {
	for name, answer := range map[string]string{
		"error":          `{"error":{"message":"no cache","code":500}}`,
		"old error":      `{"object":"error","message":"no cache"}`,
		"error, params":  `{"kv_transfer_params":{"a":1},"error":{"message":"no cache"}}`,
		"params: string": `{"kv_transfer_params":"a"}`,
		"params: list":   `{"kv_transfer_params":[1]}`,
		"params: number": `{"kv_transfer_params":1}`,
		"empty":          ``,
		"204":            ``,
		"202":            `{"kv_transfer_params":{"a":1}}`,
		"302":            ``,
	} {
		t.Run(name, func(t *testing.T) {
			prefill, decode, url, p, _ := pairOf(t)
			prefill.answer = func(w http.ResponseWriter, _ *http.Request) {
				var status int
				if _, err := fmt.Sscan(name, &status); err == nil {
					w.WriteHeader(status)
				}
				io.WriteString(w, answer)
			}
			resp, text := post(t, url+"/v1/completions", `{"prompt":"p"}`)
			require.Equal(t, http.StatusBadGateway, resp.StatusCode, text)
			requireError(t, text, 502, "prefill", prefill.URL)
			require.Zero(t, decode.count())
			require.EqualValues(t, 1, p.prefill.all[0].counts.errors.Load())
			require.Zero(t, p.counts.withoutKV.Load())
		})
	}
	for _, none := range []string{`null`, `false`, `""`, `{}`} {
		prefill, _, url, p, _ := pairOf(t)
		prefill.answer = func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"kv_transfer_params":{ },"error":`+none+`}`)
		}
		resp, _ := post(t, url+"/v1/completions", `{"prompt":"p"}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.EqualValues(t, 1, p.counts.withoutKV.Load())
	}
}

// A client that does not read its answer ends with the proxy's time, and so does
// the engine's work for it.
func TestClientThatDoesNotRead(t *testing.T) {
	_, decode, _, _, _ := pairOf(t)
	ended := make(chan struct{})
	decode.answer = func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
	p, url, _ := serve(t, Options{Prefill: []string{decode.URL}, Decode: []string{decode.URL},
		Timeout: 200 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
	require.NoError(t, err)
	eventually(t, "the request's end", func() bool {
		n := int64(0)
		for status := range p.counts.requests[otherPost] {
			n += p.counts.requests[otherPost][status].Load()
		}
		return n == 1 && p.counts.inFlight.Load() == 0
	})
	if decode.count() > 0 { // else the time was over before it was asked
		<-ended
	}
}

// An engine whose health is good and which serves nothing costs each of its
// requests, not those of the other; and no request is tried at both.
func TestHealthThatLies(t *testing.T) {
	liar := newRaw(t, func(net.Conn, int, string) bool { return false })
	honest := newEngine(t, decodeRole, nil)
	prefill := newEngine(t, prefillRole, nil)
	p, url, _ := serve(t, Options{Prefill: []string{prefill.URL}, Decode: []string{liar.url, honest.URL}})
	failed := 0
	for range 6 {
		for _, b := range p.decode.all {
			b.poll(context.Background()) // says that both are well
		}
		resp, _ := post(t, url+"/v1/completions", `{}`)
		if resp.StatusCode != http.StatusOK {
			failed++
		}
	}
	require.Equal(t, 3, failed)
	require.Equal(t, 3, liar.seen())
	require.Equal(t, 3, honest.count())
	require.EqualValues(t, 3, p.decode.all[0].counts.failures[closedEarly].Load())
}

// FuzzContents: what is found in an answer does not depend on how it came in
// pieces.
func FuzzContents(f *testing.F) {
	f.Add("data: {\"error\":{}}\n\ndata: [DONE]\n\n", 3)
	f.Add("event: error\r\n\r\n{\"choices\":[{\"finish_reason\": \"abort\"}]}", 1)
	f.Fuzz(func(t *testing.T, body string, piece int) {
		var whole, parts contents
		whole.add([]byte(body))
		piece = max(1, piece)
		for i := 0; i < len(body); i += min(piece, len(body)-i) {
			parts.add([]byte(body[i : i+min(piece, len(body)-i)]))
		}
		for _, stream := range []bool{false, true} {
			a, b := whole, parts
			require.Equal(t, a.fault(stream), b.fault(stream))
		}
	})
}
