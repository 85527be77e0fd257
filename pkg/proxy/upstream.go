package proxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxIdleTime is below the 5 s after which uvicorn, vLLM's HTTP server,
	// closes an idle connection (VLLM_HTTP_TIMEOUT_KEEP_ALIVE).
	maxIdleTime = 4 * time.Second
	maxIdle     = 2048 // connections kept per backend
	defaultHead = 16 << 10

	// longRequest is what a socket takes without waiting for its peer: the
	// kernel's first send buffer (tcp_wmem, 16 KiB). A longer request is written
	// beside the reading, because a backend may refuse it before it has read all.
	longRequest = 16 << 10
	writeGrace  = 20 * time.Millisecond
)

// An upstream sends HTTP/1.1 requests to one address over kept connections.
//
// It stands in for http.Transport, which spends two goroutines on a connection
// and two switches between them on a request: 2.8 times the CPU time per request
// (BenchmarkUpstream). Here the goroutine that serves the client writes the
// request and reads the answer. Safe for concurrent use.
type upstream struct {
	addr   string // host:port
	prefix string // path in front of every request, may be empty
	via    string // the proxy, in the Via header of every request
	dial   time.Duration
	head   int // most bytes of an answer's head, and of its trailers; 0: defaultHead

	mu   sync.Mutex
	idle []*conn // the least recently used first
}

type conn struct {
	net.Conn
	raw     syscall.RawConn
	br      *bufio.Reader
	since   time.Time // idle since
	earlier uint64    // bytes of the requests that were answered
}

// An answer is a response whose body is still on its connection. Its finish
// must be called, and its body be read through Read.
type answer struct {
	*http.Response
	up    *upstream
	conn  *conn
	write *writing
	bytes int         // of the request
	kept  bool        // the connection may be, once the body is read
	ended bool        // the body was read to its end
	stop  func() bool // ends the watch of the request's context
}

// A fault is why a backend gave no whole answer.
type fault struct {
	reason reason
	unsent bool // no byte of the request reached the backend
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(why reason, format string, args ...any) *fault {
	return &fault{reason: why, err: fmt.Errorf(format, args...)}
}

// reasonOf is the reason of err, an error of reading an answer: brokeOff, unless
// err says more.
func reasonOf(err error) reason {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f.reason
	case errors.Is(err, errTimeout):
		return timedOut
	}
	return brokeOff
}

// send sends one request, head and body, and reads the head of its answer. When
// ctx ends, the connection is closed, which the reader of the answer sees as an
// error.
//
// A request is sent a second time only if no byte of it reached the backend,
// which had closed the kept connection before. again, unless nil, is told why.
func (u *upstream) send(ctx context.Context, method string, request []byte, again func(*fault)) (*answer, error) {
	if c := u.kept(); c != nil {
		a, err := u.exchange(ctx, c, method, request)
		var f *fault
		if !errors.As(err, &f) || !f.unsent || ctx.Err() != nil {
			return a, err
		}
		if again != nil {
			again(f)
		}
	}
	d := net.Dialer{Timeout: u.dial}
	nc, err := d.DialContext(ctx, "tcp", u.addr)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &fault{reason: noConnection, err: err}
	}
	return u.exchange(ctx, newConn(nc, cmp.Or(u.head, defaultHead)), method, request)
}

func newConn(nc net.Conn, head int) *conn {
	c := &conn{Conn: nc, br: bufio.NewReaderSize(nc, head)}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	return c
}

// exchange sends the request on c and reads the head of its answer. With an
// error c is closed, and the request is not used any more.
func (u *upstream) exchange(ctx context.Context, c *conn, method string, request []byte) (*answer, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	w := c.send(request)
	resp, err := c.answer(w, method)
	if err == nil {
		return &answer{Response: resp, up: u, conn: c, write: w, bytes: len(request), kept: framed(resp, method) &&
			!resp.Close, stop: stop}, nil
	}
	stop()
	c.Close()
	w.wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// A writing is a request that is being handed to the kernel. For a short request
// done is nil, and n and err are known at once.
type writing struct {
	done chan struct{} // of a long request: closed at the end
	n    int
	err  error
}

func (w *writing) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return w.done == nil
	}
}

func (w *writing) wait() {
	if w.done != nil {
		<-w.done
	}
}

// endedSoon waits for a moment: a backend that has read a request may have
// answered before the writer of its last bytes ran on. It reports false if the
// backend answered without reading the request.
func (w *writing) endedSoon() bool {
	if w.ended() {
		return true
	}
	soon := time.NewTimer(writeGrace)
	defer soon.Stop()
	select {
	case <-w.done:
		return true
	case <-soon.C:
		return false
	}
}

func (c *conn) send(request []byte) *writing {
	w := &writing{}
	if len(request) <= longRequest {
		w.n, w.err = c.Write(request)
		return w
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		w.n, w.err = c.Write(request)
	}()
	return w
}

// answer reads the head of the final answer to the request that w writes.
func (c *conn) answer(w *writing, method string) (*http.Response, error) {
	if _, err := c.br.Peek(1); err != nil {
		return nil, c.silence(w, err)
	}
	for range maxInterim {
		if err := checkHead(c.br); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		resp, err := http.ReadResponse(c.br, methodOnly(method))
		switch {
		case err != nil:
			return nil, faultf(badAnswer, "read answer: %w", err)
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, faultf(badAnswer, "read answer: backend switched protocols")
		case resp.StatusCode >= 200:
			return resp, nil
		}
	}
	return nil, faultf(badAnswer, "read answer: more than %d interim answers", maxInterim)
}

