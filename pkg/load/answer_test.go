package load

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	tokenEvent = `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"a","finish_reason":null}],"usage":null}` + "\n\n"
	roleEvent  = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	deltaEvent = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"é\n"}}]}` + "\n\n"
	usageEvent = `data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"
	errorEvent = `data: {"error":{"message":"engine is dead","type":"InternalServerError","code":500}}` + "\n\n"
)

// readAll feeds body to a stream in pieces of that size; the time is the number of bytes fed.
func readAll(body string, size int) outcome {
	var o outcome
	var s stream
	s.reset(&o, true)
	for i := 0; i < len(body); i += size {
		end := min(i+size, len(body))
		s.feed([]byte(body[i:end]), int64(end))
	}
	s.close(int64(len(body)))
	s.finish("")
	return o
}

func TestStream(t *testing.T) {
	tests := map[string]struct {
		body   string
		events int
		input  int
		output int
		text   string
		err    string
	}{
		"tokens and usage":           {tokenEvent + tokenEvent + usageEvent + doneEvent, 2, 7, 2, "aa", ""},
		"no usage":                   {tokenEvent + tokenEvent + tokenEvent + doneEvent, 3, 0, 3, "aaa", ""},
		"no done":                    {tokenEvent + usageEvent, 1, 7, 2, "a", ""},
		"no empty line at the end":   {tokenEvent + strings.TrimSpace(usageEvent), 1, 7, 2, "a", ""},
		"CRLF":                       {strings.ReplaceAll(tokenEvent+usageEvent+doneEvent, "\n", "\r\n"), 1, 7, 2, "a", ""},
		"keep-alive comments":        {": ping\n\n" + tokenEvent + ":\n\n" + usageEvent, 1, 7, 2, "a", ""},
		"event and id fields":        {"event: message\nid: 4\n" + tokenEvent + usageEvent, 1, 7, 2, "a", ""},
		"no space after the colon":   {strings.ReplaceAll(tokenEvent+usageEvent, "data: ", "data:"), 1, 7, 2, "a", ""},
		"chat counts the role event": {roleEvent + deltaEvent + usageEvent, 2, 7, 2, "é\n", ""},
		"two data lines of one event": {
			"data: {\"choices\":[{\"text\":\ndata: \"x\"}]}\n\n" + usageEvent, 1, 7, 2, "", "",
		},
		"usage on the last token":    {tokenEvent + `data: {"usage":{"completion_tokens":5},"choices":[{"text":"b"}]}` + "\n\n", 2, 0, 5, "ab", ""},
		"the word choices as a text": {`data: {"x":"choices","choices" : [ {"text":"choices"}]}` + "\n\n", 1, 0, 1, "choices", ""},
		"a key inside a text":        {`data: {"text":"\"choices\":[{","choices":[]}` + "\n\n" + tokenEvent, 1, 0, 1, "a", ""},
		"only an error":              {errorEvent + doneEvent, 0, 0, 0, "", "engine is dead"},
		"an error after tokens":      {tokenEvent + errorEvent + doneEvent, 0, 0, 0, "", "engine is dead (after 1 token events)"},
		"the older error shape":      {`data: {"object":"error","message":"too long"}` + "\n\n", 0, 0, 0, "", "too long"},
		"nothing":                    {"", 0, 0, 0, "", "no token event"},
		"only usage":                 {usageEvent + doneEvent, 0, 0, 0, "", "no token event"},
		"a page instead of a stream": {"<html>\nhello\n</html>\n", 0, 0, 0, "", "no token event"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 3, 64} {
				o := readAll(tt.body, size)
				if tt.err != "" {
					require.Equal(t, failed, o.state)
					require.Contains(t, o.err, tt.err)
					require.Empty(t, o.tokens)
					continue
				}
				require.Equal(t, completed, o.state, "%s", o.err)
				require.Len(t, o.tokens, tt.events)
				require.Equal(t, tt.input, o.input)
				require.Equal(t, tt.output, o.output)
				require.Equal(t, tt.text, o.text)
			}
		})
	}
}

func TestStreamTimesAreThoseOfTheReadThatEndsAnEvent(t *testing.T) {
	body := tokenEvent + tokenEvent + tokenEvent
	n := int64(len(tokenEvent))
	require.Equal(t, []int64{n, 2 * n, 3 * n}, readAll(body, 1).tokens)
	require.Equal(t, []int64{3 * n, 3 * n, 3 * n}, readAll(body, len(body)).tokens, "a bundle arrives at once")
}

func TestStreamRefusesAnEndlessLine(t *testing.T) {
	var o outcome
	var s stream
	s.reset(&o, false)
	for range lineLimit>>20 + 2 {
		s.feed(make([]byte, 1<<20), 1)
	}
	s.finish("")
	require.Contains(t, o.err, "longer than 16 MiB")
}

