// Package loadtest is a completions server with known latencies, to test and measure load
// clients against.
//
// Every stream keeps an absolute schedule: the first token leaves a fixed time after the
// request arrived, the others at fixed gaps, however late the one before was. On Linux a request
// arrives when the kernel receives it, so that a server which reads it late still answers in time.
// One goroutine writes all tokens from a timer wheel, so that thousands of streams fit on one core.
// What the server itself was late by is in its [Truth] and, if wanted, in the [Times] of each stream.
//
// It is not an engine: tokens do not depend on prompts, and nothing is ever queued.
//
//	s, err := loadtest.Start(loadtest.Options{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond})
//	defer s.Close()
//	// send requests to s.URL()
package loadtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a server. The zero value answers at once.
type Options struct {
	Addr string        // to listen on; a free port of 127.0.0.1 if empty
	TTFT time.Duration // from the arrival of the request to the first token
	ITL  time.Duration // between tokens
	Keep bool          // keep the bodies of requests for [Server.Bodies]
	Time bool          // keep the [Times] of each stream

	// Tokenizer offers /tokenize and /detokenize, where token 7 is the word "w7".
	Tokenizer bool
	// Fault says what goes wrong with the n-th completions request, counted from 0. Nil: nothing.
	Fault func(n int) Fault
}

// A Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	Status     int  // answer with this status instead of a stream
	CutAfter   int  // close the connection after so many tokens; below 0 before any byte
	ErrorAfter int  // end the stream with an error event after so many tokens
	NoUsage    bool // send no usage record
}

// Truth is what the server itself saw, in ms. TTFT is counted from the arrival of a request.
type Truth struct {
	Streams     int     `json:"streams"`
	MeanTTFT    float64 `json:"mean_ttft_ms"`
	MaxTTFT     float64 `json:"max_ttft_ms"`
	TTFT        Ranks   `json:"ttft_ms"`
	Unread      Ranks   `json:"unread_ms"`    // from the arrival of a request until it was read
	Gap         Ranks   `json:"gap_ms"`       // between tokens, as they left
	MeanLate    float64 `json:"mean_late_ms"` // of all tokens, behind their schedule
	MaxLate     float64 `json:"max_late_ms"`
	MaxInFlight int     `json:"max_in_flight"`
}

// Times are those of one stream, by the system's clock. As that may be set, all are counted on from
// one reading of it.
type Times struct {
	ID      string    `json:"id"`      // x-request-id
	Arrived time.Time `json:"arrived"` // the end of the request, in the kernel
	Read    time.Time `json:"read"`    // the same, in the server
	Begun   time.Time `json:"begun"`   // the writing of the first token
	Written time.Time `json:"written"` // the first token
}

// Ranks are percentiles, to 10 µs. What is above 1 s counts as that.
type Ranks struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// A Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	o        Options
	listener net.Listener
	wheel    *wheel
	requests atomic.Int64
	inFlight atomic.Int64
	peak     atomic.Int64
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	bodies [][]byte
}

// Start listens and serves until [Server.Close].
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, listener: l, wheel: newWheel(o), conns: make(map[net.Conn]struct{})}
	go s.wheel.run()
	go s.accept()
	return s, nil
}

// URL returns the base URL.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Requests returns how many completions requests were read.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Bodies returns the bodies of completions requests in the order of their reading, if they are
// kept.
func (s *Server) Bodies() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.bodies...)
}

// Truth returns what the server saw so far.
func (s *Server) Truth() Truth {
	t := s.wheel.truth()
	t.MaxInFlight = int(s.peak.Load())
	return t
}

// Close ends all connections and returns when nothing runs any more.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wheel.stop()
	s.serving.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.serving.Add(1)
		s.mu.Unlock()
		go s.serve(c)
	}
}

// serve answers the requests of one connection.
func (s *Server) serve(c net.Conn) {
	defer s.serving.Done()
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	in, err := newInlet(c)
	if err != nil {
		return
	}
	r := bufio.NewReader(in)
	over := make(chan bool, 1)
	var q request
	for {
		if err := q.readFrom(r); err != nil {
			return
		}
		q.arrived, q.read = in.arrived, in.read
		if !strings.HasSuffix(q.path, "completions") {
			if err := s.aside(c, q.path, q.body); err != nil {
				return
			}
			continue
		}
		if !s.stream(c, &q, over) {
			return
		}
	}
}

// A request is what the server takes from one, and when it had all of it.
type request struct {
	path, id      string
	body          []byte
	arrived, read time.Time
}

