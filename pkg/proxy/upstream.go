package proxy

import (
	"bufio"
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
	readSize    = 16 << 10

	// checkAfter is how long a connection is idle before it is checked for a
	// close by the peer. In a busy proxy the two system calls are not worth it:
	// a connection closed that fast is replaced after the error.
	checkAfter = 100 * time.Millisecond
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
	dial   time.Duration

	mu   sync.Mutex
	idle []*conn // the least recently used first
}

type conn struct {
	net.Conn
	raw   syscall.RawConn
	br    *bufio.Reader
	since time.Time // idle since
}

// An answer is a response whose body is still on its connection. Its finish
// must be called.
type answer struct {
	*http.Response
	up   *upstream
	conn *conn
	stop func() bool // ends the watch of the request's context
}

// errUnsent marks an error before any byte of an answer, on a connection that
// had served before: most likely the server closed it while it was idle.
var errUnsent = errors.New("connection closed while idle")

// send sends one request, head and body, and reads the head of its answer. A
// kept connection that turns out to be closed is replaced once by a new one.
// When ctx ends, the connection is closed, which the reader of the answer sees
// as an error.
func (u *upstream) send(ctx context.Context, method string, request []byte) (*answer, error) {
	if c := u.kept(); c != nil {
		a, err := u.exchange(ctx, c, method, request, true)
		if !errors.Is(err, errUnsent) || ctx.Err() != nil {
			return a, err
		}
	}
	d := net.Dialer{Timeout: u.dial}
	nc, err := d.DialContext(ctx, "tcp", u.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, br: bufio.NewReaderSize(nc, readSize)}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	return u.exchange(ctx, c, method, request, false)
}

func (u *upstream) exchange(ctx context.Context, c *conn, method string, request []byte, kept bool) (*answer, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	fail := func(act string, err error) (*answer, error) {
		stop()
		c.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w", act, err)
	}
	if _, err := c.Write(request); err != nil {
		if kept {
			err = errUnsent
		}
		return fail("write request", err)
	}
	if _, err := c.br.Peek(1); err != nil {
		if kept && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			err = errUnsent
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("connection closed without an answer")
		}
		return fail("read answer", err)
	}
	for {
		resp, err := http.ReadResponse(c.br, methodOnly(method))
		if err != nil {
			return fail("read answer", err)
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return fail("read answer", errors.New("backend switched protocols"))
		}
		if resp.StatusCode >= 200 {
			return &answer{Response: resp, up: u, conn: c, stop: stop}, nil
		}
	}
}

// methodOnly is what http.ReadResponse wants to know about the request.
func methodOnly(method string) *http.Request {
	if method == http.MethodHead {
		return headRequest
	}
	return nil // GET is assumed; the others have answers of the same shape
}

var headRequest = &http.Request{Method: http.MethodHead}

// finish ends the answer. The connection is kept when its body was read to the
// end (whole), nothing follows it and neither side asked to close.
func (a *answer) finish(whole bool) {
	if !a.stop() || !whole || a.Close || a.conn.br.Buffered() > 0 || !a.up.keep(a.conn) {
		a.conn.Close()
	}
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
		idle := time.Since(c.since)
		if idle < checkAfter || idle < maxIdleTime && c.open() {
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

// open reports whether the peer has neither closed an idle connection nor
// written to it. It asks the kernel and does not wait.
func (c *conn) open() bool {
	if c.raw == nil {
		return true
	}
	var one [1]byte
	open := false
	err := c.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		open = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && open
}

// appendRequest appends a whole HTTP/1.1 request. Of header the end-to-end part
// is sent; Host, X-Request-Id and Content-Length are the proxy's.
func (u *upstream) appendRequest(dst []byte, q request, header http.Header) []byte {
	dst = append(dst, q.method...)
	dst = append(dst, ' ')
	dst = append(dst, u.prefix...)
	dst = append(dst, q.uri...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, u.addr...)
	dst = append(dst, "\r\nX-Request-Id: "...)
	dst = append(dst, q.id...)
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
	plain  bool // the proxy reads the answer: no compression, no conditions
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
