package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An exchange is one client's request on its way.
type exchange struct {
	p      *Proxy
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	route  route
	start  time.Time
	waited time.Duration // spent waiting for backends before the first byte
	id     string
}

// A failure is a request that the proxy has to answer itself.
type failure struct {
	status  int
	backend *backend // which failed, or nil
	err     error
}

var (
	errTimeout = errors.New("request took longer than the proxy's timeout")
	errTooBig  = errors.New("request body is larger than the proxy's limit")
)

// requestID is the client's X-Request-Id, or a random one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	return hex.EncodeToString(raw[:])
}

// serve answers the request, one way or another.
func (x *exchange) serve() {
	buf := getBuffer()
	defer putBuffer(buf)
	body, err := readBody(*buf, x.r, x.p.o.MaxBody)
	*buf = body
	x.p.counts.received.Add(int64(len(body)))
	switch {
	case errors.Is(err, errTooBig):
		x.fail(failure{status: http.StatusRequestEntityTooLarge, err: err})
	case err != nil:
		x.fail(failure{status: http.StatusBadRequest, err: fmt.Errorf("read request body: %w", err)})
	case x.route == completions || x.route == chat:
		x.pair(body)
	default:
		x.forward(x.p.decode.pick(), body)
	}
}

// pair moves a completion through prefill and decode.
func (x *exchange) pair(body []byte) {
	members := memberPool.Get().(*[]member)
	defer memberPool.Put(members)
	o, err := scan(body, *members)
	*members = o.members
	if err != nil {
		x.fail(failure{status: http.StatusBadRequest, err: err})
		return
	}
	edited := getBuffer()
	defer putBuffer(edited)
	*edited = o.appendPrefill(*edited, x.route == chat)
	params, ok := x.prefill(*edited)
	if !ok {
		return
	}
	*edited = o.appendDecode((*edited)[:0], params)
	x.forward(x.p.decode.pick(), *edited)
}

// prefill sends body to a prefill instance and returns the kv_transfer_params
// of its answer, nil if there are none. If not ok, the client was answered.
func (x *exchange) prefill(body []byte) (params []byte, ok bool) {
	b := x.p.prefill.pick()
	defer x.p.prefill.done(b)
	began := time.Now()
	a, err := x.send(b, body, true)
	if err != nil {
		x.fail(failure{http.StatusBadGateway, b, err})
		return nil, false
	}
	if a.StatusCode != http.StatusOK {
		x.relay(b, a)
		return nil, false
	}
	buf := getBuffer()
	defer putBuffer(buf)
	text, err := readAll(*buf, a.Body, a.ContentLength)
	*buf = text
	a.finish(err == nil)
	took := time.Since(began)
	x.waited += took
	if err == nil {
		params, err = transferParams(text)
	}
	if err != nil {
		b.counts.errors.Add(1)
		x.fail(failure{http.StatusBadGateway, b, fmt.Errorf("read answer: %w", err)})
		return nil, false
	}
	x.p.counts.prefill.observe(took)
	b.counts.answers.add(a.StatusCode)
	if params == nil {
		x.p.counts.withoutKV.Add(1)
	}
	return params, true
}

// transferParams copies the kv_transfer_params out of prefill's answer, raw;
// nil when they are absent or null.
func transferParams(answer []byte) ([]byte, error) {
	members := memberPool.Get().(*[]member)
	defer memberPool.Put(members)
	o, err := scan(answer, *members)
	*members = o.members
	if err != nil {
		return nil, err
	}
	raw := o.value(kvTransferParams)
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	return append([]byte(nil), raw...), nil
}

// forward sends the request with body to b, a decode instance, and passes the
// answer on.
func (x *exchange) forward(b *backend, body []byte) {
	defer x.p.decode.done(b)
	began := time.Now()
	a, err := x.send(b, body, false)
	x.waited += time.Since(began)
	if err != nil {
		x.fail(failure{http.StatusBadGateway, b, err})
		return
	}
	x.relay(b, a)
}

// send sends the client's request with another body to b, and records whether
// b could be reached.
func (x *exchange) send(b *backend, body []byte, plain bool) (*answer, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	q := request{method: x.r.Method, uri: x.r.URL.RequestURI(), id: x.id, body: body, plain: plain}
	*buf = b.appendRequest(*buf, q, x.r.Header)
	a, err := b.send(x.ctx, q.method, *buf)
	if x.ctx.Err() == nil {
		b.saw(err)
	}
	if err != nil {
		b.counts.errors.Add(1)
	}
	return a, err
}

