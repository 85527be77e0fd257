package sender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// A pool sends each request in flight from a goroutine of its own: for https, proxies, and
// systems without an event loop of ours. Requests and answers are those of the loop; only what
// waits is different.
type pool struct {
	dialer
	head []byte // of every request
	form answer.Form

	mu   sync.Mutex
	idle []*conn // the last one was used last
}

func newPool(t *Target) *pool {
	p := &pool{form: t.Form,
		dialer: dialer{target: t.URL, via: t.Via, tls: &tls.Config{InsecureSkipVerify: t.Insecure}}}
	form := t.URL.RequestURI()
	if t.Via != nil && t.URL.Scheme == "http" { // a proxy is told the whole URL
		plain := *t.URL
		plain.User, plain.Fragment = nil, ""
		form = plain.String()
		p.head = requestHead(t, form)
		p.head = append(p.head, p.credentials()...)
		return p
	}
	p.head = requestHead(t, form)
	return p
}

// dialsAtOnce is how many connections are opened at a time.
const dialsAtOnce = 64

// Connect opens connections until n are idle, and gives up on those that cannot be opened.
func (p *pool) Connect(ctx context.Context, n int, clock func() int64) {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n - len(p.idle)))
	for range min(n, dialsAtOnce) {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				c, err := p.dial(ctx)
				if err != nil {
					return
				}
				p.keep(c, clock())
			}
		})
	}
	wg.Wait()
}

func (p *pool) Close() {
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
}

