package dashboard

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// slowest is how many bytes a client must send each second of an upload, besides what the server waits for anyway.
const slowest = 16 << 10

// patience bounds how long a client may take to send a request's body and to read the answer. An upload may take as
// long as its size needs.
func (d *Server) patience(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	now := time.Now()
	read, write := now.Add(d.opts.Patience), now.Add(2*timeLimit)
	switch {
	case strings.HasPrefix(r.URL.Path, streams):
		write = now.Add(exportLimit)
	case strings.HasPrefix(r.URL.Path, uploads) && r.Method == http.MethodPost: // which may have to wait for others
		read, write = read.Add(d.opts.Patience), write.Add(2*d.opts.Patience)
		r.Body = &paced{ReadCloser: r.Body, c: c, wait: d.opts.Patience}
	}
	_ = c.SetReadDeadline(read) // where the connection has one
	_ = c.SetWriteDeadline(write)
}

// paced is the body of an upload. Reading it fails with os.ErrDeadlineExceeded if it comes too slowly.
type paced struct {
	io.ReadCloser
	c     *http.ResponseController
	wait  time.Duration
	began time.Time // when the first byte was wanted
	n     int64
}

func (p *paced) Read(b []byte) (int, error) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	until := p.began.Add(p.wait + time.Duration(p.n)*time.Second/slowest)
	_ = p.c.SetReadDeadline(until)
	_ = p.c.SetWriteDeadline(until.Add(2 * timeLimit)) // of the answer
	n, err := p.ReadCloser.Read(b)
	p.n += int64(n)
	return n, err
}
