package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"
)

// relay passes b's answer on: status, end-to-end headers, body, trailers. The
// head waits for the body's first byte, so that an engine that dies before its
// first token is an error to the client and not an empty success.
func (x *exchange) relay(b *backend, a *answer) {
	defer a.finish()
	chunk := getChunk()
	defer putChunk(chunk)

	began := time.Now()
	n, err := a.Read(chunk[:])
	now := time.Now()
	x.waited += now.Sub(began)
	if err != nil && err != io.EOF {
		x.lost(b, err)
		x.fail(failure{http.StatusBadGateway, b, fmt.Errorf("read answer: %w", err)})
		return
	}
	b.counts.answers.add(a.StatusCode)
	x.writeHead(b, a)
	completion := a.StatusCode == http.StatusOK && x.paired()
	if completion {
		x.p.counts.overhead.observe(now.Sub(x.start) - x.waited)
	}
	var seen contents
	sent := int64(0)
	flusher, _ := x.w.(http.Flusher)
	for ; ; n, err = a.Read(chunk[:]) {
		if n > 0 {
			if completion {
				seen.add(chunk[:n])
			}
			if _, werr := x.w.Write(chunk[:n]); werr != nil {
				err = fmt.Errorf("%w: %w", errGone, werr)
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
	x.writeTrailers(a)
	x.finished(a.StatusCode)
	switch {
	case a.StatusCode >= 400:
		x.report(a.StatusCode, b, errors.New("backend answered an error"))
	case completion:
		x.judge(b, a, &seen)
	}
}

// judge records an answer of status 200 that is none. The client has it as it is,
// and may not look.
func (x *exchange) judge(b *backend, a *answer, seen *contents) {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err := seen.fault(kind == "text/event-stream"); err != nil {
		b.counts.failures[reasonOf(err)].Add(1)
		x.p.counts.bad.Add(1)
		x.report(a.StatusCode, b, err)
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
	switch {
	case !bounded(a.Response):
		// Its end is that of the connection: to the client as well.
		h["Transfer-Encoding"] = []string{"identity"}
	case a.ContentLength < 0:
		// A stream stays one, even when all of it came in one read.
		h["Transfer-Encoding"] = []string{"chunked"}
	}
	if a.StatusCode >= 400 {
		h.Set(backendHeader, b.String())
	}
	x.w.WriteHeader(a.StatusCode)
}

// writeTrailers passes on what may stand in trailers (RFC 9110, 6.5.1): nothing
// by which a message is framed or routed.
func (x *exchange) writeTrailers(a *answer) {
	for name, values := range a.Trailer {
		if hopByHop(name) || name == "Content-Length" || name == "Host" || !isToken([]byte(name)) {
			continue
		}
		if !slices.ContainsFunc(values, func(v string) bool { return !printable([]byte(v)) }) {
			x.w.Header()[http.TrailerPrefix+name] = values
		}
	}
}

// backendHeader names the backend behind an error: "prefill http://host:port".
const backendHeader = "X-Profllm-Backend"

// broke ends a request whose answer broke off after its head. It does not
// return: the client's connection is closed without the answer's end.
func (x *exchange) broke(b *backend, status int, sent int64, err error) {
	switch {
	case context.Cause(x.ctx) == errTimeout:
		err = errTimeout
	case x.clientGone() || errors.Is(err, errGone):
		x.p.counts.gone.Add(1)
		x.finished(statusClientGone)
		x.report(statusClientGone, b, fmt.Errorf("%w after %d bytes", errGone, sent))
		panic(http.ErrAbortHandler)
	}
	x.lost(b, err)
	x.p.counts.broken.Add(1)
	x.finished(status)
	x.report(status, b, fmt.Errorf("answer broke off after %d bytes: %w", sent, err))
	panic(http.ErrAbortHandler)
}
