// Package loadtest is a completions server with known latencies, to test and measure load
// clients against.
//
// Every stream keeps an absolute schedule: the first token leaves a fixed time after the
// request was read, the others at fixed gaps, however late the one before was. One goroutine
// writes all tokens from a timer wheel, so that thousands of streams fit on one core. What the
// server itself was late by is in its [Truth].
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
	TTFT time.Duration // from the end of the request to the first token
	ITL  time.Duration // between tokens
	Keep bool          // keep the bodies of requests for [Server.Bodies]

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

// Truth is what the server itself saw, in ms. Delays are counted from the end of reading a request.
type Truth struct {
	Streams     int     `json:"streams"`
	MeanTTFT    float64 `json:"mean_ttft_ms"`
	MaxTTFT     float64 `json:"max_ttft_ms"`
	TTFT        Ranks   `json:"ttft_ms"`
	Gap         Ranks   `json:"gap_ms"`       // between tokens, as they left
	MeanLate    float64 `json:"mean_late_ms"` // of all tokens, behind their schedule
	MaxLate     float64 `json:"max_late_ms"`
	MaxInFlight int     `json:"max_in_flight"`
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
	s := &Server{o: o, listener: l, wheel: newWheel(max(o.TTFT, o.ITL)), conns: make(map[net.Conn]struct{})}
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
	r := bufio.NewReader(c)
	over := make(chan bool, 1)
	var body []byte
	for {
		path, length, err := readHead(r)
		if err != nil {
			return
		}
		body = append(body[:0], make([]byte, length)...)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		if !strings.HasSuffix(path, "completions") {
			if err := s.aside(c, path, body); err != nil {
				return
			}
			continue
		}
		if !s.stream(c, path, body, over) {
			return
		}
	}
}

// readHead reads a request's head and returns its path and the length of its body.
func readHead(r *bufio.Reader) (path string, length int, err error) {
	first, err := r.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	words := strings.Fields(first)
	if len(words) != 3 {
		return "", 0, fmt.Errorf("malformed request line %q", first)
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return words[1], length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if strings.EqualFold(string(name), "content-length") {
			if length, err = strconv.Atoi(strings.TrimSpace(string(value))); err != nil {
				return "", 0, err
			}
		}
	}
}

// stream puts one answer on the wheel and waits for its end. It returns false if the connection
// is of no more use.
func (s *Server) stream(c net.Conn, path string, body []byte, over chan bool) bool {
	read := time.Now()
	n := int(s.requests.Add(1)) - 1
	now := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for peak := s.peak.Load(); now > peak && !s.peak.CompareAndSwap(peak, now); peak = s.peak.Load() {
	}
	if s.o.Keep {
		s.mu.Lock()
		s.bodies = append(s.bodies, bytes.Clone(body))
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
		conn: c, read: read, due: read.Add(s.o.TTFT), gap: s.o.ITL, over: over, fault: fault,
		chat: strings.Contains(path, "chat"), tokens: maxTokens(body), prompt: promptTokens(body),
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