// FuzzStream checks that where bytes are cut never changes what is read.
func FuzzStream(f *testing.F) {
	for _, body := range []string{
		tokenEvent + tokenEvent + usageEvent + doneEvent,
		strings.ReplaceAll(roleEvent+deltaEvent+usageEvent, "\n", "\r\n"),
		": ping\n\n" + tokenEvent + errorEvent,
		"data: a\ndata: b\n\ndata:\n\n\n\r\n\rdata: {\"choices\":[1",
	} {
		f.Add(body, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		whole := readAll(body, len(body)+1)
		rng := rand.New(rand.NewPCG(seed, 0))
		var o outcome
		var s stream
		s.reset(&o, true)
		for rest := []byte(body); len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 40))
			piece := append([]byte(nil), rest[:n]...)
			s.feed(piece, 1)
			clear(piece) // nothing may be kept of it
			rest = rest[n:]
		}
		s.close(1)
		s.finish("")
		require.Equal(t, whole.state, o.state)
		require.Equal(t, whole.err, o.err)
		require.Equal(t, whole.text, o.text)
		require.Equal(t, len(whole.tokens), len(o.tokens))
		require.Equal(t, [2]int{whole.input, whole.output}, [2]int{o.input, o.output})
	})
}

func chunked(parts ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

// readAnswer feeds a whole HTTP answer in pieces of that size, then the end of the connection.
func readAnswer(raw string, size int) (o outcome, over, keepAlive bool) {
	var a answer
	a.reset(&o, true)
	for i := 0; i < len(raw); i += size {
		end := min(i+size, len(raw))
		done, err := a.feed([]byte(raw[i:end]), int64(end))
		if err != nil && a.phase != phaseOver {
			a.close(int64(end), err)
			return o, false, false
		}
		over = over || done
	}
	a.close(int64(len(raw)), a.eof())
	return o, over, a.keepAlive
}

func TestAnswer(t *testing.T) {
	body := tokenEvent + tokenEvent + usageEvent + doneEvent
	tests := map[string]struct {
		raw       string
		over      bool // before the connection ended
		keepAlive bool
		err       string // "" is success with 2 tokens
	}{
		"chunked":                   {chunked(tokenEvent, tokenEvent, usageEvent, doneEvent), true, true, ""},
		"one chunk":                 {chunked(body), true, true, ""},
		"chunks cut events":         {chunked(body[:30], body[30:170], body[170:]), true, true, ""},
		"chunk extension":           {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n" + fmt.Sprintf("%X;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n", len(body), body), true, true, ""},
		"sized":                     {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body), true, true, ""},
		"interim answer":            {"HTTP/1.1 100 Continue\r\n\r\n" + chunked(body), true, true, ""},
		"connection: close":         {strings.Replace(chunked(body), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), true, false, ""},
		"HTTP/1.0 to the end":       {"HTTP/1.0 200 OK\r\n\r\n" + body, false, false, ""},
		"to the end without [DONE]": {"HTTP/1.0 200 OK\r\n\r\n" + tokenEvent, false, false, "closed the connection in the middle"},
		"cut in a chunk":            {chunked(tokenEvent, tokenEvent)[:200], false, false, "closed the connection in the middle"},
		"cut before the last chunk": {strings.TrimSuffix(chunked(tokenEvent), "0\r\n\r\n"), false, false, "closed the connection in the middle of its answer (after 1 token events)"},
		"nothing":                   {"", false, false, "without an answer"},
		"an error":                  {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 37\r\n\r\n" + `{"error":{"message":"EngineCore: x"}}`, true, true, "500 Internal Server Error: EngineCore: x"},
		"an error in text":          {"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nsorry", true, true, "503 Busy: sorry"},
		"an empty error":            {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true, true, "404 Not Found"},
		"no HTTP":                   {"SSH-2.0-OpenSSH\r\n\r\n", false, false, "malformed HTTP answer"},
		"negative length":           {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, false, "content length"},
		"chunk size in words":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nten\r\n", false, false, "chunk size"},
		"huge chunk size":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", false, false, "chunk size"},
		"chunk too long":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", false, false, "longer than its size"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1 << 20, 1, 2, 7} {
				o, over, keepAlive := readAnswer(tt.raw, size)
				if tt.err != "" {
					require.Equal(t, failed, o.state)
					require.Contains(t, o.err, tt.err)
				} else {
					require.Equal(t, completed, o.state, o.err)
					require.Len(t, o.tokens, 2)
				}
				require.Equal(t, tt.over, over)
				require.Equal(t, tt.keepAlive, keepAlive && over)
			}
		})
	}
}

func TestAnswerLimitsItsHead(t *testing.T) {
	o, _, _ := readAnswer("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*headLimit), 4096)
	require.Contains(t, o.err, "its head is longer")
}

// FuzzAnswer checks against net/http where both accept an answer, and that cuts change nothing.
func FuzzAnswer(f *testing.F) {
	f.Add(chunked(tokenEvent, usageEvent, doneEvent), 3)
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1)
	f.Add("HTTP/1.1 500 Oh\r\n\r\nwhy", 2)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 9)
	f.Fuzz(func(t *testing.T, raw string, size int) {
		size = max(size%64, 1)
		whole, over, keep := readAnswer(raw, len(raw)+1)
		cut, cutOver, cutKeep := readAnswer(raw, size)
		require.Equal(t, whole.state, cut.state)
		require.Equal(t, whole.err, cut.err)
		require.Equal(t, whole.text, cut.text)
		require.Equal(t, over, cutOver)
		require.Equal(t, keep, cutKeep)
		if over && !strings.HasPrefix(raw, "HTTP/1.1 1") {
			resp, body := netHTTP(raw)
			if resp != nil && resp.StatusCode == http.StatusOK {
				require.Equal(t, readAll(body, len(body)+1).text, whole.text)
			}
		}
	})
}

// netHTTP reads an answer with the standard library; resp is nil if it refuses it.
func netHTTP(raw string) (resp *http.Response, body string) {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		return nil, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, ""
	}
	return resp, string(b)
}