// silence is the fault of a connection that ended by err before any byte of an
// answer.
//
// A request may be sent again only if it did not reach the backend. That is so in
// two cases: our kernel took no byte of it (the write failed at once), or the
// backend's kernel acknowledged no byte of it and its end of stream (not a reset)
// came. In all other cases the backend may have read the request and died of it,
// so the client sees an error.
func (c *conn) silence(w *writing, err error) error {
	ended := errors.Is(err, io.EOF)
	if w.ended() && w.err != nil {
		return &fault{reason: writeFailed, unsent: w.n == 0 || ended && c.untouched(),
			err: fmt.Errorf("write request: %w", w.err)}
	}
	if ended {
		err = errors.New("connection closed without an answer")
	}
	return &fault{reason: closedEarly, unsent: ended && c.untouched(), err: fmt.Errorf("read answer: %w", err)}
}

// untouched reports whether the backend's machine has acknowledged no byte of
// the newest request: nothing but the connection itself, which counts as one,
// and the requests before.
func (c *conn) untouched() bool {
	acked, ok := bytesAcked(c.raw)
	return ok && acked <= c.earlier+1
}

// methodOnly is what http.ReadResponse wants to know about the request.
func methodOnly(method string) *http.Request {
	if method == http.MethodHead {
		return headRequest
	}
	return nil // GET is assumed; the others have answers of the same shape
}

var headRequest = &http.Request{Method: http.MethodHead}

// Read reads the answer's body.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Body.Read(p)
	a.ended = a.ended || err == io.EOF
	return n, err
}

// finish ends the answer. The connection is kept when the request was written
// and the body read to the end, nothing follows it and neither side asked to
// close.
func (a *answer) finish() {
	c := a.conn
	if a.stop() && a.ended && a.kept && a.write.endedSoon() && a.write.err == nil && c.br.Buffered() == 0 {
		c.earlier += uint64(a.bytes)
		if a.up.keep(c) {
			return
		}
	}
	c.Close()
}

func (u *upstream) keep(c *conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.idle) >= maxIdle {
		return false
	}
	c.since = time.Now()
	u.idle = append(u.idle, c)
	return true
}

// kept takes the most recently used idle connection that is still open, or nil.
func (u *upstream) kept() *conn {
	for {
		u.mu.Lock()
		n := len(u.idle)
		if n == 0 {
			u.mu.Unlock()
			return nil
		}
		c := u.idle[n-1]
		u.idle[n-1] = nil
		u.idle = u.idle[:n-1]
		u.mu.Unlock()
		if time.Since(c.since) < maxIdleTime && c.quiet() {
			return c
		}
		c.Close()
	}
}

// prune closes the connections that were idle for too long, or all of them.
func (u *upstream) prune(all bool) {
	u.mu.Lock()
	n := 0
	for n < len(u.idle) && (all || time.Since(u.idle[n].since) >= maxIdleTime) {
		n++
	}
	old := append([]*conn(nil), u.idle[:n]...)
	kept := copy(u.idle, u.idle[n:])
	clear(u.idle[kept:])
	u.idle = u.idle[:kept]
	u.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// quiet reports whether the peer has neither closed an idle connection nor
// written to it: such bytes would be taken for the next answer. It asks the
// kernel and does not wait.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return false
	}
	quiet := false
	err := c.raw.Control(func(fd uintptr) { quiet = !readable(fd) })
	return err == nil && quiet
}

// appendRequest appends a whole HTTP/1.1 request with the end-to-end headers of
// header. The proxy sets Host, X-Request-Id and Content-Length, and adds a Via.
func (u *upstream) appendRequest(dst []byte, q request, header http.Header) []byte {
	dst = append(dst, q.method...)
	dst = append(dst, ' ')
	dst = append(dst, u.prefix...)
	dst = append(dst, q.uri...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, u.addr...)
	dst = append(dst, "\r\nX-Request-Id: "...)
	dst = append(dst, q.id...)
	dst = append(dst, "\r\nVia: 1.1 "...) // by this a proxy knows its own requests (RFC 9110, 7.6.3)
	dst = append(dst, u.via...)
	dst = append(dst, '\r', '\n')
	dropped := connectionTokens(header)
	for name, values := range header {
		if hopByHop(name) || slices.Contains(dropped, name) || q.skip(name) {
			continue
		}
		for _, v := range values {
			dst = append(dst, name...)
			dst = append(dst, ": "...)
			dst = append(dst, v...)
			dst = append(dst, '\r', '\n')
		}
	}
	if len(q.body) > 0 || q.method != http.MethodGet && q.method != http.MethodHead {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(q.body)), 10)
		dst = append(dst, '\r', '\n')
	}
	dst = append(dst, '\r', '\n')
	return append(dst, q.body...)
}

// A request is what differs from the client's request on its way to a backend.
type request struct {
	method string
	uri    string // path and query
	id     string // X-Request-Id
	body   []byte
	plain  bool // the proxy reads the answer, so Accept-Encoding is dropped
}

func (q request) skip(name string) bool {
	switch name {
	case "X-Request-Id", "Content-Length", "Host", "Expect":
		return true
	case "Accept-Encoding":
		return q.plain
	}
	return false
}

// hopByHop reports headers that concern one connection only (RFC 9110, 7.6.1).
// name is in canonical form.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// connectionTokens lists the headers that Connection names, canonical.
func connectionTokens(h http.Header) []string {
	var names []string
	for _, v := range h["Connection"] {
		for t := range strings.SplitSeq(v, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(t)))
		}
	}
	return names
}
