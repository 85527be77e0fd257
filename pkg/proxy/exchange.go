package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
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
	room   atomic.Int64 // bytes taken of the proxy's room for bodies
}

// A failure is a request that the proxy has to answer itself.
type failure struct {
	status  int
	backend *backend // which failed, or nil
	err     error
}

var (
	errTimeout = errors.New("request took longer than the proxy's timeout")
	errTooBig  = errors.New("body is larger than the proxy's limit")
	errNoRoom  = errors.New("the bodies of other requests fill the proxy's memory limit for bodies")
	errGone    = errors.New("client left")
)

// requestID is the client's X-Request-Id, or a random one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id
	}
	return randomID()
}

func randomID() string {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	return hex.EncodeToString(raw[:])
}

// completion reports whether an engine is asked for tokens.
func (x *exchange) completion() bool { return x.route == completions || x.route == chat }

// paired reports whether the request goes through prefill and decode.
func (x *exchange) paired() bool { return x.completion() && x.p.prefill != nil }

// serve answers the request, one way or another.
func (x *exchange) serve() {
	defer x.release()
	if f := x.unfit(); f != nil {
		x.fail(*f)
		return
	}
	if len(x.r.TransferEncoding) > 0 {
		// net/http drops a Content-Length that came with it. Where one reader saw
		// the one and another the other, what follows must not be a request
		// (RFC 9112, 6.3).
		x.w.Header().Set("Connection", "close")
	}
	buf := getBuffer()
	defer putBuffer(buf)
	body, err := x.readBody(*buf)
	*buf = body
	x.p.counts.received.Add(int64(len(body)))
	switch {
	case err != nil:
		x.fail(refusal(err))
	case x.route == control:
		x.everywhere(body)
	case x.paired():
		x.pair(body)
	default:
		x.forward(x.p.decode.pick(), body)
	}
}

// unfit is the answer to a request that no backend may see, nil for all others.
func (x *exchange) unfit() *failure {
	lines := 0
	for _, values := range x.r.Header {
		lines += len(values)
	}
	switch {
	case x.p.sent(x.r):
		return &failure{status: http.StatusLoopDetected,
			err: errors.New("request loop: an instance of this proxy is a proxy that leads back to this one")}
	case lines > maxHeaders:
		return &failure{status: http.StatusRequestHeaderFieldsTooLarge,
			err: fmt.Errorf("request has %d headers; the limit is %d", lines, maxHeaders)}
	case x.r.Method == http.MethodConnect:
		return &failure{status: http.StatusMethodNotAllowed,
			err: errors.New("CONNECT is not supported: the proxy opens no tunnels")}
	}
	return nil
}

// refusal is the answer to a request whose body could not be read.
func refusal(err error) failure {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, errTooBig):
		return failure{status: http.StatusRequestEntityTooLarge, err: fmt.Errorf("request %w", err)}
	case errors.Is(err, errNoRoom):
		return failure{status: http.StatusServiceUnavailable, err: err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
	}
	return failure{status: status, err: fmt.Errorf("read request body: %w", err)}
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
	if a.StatusCode >= 400 {
		x.relay(b, a)
		return nil, false
	}
	params, err = x.transferParams(a)
	took := time.Since(began)
	x.waited += took
	switch {
	case errors.Is(err, errNoRoom):
		x.fail(refusal(err))
		return nil, false
	case err != nil:
		x.lost(b, err)
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

// transferParams reads prefill's answer and copies the kv_transfer_params out of
// it, raw; nil when they are absent, null or empty.
func (x *exchange) transferParams(a *answer) ([]byte, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	text, err := x.read(*buf, a, a.ContentLength, int64(x.p.o.MaxAnswer))
	*buf = text
	a.finish()
	switch {
	case errors.Is(err, errTooBig):
		return nil, &fault{reason: tooLarge, err: err}
	case err != nil:
		return nil, err
	case a.StatusCode != http.StatusOK:
		return nil, faultf(badAnswer, "status %d in answer to a prefill", a.StatusCode)
	}
	return transferParams(text)
}

// forward sends the request with body to b, a decode instance or a server, and passes the
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
	q := request{method: x.r.Method, uri: x.r.URL.RequestURI(), id: x.id, body: body, plain: plain}
	*buf = b.appendRequest(*buf, q, x.r.Header)
	a, err := b.send(x.ctx, q.method, *buf, func(f *fault) { x.resent(b, f) })
	if err != nil || a.write.ended() {
		putBuffer(buf) // else it is still being written
	}
	if x.ctx.Err() == nil {
		b.saw(err)
	}
	if err == nil && x.completion() && a.StatusCode < 400 && !bounded(a.Response) {
		a.finish()
		err = faultf(badAnswer,
			"read answer: it has neither a length nor chunks, so its end cannot be told from a broken connection")
	}
	if err != nil {
		x.lost(b, err)
		return nil, err
	}
	return a, nil
}

// resent records that a request is sent to b a second time.
func (x *exchange) resent(b *backend, f *fault) {
	b.counts.resends[f.reason].Add(1)
	x.p.log.Warn("request sent again: the backend had closed the connection before the request arrived", "id", x.id,
		"path", x.r.URL.Path,
		"backend", b.String(), "reason", f.reason.String(), "err", f.err)
}

// lost records that b gave no whole or no good answer, unless its client left.
func (x *exchange) lost(b *backend, err error) {
	if x.clientGone() {
		return
	}
	if context.Cause(x.ctx) == errTimeout {
		err = errTimeout
	}
	b.counts.errors.Add(1)
	b.counts.failures[reasonOf(err)].Add(1)
}

// clientGone reports whether the client's connection ended.
func (x *exchange) clientGone() bool { return x.r.Context().Err() != nil }

// fail answers the client in the shape of vLLM's errors, or counts that it left.
func (x *exchange) fail(f failure) {
	if x.clientGone() {
		x.p.counts.gone.Add(1)
		x.finished(statusClientGone)
		x.report(statusClientGone, f.backend, fmt.Errorf("%w before its answer", errGone))
		panic(http.ErrAbortHandler)
	}
	if context.Cause(x.ctx) == errTimeout {
		f.status, f.err = http.StatusGatewayTimeout, errTimeout
	}
	body := errorJSON{errorBody{Message: f.message(), Type: errorType(f.status), Code: f.status}}
	x.answer(f.status, f.backend, body)
	x.report(f.status, f.backend, f.err)
}

// message is what the client reads.
func (f failure) message() string {
	if f.backend == nil {
		return f.err.Error()
	}
	return f.backend.String() + ": " + f.err.Error()
}

// answer answers the client itself. b is the backend behind an error, or nil.
func (x *exchange) answer(status int, b *backend, body any) {
	text, _ := json.Marshal(body)
	h := x.w.Header()
	if b != nil {
		h.Set(backendHeader, b.String())
	}
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(status)
	x.w.Write(text)
	x.finished(status)
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
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	case http.StatusLoopDetected:
		return "LoopDetectedError"
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
