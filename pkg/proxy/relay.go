package proxy

import (
	"bytes"
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
	completion := a.StatusCode == http.StatusOK && x.completion()
	if completion {
		x.p.counts.overhead.observe(now.Sub(x.start) - x.waited)
	}
	var seen *contents
	if completion {
		seen = &contents{}
	}
	sent, err := x.pass(a, chunk[:], n, err, seen)
	if err != io.EOF {
		x.broke(b, a.StatusCode, sent, err)
	}
	x.writeTrailers(a)
	x.finished(a.StatusCode)
	switch {
	case a.StatusCode >= 400:
		x.report(a.StatusCode, b, errors.New("backend answered an error"))
	case completion:
		x.judge(b, a, seen)
	}
}

// pass copies the body to the client: first the n bytes in chunk, after which the backend's
// connection gave err, then what follows. It returns how many bytes the client got, and why
// it ended: io.EOF at the body's end. seen is given every byte, unless it is nil.
//
// Of a stream of events, every write holds whole events, and events of less than pieceSize
// reach the client's connection in one write: `vllm bench serve` (0.32) takes the white space
// off both ends of everything that it reads, so a read that ends behind "data:" makes it lose
// the request.
func (x *exchange) pass(a *answer, chunk []byte, n int, err error, seen *contents) (sent int64, _ error) {
	events := a.streams()
	for held := 0; ; {
		if seen != nil {
			seen.add(chunk[held : held+n])
		}
		rest := chunk[:held+n]
		for len(rest) > 0 {
			size := len(rest)
			if events {
				size = wholeEvents(rest, err != nil || len(rest) == len(chunk))
			}
			if size == 0 {
				break
			}
			if werr := x.write(rest[:size], err == io.EOF && size == len(rest)); werr != nil {
				return sent, werr
			}
			sent += int64(size)
			rest = rest[size:]
		}
		if err != nil {
			return sent, err
		}
		held = copy(chunk, rest)
		n, err = a.Read(chunk[held:])
	}
}

// write gives p to the client at once. The server itself does so with the last of an answer.
func (x *exchange) write(p []byte, last bool) error {
	if _, err := x.w.Write(p); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	x.p.counts.sent.Add(int64(len(p)))
	if flusher, ok := x.w.(http.Flusher); ok && !last {
		flusher.Flush()
	}
	return nil
}

// pieceSize is how much of a stream of events is passed on in one write. net/http hands it
// to the connection in one write, with the answer's head before it.
const pieceSize = 2 << 10

// wholeEvents is the size of the next piece of p: as many whole events as fit into pieceSize,
// or one that is longer. Without a whole event it is 0, or all of p if no more can be awaited.
func wholeEvents(p []byte, all bool) int {
	end := 0
	for end < len(p) {
		next := eventEnd(p[end:])
		if next == 0 || end > 0 && end+next > pieceSize {
			break
		}
		end += next
	}
	if end == 0 && all {
		return len(p)
	}
	return end
}

// eventEnd is the size of the first event of p with the empty line that ends it, 0 if that
// has not come.
func eventEnd(p []byte) int {
	for i := 0; ; {
		lf := bytes.IndexByte(p[i:], '\n')
		if lf < 0 {
			return 0
		}
		i += lf + 1
		switch {
		case bytes.HasPrefix(p[i:], []byte("\n")):
			return i + 1
		case bytes.HasPrefix(p[i:], []byte("\r\n")):
			return i + 2
		}
	}
}

// streams reports whether the answer is a stream of server-sent events.
func (a *answer) streams() bool {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return kind == "text/event-stream"
}

// judge records an answer of status 200 that is none. The client has it as it is,
// and may not look.
func (x *exchange) judge(b *backend, a *answer, seen *contents) {
	if err := seen.fault(a.streams()); err != nil {
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
