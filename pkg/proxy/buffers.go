package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// bodyTime is how long a request's body may take to arrive, so that a client that
// stalls does not keep its room from the others.
const bodyTime = time.Minute

// room is the memory for bodies: of requests, and of the answers that the proxy
// reads itself. Of each the proxy holds up to three copies for a moment (as
// received, edited, framed).
type room struct {
	limit int64
	used  atomic.Int64
}

// take reports whether there were n bytes left, which it then takes.
func (r *room) take(n int64) bool {
	if r.used.Add(n) > r.limit {
		r.used.Add(-n)
		return false
	}
	return true
}

// take takes n bytes of the proxy's room until the request's end. It may be called
// by several goroutines.
func (x *exchange) take(n int64) bool {
	ok := x.p.room.take(n)
	if ok {
		x.room.Add(n)
	}
	return ok
}

func (x *exchange) release() { x.p.room.used.Add(-x.room.Load()) }

// readBody appends the client's body.
func (x *exchange) readBody(dst []byte) ([]byte, error) {
	if x.r.ContentLength == 0 {
		return dst, nil
	}
	deadline := http.NewResponseController(x.w)
	deadline.SetReadDeadline(x.start.Add(bodyTime)) // where the server can
	dst, err := x.read(dst, x.r.Body, x.r.ContentLength, int64(x.p.o.MaxBody))
	if err == nil {
		deadline.SetReadDeadline(time.Time{})
	}
	return dst, err
}

// read appends what r holds, size bytes if that is known (not negative) and limit
// at most, and takes room for it.
func (x *exchange) read(dst []byte, r io.Reader, size, limit int64) ([]byte, error) {
	switch {
	case size > limit:
		return dst, errTooBig
	case size < 0:
		return readAll(dst, &growing{r, x, limit}, size)
	case !x.take(size):
		return dst, errNoRoom
	}
	return readAll(dst, r, size)
}

// growing is a body of unknown length.
type growing struct {
	io.Reader
	x    *exchange
	left int64
}

func (g *growing) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	switch g.left -= int64(n); {
	case g.left < 0:
		return n, errTooBig
	case !g.x.take(int64(n)):
		return n, errNoRoom
	}
	return n, err
}

// Buffers hold bodies and requests; the largest are left to the collector.
const maxPooled = 4 << 20

// chunkSize is how much of an answer is passed on at once.
const chunkSize = 16 << 10

var (
	bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}
	memberPool = sync.Pool{New: func() any { m := make([]member, 0, 32); return &m }}
	chunkPool  = sync.Pool{New: func() any { return new([chunkSize]byte) }}
)

func getBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		bufferPool.Put(b)
	}
}

func getChunk() *[chunkSize]byte  { return chunkPool.Get().(*[chunkSize]byte) }
func putChunk(c *[chunkSize]byte) { chunkPool.Put(c) }

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