// keep makes c available to the next request.
func (p *pool) keep(c *conn, now int64) {
	c.since = now
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// take returns the idle connection that was used last, or nil.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// open returns an idle connection that may carry a request, or a new one.
func (p *pool) open(ctx context.Context, now int64) (*conn, error) {
	for c := p.take(); c != nil; c = p.take() {
		if now-c.since <= int64(IdleLimit) && c.silent() {
			return c, nil
		}
		c.Close()
	}
	return p.dial(ctx)
}

// lagProbe is how long the goroutine that measures lag sleeps.
const lagProbe = 5 * time.Millisecond

func (p *pool) Run(ctx context.Context, load *Load) Stats {
	stats := Stats{Kind: "goroutines", Loops: 1}
	probing, stop := context.WithCancel(ctx)
	var probe, workers sync.WaitGroup
	probe.Go(func() { // how late a sleeper wakes is how late a reader may be
		for probing.Err() == nil {
			before := load.Clock()
			time.Sleep(lagProbe)
			stats.Lag.Add(load.Clock() - before - int64(lagProbe))
		}
	})
	queue := make(chan int, load.Scheduled())
	var pending atomic.Int64 // requests in the queue or in work
	active := 0
	for i := load.mine(0); i < load.Scheduled(); i = load.mine(i + 1) {
		if !sleepUntil(ctx, load.Clock, load.Outcomes[i].Due) {
			break
		}
		if pending.Add(1) > int64(active) && active < load.Limit {
			active++
			workers.Go(func() { p.work(ctx, load, queue, &pending) })
		}
		queue <- i
	}
	close(queue)
	workers.Wait()
	stop()
	probe.Wait()
	return stats
}

// sleepUntil returns false if ctx ended first.
func sleepUntil(ctx context.Context, clock func() int64, due int64) bool {
	if wait := due - clock(); wait > 0 {
		t := time.NewTimer(time.Duration(wait))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// A worker sends one request after the other.
type worker struct {
	*pool
	load      *Load
	answer    answer.Reader
	body, out []byte
	buf       []byte
}

// readSize is what is read at a time: not less than a TLS record, so that none is held back
// between two reads.
const readSize = 16 << 10

// work sends requests one after another, each with those that follow it, until the queue is closed
// and empty.
func (p *pool) work(ctx context.Context, load *Load, queue <-chan int, pending *atomic.Int64) {
	w := worker{pool: p, load: load, buf: make([]byte, readSize)}
	var free int64
	for i := range queue {
		for i >= 0 && sleepUntil(ctx, load.Clock, load.Outcomes[i].Due) {
			free = w.send(ctx, i, free)
			i = load.follower(i, free)
		}
		if ctx.Err() != nil {
			return
		}
		pending.Add(-1)
	}
}

// send sends request i, for which the worker has been free since then, and returns when it ended.
func (w *worker) send(ctx context.Context, i int, free int64) int64 {
	o := w.load.prepare(i)
	o.Ready = max(o.Due, free)
	w.body = w.load.Requests.Body(w.body[:0], i)
	w.out = w.load.request(w.out[:0], w.head, w.body, i)
	w.exchange(ctx, i, o)
	if ctx.Err() != nil && o.State == answer.InFlight {
		o.State = answer.Interrupted
	}
	at := w.load.Clock()
	w.load.Ended.Add(1, at)
	return at
}

// exchange sends request i and reads its answer. A request that cannot have reached the server
// is sent again, on a connection that was opened after it broke. It keeps its first start.
func (w *worker) exchange(ctx context.Context, i int, o *answer.Outcome) {
	c, err := w.open(ctx, w.load.Clock())
	for {
		if o.Resends == 0 {
			o.Start = w.load.Clock()
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			o.Refuse(w.load.Clock(), err)
			return
		}
		w.answer.Reset(o, w.load.wanted(i, w.form))
		if !w.attempt(ctx, c, o.Resends > 0) {
			return
		}
		o.Resends++
		c, err = w.dial(ctx)
	}
}

// attempt sends a request over c, reads its answer and keeps c if it is of further use. again
// says that the server cannot have read the request, which was not sent before.
func (w *worker) attempt(ctx context.Context, c *conn, resent bool) (again bool) {
	c.SetReadDeadline(time.Now().Add(requestLimit))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	s := sendAll(c, w.out, w.load.Clock)
	over, err := w.read(c)
	at := w.load.Clock()
	whole := s.end()
	broke := breach{
		used: c.used, resent: resent, whole: whole, answered: w.answer.Bytes > 0,
		after: at - s.at, roundTrip: c.roundTrip, slack: w.load.closeSlack(),
	}
	switch {
	case !stop(): // interrupted
		c.Close()
		return false
	case !over && broke.neverArrived():
		c.Close()
		return true
	case over:
		err = w.answer.Ended(whole, err)
	}
	w.answer.Close(at, err)
	if err != nil || !w.answer.KeepAlive {
		c.Close()
		return false
	}
	c.SetReadDeadline(time.Time{})
	c.used = true
	w.keep(c, at)
	return false
}

// read feeds the answer until it ends. over says that the connection did not end before it: err
// is what is wrong with the answer, else why it broke off.
func (w *worker) read(c *conn) (over bool, err error) {
	for {
		n, err := c.Read(w.buf)
		at := w.load.Clock()
		if n > 0 {
			if over, err := w.answer.Feed(w.buf[:n], at); over || err != nil {
				return true, err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			err = w.answer.EOF()
			return err == nil, err
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true, errLasted
		default:
			return false, fmt.Errorf("receive: %w", err)
		}
	}
}

// A sending writes a request while its answer may already be read.
type sending struct {
	conn *conn
	over chan struct{}
	err  error
	at   int64 // when the end of the request was handed to the system
}

func sendAll(c *conn, request []byte, clock func() int64) *sending {
	s := &sending{conn: c, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		_, s.err = c.Write(request)
		s.at = clock()
	}()
	return s
}

// end waits for the writer, which it interrupts, and reports whether the request left whole.
func (s *sending) end() (whole bool) {
	select {
	case <-s.over:
	default:
		s.conn.SetWriteDeadline(past)
		<-s.over
		s.conn.SetWriteDeadline(time.Time{})
	}
	return s.err == nil
}