// readFrom reads the next request in place of this one.
func (q *request) readFrom(r *bufio.Reader) error {
	length, err := q.readHead(r)
	if err != nil {
		return err
	}
	q.body = append(q.body[:0], make([]byte, length)...)
	_, err = io.ReadFull(r, q.body)
	return err
}

// readHead reads a request's head and returns the length of its body.
func (q *request) readHead(r *bufio.Reader) (length int, err error) {
	first, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	words := strings.Fields(first)
	if len(words) != 3 {
		return 0, fmt.Errorf("malformed request line %q", first)
	}
	q.path, q.id = words[1], ""
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); strings.ToLower(string(name)) {
		case "content-length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case "x-request-id":
			q.id = string(value)
		}
	}
}

// stream puts one answer on the wheel and waits for its end. It returns false if the connection
// is of no more use.
func (s *Server) stream(c net.Conn, q *request, over chan bool) bool {
	n := int(s.requests.Add(1)) - 1
	now := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for peak := s.peak.Load(); now > peak && !s.peak.CompareAndSwap(peak, now); peak = s.peak.Load() {
	}
	if s.o.Keep {
		s.mu.Lock()
		s.bodies = append(s.bodies, bytes.Clone(q.body))
		s.mu.Unlock()
	}
	var fault Fault
	if s.o.Fault != nil {
		fault = s.o.Fault(n)
	}
	switch {
	case fault.Status != 0:
		return refuse(c, fault.Status) == nil
	case fault.CutAfter < 0:
		return false
	}
	a := &answer{
		conn: c, id: q.id, arrived: q.arrived, read: q.read, due: q.arrived.Add(s.o.TTFT), gap: s.o.ITL, over: over,
		fault: fault, chat: strings.Contains(q.path, "chat"), tokens: maxTokens(q.body), prompt: promptTokens(q.body),
	}
	if a.tokens == 0 {
		return refuse(c, http.StatusBadRequest) == nil
	}
	return s.wheel.add(a) && <-over
}

// maxTokens finds the number of tokens asked for, without decoding the body.
func maxTokens(body []byte) int {
	for _, key := range []string{`"max_tokens":`, `"max_completion_tokens":`} {
		if i := bytes.Index(body, []byte(key)); i >= 0 {
			n := 0
			for _, d := range bytes.TrimLeft(body[i+len(key):], " ") {
				if d < '0' || d > '9' {
					break
				}
				n = n*10 + int(d-'0')
			}
			return n
		}
	}
	return 0
}

// promptTokens counts the ids of a token prompt, or the words of a text.
func promptTokens(body []byte) int {
	const key = `"prompt":[`
	if i := bytes.Index(body, []byte(key)); i >= 0 {
		ids, _, _ := bytes.Cut(body[i+len(key):], []byte("]"))
		return bytes.Count(ids, []byte(",")) + 1
	}
	var chat struct {
		Messages []struct{ Content string }
	}
	if json.Unmarshal(body, &chat) != nil {
		return 0
	}
	n := 0
	for _, m := range chat.Messages {
		n += len(strings.Fields(m.Content))
	}
	return n
}

func refuse(c net.Conn, status int) error {
	return reply(c, status, map[string]any{"error": map[string]any{"message": "refused on purpose", "code": status}})
}

func reply(c net.Conn, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	return err
}

// aside answers what is not a completion.
func (s *Server) aside(c net.Conn, path string, body []byte) error {
	switch {
	case path == "/v1/models":
		return reply(c, 200, map[string]any{"data": []any{map[string]any{"id": "loadtest", "root": "loadtest"}}})
	case path == "/truth":
		return reply(c, 200, s.Truth())
	case path == "/times":
		return reply(c, 200, s.wheel.allTimes())
	case s.o.Tokenizer && path == "/detokenize":
		var in struct{ Tokens []int }
		if err := json.Unmarshal(body, &in); err != nil {
			return err
		}
		words := make([]string, len(in.Tokens))
		for i, id := range in.Tokens {
			words[i] = "w" + strconv.Itoa(id)
		}
		return reply(c, 200, map[string]any{"prompt": strings.Join(words, " ")})
	case s.o.Tokenizer && path == "/tokenize":
		var in struct{ Prompt string }
		if err := json.Unmarshal(body, &in); err != nil {
			return err
		}
		var ids []int
		for _, w := range strings.Fields(in.Prompt) {
			id, err := strconv.Atoi(strings.TrimPrefix(w, "w"))
			if err != nil {
				return errors.Join(err, reply(c, 400, map[string]any{"message": err.Error()}))
			}
			ids = append(ids, id)
		}
		return reply(c, 200, map[string]any{"count": len(ids), "tokens": ids})
	}
	return reply(c, 404, map[string]any{"detail": "Not Found"})
}
