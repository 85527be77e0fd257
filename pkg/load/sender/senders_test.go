package sender

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

// A visit is one connection to a scripted server.
type visit struct {
	net.Conn
	reader *bufio.Reader
	server *scripted
}

// A scripted server does with every connection what its script says, and then closes it.
type scripted struct {
	url      string
	requests atomic.Int64 // read whole
}

func startScripted(t *testing.T, secure bool, script func(v *visit)) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{url: "http://" + l.Addr().String()}
	if secure {
		s.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	}
	var visits sync.WaitGroup
	visits.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			visits.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(t.Context(), func() { c.Close() })
				defer stop()
				script(&visit{c, bufio.NewReader(c), s})
			})
		}
	})
	t.Cleanup(func() { l.Close(); visits.Wait() })
	return s
}

// certificate returns that of a test server.
func certificate(t *testing.T) tls.Certificate {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	require.NotEmpty(t, server.TLS.Certificates)
	return server.TLS.Certificates[0]
}

// request reads one request. It returns false at the end of the connection.
func (v *visit) request() bool {
	req, err := http.ReadRequest(v.reader)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	v.server.requests.Add(1)
	return true
}

func (v *visit) say(text string) bool {
	_, err := io.WriteString(v, text)
	return err == nil
}

// reset closes the connection with a reset in place of an end.
func (v *visit) reset() {
	c := v.Conn
	if layer, ok := c.(*tls.Conn); ok {
		c = layer.NetConn()
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// always answers every request with the same bytes.
func always(answer string) func(v *visit) {
	return func(v *visit) {
		for v.request() && v.say(answer) {
		}
	}
}

// once answers one request of each connection and closes it.
func once(answer string) func(v *visit) {
	return func(v *visit) {
		if v.request() {
			v.say(answer)
		}
	}
}

// first answers the first request of each connection whole, and does then what the row says
// with the second.
func first(second func(v *visit)) func(v *visit) {
	return func(v *visit) {
		if v.request() && v.say(wholeAnswer) && v.request() {
			second(v)
		}
	}
}

var (
	wholeAnswer = answertest.Chunked(answertest.TokenEvent, answertest.LastEvent, answertest.UsageEvent,
		answertest.DoneEvent)
	otherAnswer = answertest.Chunked(answertest.TokenEvent, answertest.LastEvent, answertest.Counting("1000", "2"),
		answertest.DoneEvent)
)

func sized(length int, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

// hold is how long a scripted server keeps a request that it drops: far longer than [closeSlack].
const hold = 200 * time.Millisecond

// Every sender treats a server that misbehaves alike. Each row sends four requests, one after
// the other.
//
// covers: LIB-3 LRES-3
func TestSendersAgreeOnServers(t *testing.T) {
	body := answertest.TokenEvent + answertest.LastEvent + answertest.UsageEvent + answertest.DoneEvent
	rows := map[string]struct {
		script    func(v *visit)
		prompt    int // tokens; 0 is 8
		completed int
		retried   int
		requests  int // that the server read; 0 is 4
		err       string
	}{
		"answers":                               {script: always(wholeAnswer), completed: 4},
		"answers with a length":                 {script: always(sized(len(body), body)), completed: 4},
		"closes after every answer":             {script: once(wholeAnswer), completed: -1, retried: -1, requests: -1, err: "without an answer"}, // a busy machine sees it late
		"says that it closes, and does not":     {script: always(strings.Replace(wholeAnswer, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)), completed: 4},
		"speaks HTTP/1.0":                       {script: once("HTTP/1.0 200 OK\r\n\r\n" + body), completed: 4},
		"ends its lines in LF":                  {script: always(strings.Replace(sized(len(body), body), "\r\n", "\n", -1)), completed: 4},
		"sends interim answers":                 {script: always(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + wholeAnswer), completed: 4},
		"answers twice":                         {script: always(wholeAnswer + otherAnswer), completed: 4},
		"sends stray bytes":                     {script: always(wholeAnswer + "\r\n"), completed: 4},
		"holds a request on a used connection":  {script: first(func(*visit) { time.Sleep(hold) }), completed: 2, err: "closed the connection without an answer"},
		"holds, then resets a used connection":  {script: first(func(v *visit) { time.Sleep(hold); v.reset() }), completed: 2, err: "receive: "},
		"goes silent after an interim answer":   {script: first(func(v *visit) { v.say("HTTP/1.1 100 Continue\r\n\r\n") }), completed: 2, err: "in the middle of its answer"},
		"sends one byte on a used connection":   {script: first(func(v *visit) { v.say("H") }), completed: 2, err: "in the middle of its answer"},
		"drops every request":                   {script: func(v *visit) { v.request() }, err: "closed the connection without an answer"},
		"resets every request":                  {script: func(v *visit) { v.request(); v.reset() }, err: "receive: "},
		"closes at once":                        {script: func(*visit) {}, requests: -1, err: ""},
		"closes after the head":                 {script: once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), err: "in the middle of its answer"},
		"drops half an answer":                  {script: once(wholeAnswer[:len(wholeAnswer)/2]), err: "in the middle of its answer"},
		"drops before the last chunk":           {script: once(strings.TrimSuffix(wholeAnswer, "0\r\n\r\n")), err: "in the middle of its answer"},
		"resets half an answer":                 {script: func(v *visit) { v.request(); v.say(answertest.Chunked(answertest.TokenEvent)[:150]); v.reset() }, err: ""},
		"sends less than its length":            {script: once(sized(len(body)+9, body)), err: "in the middle of its answer"},
		"sends more than its length":            {script: always(sized(len(answertest.TokenEvent), body)), err: "without [DONE]"},
		"sends no chunk sizes":                  {script: always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body), err: "chunk size"},
		"sends a chunk longer than its size":    {script: always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + body), err: "longer than its size"},
		"sends a huge head":                     {script: always("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*answer.HeadLimit) + "\r\n\r\n"), err: "longer than 64 KiB"},
		"sends a head without an end":           {script: endless("HTTP/1.1 200 OK\r\n", "X: y\r\n"), err: "longer than 64 KiB"},
		"sends interim answers without an end":  {script: endless("", "HTTP/1.1 100 Continue\r\n\r\n"), err: "longer than 64 KiB"},
		"sends tokens without an end":           {script: endless("HTTP/1.1 200 OK\r\n\r\n", answertest.TokenEvent), err: "more than 68 token events"},
		"speaks another protocol":               {script: always("SSH-2.0-OpenSSH_9.9\r\n"), err: "malformed HTTP answer"},
		"switches protocols":                    {script: once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), err: "101 Switching Protocols"},
		"redirects":                             {script: always("HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n"), err: "307 Temporary Redirect"},
		"has no content":                        {script: always("HTTP/1.1 204 No Content\r\n\r\n"), err: "204 No Content"},
		"refuses":                               {script: always("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nwait"), err: "503 Busy: wait"},
		"refuses and hangs up":                  {script: once("HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nwait"), err: "503 Busy: wait"},
		"answers with an empty 200":             {script: always(sized(0, "")), err: "no token event"},
		"answers with a page":                   {script: always(sized(6, "<html>")), err: "not part of a streamed answer"},
		"reports an error inside its answer":    {script: always(answertest.Chunked(answertest.TokenEvent, answertest.ErrorEvent, answertest.DoneEvent)), err: "engine is dead (after 1 token events)"},
		"aborts":                                {script: always(answertest.Chunked(answertest.TokenEvent, answertest.Finishing(`"abort"`), answertest.UsageEvent, answertest.DoneEvent)), err: `finish_reason "abort"`},
		"reports an error and breaks off":       {script: once(strings.TrimSuffix(answertest.Chunked(answertest.TokenEvent, answertest.ErrorEvent), "0\r\n\r\n")), err: "engine is dead"},
		"counts no tokens":                      {script: always(answertest.Chunked(answertest.TokenEvent, answertest.LastEvent, answertest.Counting("7", "0"), answertest.DoneEvent)), err: "counts 0 completion tokens"},
		"answers before it reads":               {script: early(wholeAnswer), prompt: 1500000, requests: -1, err: answer.ErrTooEarly.Error()},
		"refuses before it reads":               {script: early("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"), prompt: 1500000, requests: -1, err: "413 Too Large"},
		"refuses before it reads, and hangs up": {script: func(v *visit) { v.reader.ReadByte(); v.say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") }, prompt: 1500000, requests: -1, err: "413 Too Large"},
	}
	for name, row := range rows {
		for way, secure := range map[string]bool{"loop": false, "pool": false, "pool over TLS": true} {
			t.Run(name+"/"+way, func(t *testing.T) {
				s := startScripted(t, secure, row.script)
				snd := openWay(t, way, s.url, "")
				load := requestsOf(cmp.Or(row.prompt, 8), 4)
				snd.Connect(t.Context(), 1, load.Clock)
				snd.Run(t.Context(), load)
				r := sumUp(load)
				if row.completed >= 0 {
					require.Equal(t, row.completed, r.completed, r.firstError)
				}
				require.Equal(t, 4, r.completed+r.failed)
				require.Equal(t, 7*r.completed, r.input, "an answer of another request was taken")
				require.Equal(t, 2*r.completed, r.output)
				if r.failed > 0 {
					require.Contains(t, r.firstError, row.err)
				}
				if row.retried >= 0 {
					require.Equal(t, row.retried, r.resent)
				}
				if row.requests >= 0 {
					require.EqualValues(t, max(row.requests, 4), s.requests.Load(), "no request is sent twice unseen")
				}
			})
		}
	}
}

// asking are requests for two tokens each.
type asking struct{ prompt int }

func (a asking) Body(dst []byte, _ int) []byte {
	return fmt.Appendf(dst, `{"prompt":%q}`, strings.Repeat("word ", a.prompt))
}

func (asking) ID(int) string { return "" }

func (a asking) Tokens(int) (prompt, answer int, bounded bool) { return a.prompt, 2, true }

// requestsOf returns a load of n requests for two tokens, one after the other.
func requestsOf(prompt, n int) *Load {
	origin := time.Now()
	return &Load{
		Requests: asking{prompt}, Outcomes: make([]answer.Outcome, n), Limit: 1,
		Clock: func() int64 { return int64(time.Since(origin)) },
	}
}

// openWay opens a sender of that kind for a server or through a proxy.
func openWay(t *testing.T, way, server, via string) Sender {
	t.Helper()
	to := &Target{Insecure: true, Streams: 1, Goroutines: strings.HasPrefix(way, "pool")}
	var err error
	to.URL, err = url.Parse(server + "/v1/completions")
	require.NoError(t, err)
	if via != "" {
		to.Via, err = url.Parse(via)
		require.NoError(t, err)
	}
	snd, err := Open(t.Context(), to)
	require.NoError(t, err)
	t.Cleanup(snd.Close)
	return snd
}

// A sum is what the outcomes of a load add up to.
type sum struct {
	completed, failed, input, output, resent int
	firstError                               string
}

func sumUp(load *Load) (s sum) {
	for i := range load.Outcomes {
		switch o := &load.Outcomes[i]; o.State {
		case answer.Completed:
			s.completed, s.input, s.output = s.completed+1, s.input+o.Input, s.output+o.Output
		case answer.Failed:
			s.failed++
			s.firstError = cmp.Or(s.firstError, o.Err)
		}
		s.resent += int(min(load.Outcomes[i].Resends, 1))
	}
	return s
}

// endless answers a request with a start and then the same again and again.
func endless(start, again string) func(v *visit) {
	return func(v *visit) {
		if !v.request() || !v.say(start) {
			return
		}
		for piece := strings.Repeat(again, 100); v.say(piece); {
		}
	}
}

// early answers as soon as a request begins, and never reads it.
func early(answer string) func(v *visit) {
	return func(v *visit) {
		if _, err := v.reader.ReadByte(); err == nil && v.say(answer) {
			time.Sleep(hold)
		}
	}
}

func TestBreach(t *testing.T) {
	const ms = int64(time.Millisecond)
	closing := breach{used: true, whole: true, after: ms, roundTrip: ms / 10, slack: closeSlack}
	tests := map[string]struct {
		change func(b *breach)
		never  bool
	}{
		"closed as it was sent":             {func(*breach) {}, true},
		"the first request":                 {func(b *breach) { b.used = false }, false},
		"sent before":                       {func(b *breach) { b.resent = true }, false},
		"a byte came":                       {func(b *breach) { b.answered = true }, false},
		"held":                              {func(b *breach) { b.after = 11 * ms }, false},
		"held for 2 s":                      {func(b *breach) { b.after = 2000 * ms }, false},
		"closed by a server far away":       {func(b *breach) { b.after, b.roundTrip = 49*ms, 40*ms }, true},
		"held by a server far away":         {func(b *breach) { b.after, b.roundTrip = 51*ms, 40*ms }, false},
		"held, where a round trip was lost": {func(b *breach) { b.after, b.roundTrip = 900*ms, 1000*ms }, false},
		"never sent whole":                  {func(b *breach) { b.whole, b.after = false, 2000*ms }, true},
		"never sent whole, the first":       {func(b *breach) { b.whole, b.used = false, false }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := closing
			tt.change(&b)
			require.Equal(t, tt.never, b.neverArrived())
		})
	}
}

// disturbed reports whether something has arrived on the connection that a sender keeps.
func disturbed(snd Sender) bool {
	switch e := snd.(type) {
	case *pool:
		return !e.idle[0].silent()
	case *loops:
		return !silent(e.loops[0].idle[0].fd)
	}
	return false
}

// A connection on which something has arrived since the last answer carries no other request:
// neither is the request lost, nor are bytes that nobody asked for taken as its answer.
func TestDisturbedConnectionIsNotUsed(t *testing.T) {
	for name, then := range map[string]func(v *visit){
		"the server closes it":    func(v *visit) { v.Close() },
		"the server resets it":    func(v *visit) { v.reset() },
		"the server speaks on it": func(v *visit) { v.say(otherAnswer) },
	} {
		for way, secure := range map[string]bool{"loop": false, "pool": false, "pool over TLS": true} {
			t.Run(name+"/"+way, func(t *testing.T) {
				answered := make(chan struct{}, 2)
				s := startScripted(t, secure, func(v *visit) {
					if v.request() && v.say(wholeAnswer) {
						<-answered
						then(v)
						v.request() // never comes
					}
				})
				snd := openWay(t, way, s.url, "")
				for range 2 {
					load := requestsOf(8, 1)
					load.slack = int64(time.Hour) // however late this machine sees a close
					snd.Run(t.Context(), load)
					o := load.Outcomes[0]
					require.Equal(t, answer.Completed, o.State, o.Err)
					require.Equal(t, 7, o.Input)
					require.Zero(t, o.Resends)
					answered <- struct{}{}
					for !disturbed(snd) {
						time.Sleep(time.Millisecond)
					}
				}
				require.EqualValues(t, 2, s.requests.Load())
			})
		}
	}
}

// A request that is sent again is counted, and its times begin with the first send.
func TestResendKeepsTheFirstStart(t *testing.T) {
	const late = 30 * time.Millisecond
	for _, way := range []string{"loop", "pool"} {
		t.Run(way, func(t *testing.T) {
			var dropped atomic.Pointer[time.Time]
			s := startScripted(t, false, func(v *visit) {
				for n := 0; v.request(); n++ {
					if n > 0 { // on a used connection
						now := time.Now()
						dropped.Store(&now)
						return
					}
					if at := dropped.Swap(nil); at != nil {
						time.Sleep(time.Until(at.Add(late)))
					}
					v.say(wholeAnswer)
				}
			})
			snd := openWay(t, way, s.url, "")
			load := requestsOf(8, 4)
			load.slack = int64(time.Hour) // however late this machine sees a close
			snd.Run(t.Context(), load)
			require.EqualValues(t, 4, load.Ended.N.Load())
			require.Less(t, load.Ended.Last.Load(), load.Clock())

			r := sumUp(load)
			require.Equal(t, 4, r.completed, r.firstError)
			require.Equal(t, 3, r.resent)
			require.EqualValues(t, 7, s.requests.Load())
			for i := range load.Outcomes[1:] {
				o := &load.Outcomes[1+i]
				require.EqualValues(t, 1, o.Resends)
				require.GreaterOrEqual(t, o.Tokens[0]-o.Start, int64(late), "the first send is the start")
			}
		})
	}
}

// A proxy that opens tunnels, or is told whole URLs, carries the same requests.
func TestPoolThroughProxies(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startScripted(t, secure, always(wholeAnswer))
		var asked atomic.Pointer[http.Request]
		proxy := startScripted(t, false, func(v *visit) {
			req, err := http.ReadRequest(v.reader)
			if err != nil {
				return
			}
			asked.Store(req)
			far, err := net.Dial("tcp", req.Host)
			if err != nil {
				return
			}
			defer far.Close()
			if req.Method == http.MethodConnect {
				v.say("HTTP/1.1 200 Connection established\r\n\r\n")
			} else {
				req.Write(far)
			}
			go func() { io.Copy(far, v.reader); far.(*net.TCPConn).CloseWrite() }()
			io.Copy(v, far)
		})
		snd := openWay(t, "pool", s.url, strings.Replace(proxy.url, "http://", "http://user:word@", 1))
		load := requestsOf(8, 3)
		snd.Run(t.Context(), load)
		r := sumUp(load)
		require.Equal(t, 3, r.completed, r.firstError)
		require.EqualValues(t, 3, s.requests.Load())
		require.Equal(t, "Basic dXNlcjp3b3Jk", asked.Load().Header.Get("Proxy-Authorization"))
	}
}

func TestFeederHandsOutEveryRequestOnce(t *testing.T) {
	load := &Load{Outcomes: make([]answer.Outcome, 1000)}
	for i := range load.Outcomes {
		load.Outcomes[i].Due = int64(i)
	}
	f := feeder{load: load}
	taken := make(chan int, 1000)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				i, _ := f.take(499)
				if i < 0 {
					return
				}
				taken <- i
			}
		}()
	}
	for range 4 {
		<-done
	}
	close(taken)
	var all []int
	for i := range taken {
		all = append(all, i)
	}
	slices.Sort(all)
	require.Len(t, all, 500)
	require.Len(t, slices.Compact(all), 500)
	_, wait := f.take(499)
	require.EqualValues(t, 500, wait)
}

func TestSpreadBoundsItsQuantiles(t *testing.T) {
	var s Spread
	require.Zero(t, s.Quantile(0.99))
	for i := range int64(100_000) {
		s.Add(i)
	}
	for _, q := range []float64{0, 0.001, 0.5, 0.99, 1} {
		exact := q * 99_999
		got := float64(s.Quantile(q))
		require.GreaterOrEqual(t, got+1, exact)
		require.LessOrEqual(t, got, exact*1.125+1, "q %v", q)
	}
	s.Add(math.MaxInt64)
	s.Add(-5)
	require.Equal(t, int64(math.MaxInt64), s.Quantile(1))
}
