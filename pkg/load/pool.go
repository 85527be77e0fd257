package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// A pool sends requests through net/http: https, proxies, and systems without an event loop of ours. Each request
// in flight has a goroutine.
type pool struct {
	url       string
	header    http.Header
	transport *http.Transport
}

func newPool(o *Options) *pool {
	return &pool{o.url(), o.headers(), newTransport(o, 1<<16)}
}

// connect does nothing: net/http opens connections for requests only. Opening one is not part of any metric.
func (p *pool) connect(context.Context, int, func() int64) {}

func (p *pool) close() { p.transport.CloseIdleConnections() }

// lagProbe is how long the goroutine that measures lag sleeps.
const lagProbe = 5 * time.Millisecond

func (p *pool) run(ctx context.Context, j *job) clientStats {
	stats := clientStats{engine: "net/http", loops: 1}
	probing, stop := context.WithCancel(ctx)
	var probe, workers sync.WaitGroup
	probe.Go(func() { // how late a sleeper wakes is how late a reader may be
		for probing.Err() == nil {
			before := j.clock()
			time.Sleep(lagProbe)
			stats.lag.add(j.clock() - before - int64(lagProbe))
		}
	})
	queue := make(chan int, len(j.outcomes))
	var idle atomic.Int64
	active := 0
	for i := range j.outcomes {
		if !sleepUntil(ctx, j.clock, j.outcomes[i].due) {
			break
		}
		queue <- i
		if idle.Load() < int64(len(queue)) && active < j.limit {
			active++
			workers.Go(func() { p.work(ctx, j, queue, &idle) })
		}
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

// work sends requests one after another until the queue is closed and empty.
func (p *pool) work(ctx context.Context, j *job, queue <-chan int, idle *atomic.Int64) {
	var s stream
	buf := make([]byte, 16<<10)
	var body []byte
	var free int64
	for {
		idle.Add(1)
		i, ok := <-queue
		idle.Add(-1)
		if !ok || ctx.Err() != nil {
			return
		}
		body = j.render(body[:0], i)
		o := j.prepare(i)
		o.ready = max(o.due, free)
		s.reset(o, j.keepText)
		p.exchange(ctx, j, i, body, &s, buf)
		free = j.clock()
		j.done.Add(1)
	}
}

// exchange sends request i and reads its answer.
func (p *pool) exchange(ctx context.Context, j *job, i int, body []byte, s *stream, buf []byte) {
	o := s.out
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { o.start = j.clock() },
	})
	req, err := http.NewRequestWithContext(limited, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		s.finish(err.Error())
		return
	}
	req.Header = p.header.Clone()
	if id := j.id(i); id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	resp, err := p.transport.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes)) // what arrived is enough
			s.finish(statusText(resp.Status, text))
			return
		}
		err = readStream(resp.Body, s, buf, j.clock)
	}
	switch {
	case ctx.Err() != nil:
		o.state = interrupted
	case err != nil:
		s.finish(err.Error())
	default:
		s.finish("")
	}
}

// readStream feeds s until the end of body.
func readStream(body io.Reader, s *stream, buf []byte, clock func() int64) error {
	for {
		n, err := body.Read(buf)
		at := clock()
		s.feed(buf[:n], at)
		if errors.Is(err, io.EOF) {
			s.close(at)
			return nil
		}
		if err != nil {
			return err
		}
	}
}