// relay passes b's answer on: status, end-to-end headers, body, trailers. The
// head waits for the body's first byte, so that an engine that dies before its
// first token is an error to the client and not an empty success.
func (x *exchange) relay(b *backend, a *answer) {
	whole := false
	defer func() { a.finish(whole) }()
	chunk := getChunk()
	defer putChunk(chunk)

	began := time.Now()
	n, err := a.Body.Read(chunk[:])
	now := time.Now()
	x.waited += now.Sub(began)
	if err != nil && err != io.EOF {
		b.counts.errors.Add(1)
		x.fail(failure{http.StatusBadGateway, b, fmt.Errorf("read answer: %w", err)})
		return
	}
	b.counts.answers.add(a.StatusCode)
	x.writeHead(b, a)
	if a.StatusCode == http.StatusOK && (x.route == completions || x.route == chat) {
		x.p.counts.overhead.observe(now.Sub(x.start) - x.waited)
	}
	sent := int64(0)
	flusher, _ := x.w.(http.Flusher)
	for ; ; n, err = a.Body.Read(chunk[:]) {
		if n > 0 {
			if _, werr := x.w.Write(chunk[:n]); werr != nil {
				err = errors.Join(werr, context.Canceled)
				break
			}
			x.p.counts.sent.Add(int64(n))
			if flusher != nil && err == nil { // the server flushes the end
				flusher.Flush()
			}
			sent += int64(n)
		}
		if err != nil {
			break
		}
	}
	if err != io.EOF {
		x.broke(b, a.StatusCode, sent, err)
	}
	whole = true
	for name, values := range a.Trailer {
		x.w.Header()[http.TrailerPrefix+name] = values
	}
	x.finished(a.StatusCode)
	if a.StatusCode >= 400 {
		x.report(a.StatusCode, b, errors.New("backend answered an error"))
	}
}

func (x *exchange) writeHead(b *backend, a *answer) {
	h := x.w.Header()
	dropped := connectionTokens(a.Header)
	for name, values := range a.Header {
		if !hopByHop(name) && !slices.Contains(dropped, name) {
			h[name] = values
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // do not guess one
	}
	if a.ContentLength < 0 {
		// A stream stays one, even when all of it came in one read.
		h["Transfer-Encoding"] = []string{"chunked"}
	}
	if a.StatusCode >= 400 {
		h.Set(backendHeader, b.String())
	}
	x.w.WriteHeader(a.StatusCode)
}

// backendHeader names the backend behind an error: "prefill http://host:port".
const backendHeader = "X-Profllm-Backend"

// broke ends a request whose answer broke off after its head. It does not
// return: the client's connection is closed without the answer's end.
func (x *exchange) broke(b *backend, status int, sent int64, err error) {
	if x.clientGone() || errors.Is(err, context.Canceled) {
		x.p.counts.gone.Add(1)
		x.finished(statusClientGone)
		x.report(statusClientGone, b, fmt.Errorf("client left after %d bytes", sent))
	} else {
		b.counts.errors.Add(1)
		x.p.counts.broken.Add(1)
		x.finished(status)
		x.report(status, b, fmt.Errorf("answer broke off after %d bytes: %w", sent, err))
	}
	panic(http.ErrAbortHandler)
}

// clientGone reports whether the client's connection ended.
func (x *exchange) clientGone() bool { return x.r.Context().Err() != nil }

// fail answers the client in the shape of vLLM's errors, or counts that it left.
func (x *exchange) fail(f failure) {
	if x.clientGone() {
		x.p.counts.gone.Add(1)
		x.finished(statusClientGone)
		x.report(statusClientGone, f.backend, errors.New("client left before its answer"))
		panic(http.ErrAbortHandler)
	}
	if context.Cause(x.ctx) == errTimeout {
		f.status, f.err = http.StatusGatewayTimeout, errTimeout
	}
	message := f.err.Error()
	if f.backend != nil {
		message = f.backend.String() + ": " + message
		x.w.Header().Set(backendHeader, f.backend.String())
	}
	body := errorJSON{errorBody{Message: message, Type: errorType(f.status), Code: f.status}}
	text, _ := json.Marshal(body)
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(f.status)
	x.w.Write(text)
	x.finished(f.status)
	x.report(f.status, f.backend, f.err)
}

// errorJSON is the shape of vLLM's errors (its ErrorResponse).
type errorJSON struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func errorType(status int) string {
	switch status {
	case http.StatusBadGateway:
		return "BadGatewayError"
	case http.StatusGatewayTimeout:
		return "GatewayTimeoutError"
	}
	return "BadRequestError"
}

func (x *exchange) finished(status int) { x.p.counts.requests[x.route].add(status) }

// report logs a failed request.
func (x *exchange) report(status int, b *backend, err error) {
	backend := ""
	if b != nil {
		backend = b.String()
	}
	x.p.log.Warn("request failed", "id", x.id, "path", x.r.URL.Path, "status", status,
		"backend", backend, "seconds", time.Since(x.start).Seconds(), "err", err)
}

// Buffers hold bodies and requests; the largest are left to the collector.
const maxPooled = 4 << 20

var (
	bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}
	memberPool = sync.Pool{New: func() any { m := make([]member, 0, 32); return &m }}
	chunkPool  = sync.Pool{New: func() any { return new([readSize]byte) }}
)

func getBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		bufferPool.Put(b)
	}
}

func getChunk() *[readSize]byte  { return chunkPool.Get().(*[readSize]byte) }
func putChunk(c *[readSize]byte) { chunkPool.Put(c) }

func readBody(dst []byte, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength == 0 {
		return dst, nil
	}
	if r.ContentLength > limit {
		return dst, errTooBig
	}
	dst, err := readAll(dst, io.LimitReader(r.Body, limit+1), r.ContentLength)
	if err == nil && int64(len(dst)) > limit {
		err = errTooBig
	}
	return dst, err
}

// readAll appends what r holds, size bytes if that is known (not negative).
func readAll(dst []byte, r io.Reader, size int64) ([]byte, error) {
	if want := min(size, maxPooled) + 1; size >= 0 && int64(cap(dst)-len(dst)) < want {
		dst = append(make([]byte, 0, int64(len(dst))+want), dst...)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
