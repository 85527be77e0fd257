package load

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// requestLimit is how long one request may last, as in vLLM's client.
const requestLimit = 6 * time.Hour

// A job is one batch of requests on a schedule.
type job struct {
	body     *bodies
	outcomes []outcome // one per request; due is set, the engine fills in the rest
	same     bool      // every request is sample 0: a ready check or a warm-up
	limit    int       // most requests in flight
	keepText bool
	prefix   string       // of x-request-id
	clock    func() int64 // ns since a fixed instant; goes back only where a simulated clock is set
	slack    int64        // [closeSlack]
	ended    *ends
}

// ends counts the requests that have ended, and knows when the last of them did.
type ends struct{ n, last atomic.Int64 }

func (e *ends) add(at int64) {
	for last := e.last.Load(); at > last && !e.last.CompareAndSwap(last, at); last = e.last.Load() {
	}
	e.n.Add(1)
}

// copies returns the job of sending the first sample n times at once.
func (j *job) copies(n int) job {
	c := *j
	c.outcomes, c.same, c.keepText, c.ended = make([]outcome, n), true, false, new(ends)
	for i := range c.outcomes {
		c.outcomes[i].due = c.clock()
	}
	return c
}

// render appends the body of request i to dst.
func (j *job) render(dst []byte, i int) []byte { return j.body.render(dst, j.sample(i)) }

func (j *job) sample(i int) int {
	if j.same {
		return 0
	}
	return i
}

// asked returns how many tokens request i asks for, 0 if that is not known.
func (j *job) asked(i int) int {
	if !j.body.counted {
		return 0
	}
	return j.body.samples[j.sample(i)].output
}

// id returns the x-request-id of request i; requests that are not measured carry none, as in vLLM.
func (j *job) id(i int) string {
	if j.same {
		return ""
	}
	return j.prefix + strconv.Itoa(i)
}

// tokenRoom bounds the room for token times that is set aside before a request is sent.
const tokenRoom = 4096

// prepare readies the outcome of request i for its answer.
func (j *job) prepare(i int) *outcome {
	o, s := &j.outcomes[i], j.body.samples[j.sample(i)]
	o.state, o.input = inFlight, s.input
	if o.tokens == nil {
		o.tokens = make([]int64, 0, min(s.output+1, tokenRoom)) // chat servers send one event more than tokens
	}
	o.tokens = o.tokens[:0]
	return o
}

// An engine sends the requests of a job when they are due and measures the answers.
type engine interface {
	// connect opens connections so that the first n requests find one.
	connect(ctx context.Context, n int, clock func() int64)
	// run returns when every request has ended or ctx is done. Requests in flight are then interrupted.
	run(ctx context.Context, j *job) clientStats
	// close closes all connections.
	close()
}

// clientStats says how the client itself fared during a run.
type clientStats struct {
	engine string
	lag    spread // ns an event may have waited for the client
	loops  int    // threads that send and read
}

func (c *clientStats) add(other *clientStats) {
	c.engine, c.loops = other.engine, c.loops+other.loops
	c.lag.merge(&other.lag)
}

// streamsPerLoop is how many streams one event loop reads before another one helps. One core keeps up with about
// three times as many at 50 tokens/s each.
const streamsPerLoop = 2048

// newEngine returns the event loop for plain HTTP where there is one, else a goroutine for each request.
func newEngine(ctx context.Context, o *Options) (engine, error) {
	u, err := url.Parse(o.url())
	if err != nil {
		return nil, err
	}
	via, err := o.via(u)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && via == nil && haveLoop {
		return newLoops(ctx, o, u, streamsPerLoop)
	}
	return newPool(o, u, via), nil
}

// via returns the proxy of requests to u, or nil.
func (o *Options) via(u *url.URL) (*url.URL, error) {
	if o.Proxy == nil {
		return nil, nil
	}
	via, err := o.Proxy(&http.Request{URL: u})
	switch {
	case err != nil:
		return nil, fmt.Errorf("choose a proxy: %w", err)
	case via != nil && via.Scheme != "http" && via.Scheme != "https":
		return nil, fmt.Errorf("proxy %s: only http and https proxies are supported; unset HTTP_PROXY and HTTPS_PROXY or name the server in NO_PROXY", via.Redacted())
	}
	return via, nil
}

const (
	// connectLimit is how long a connection may take to open.
	connectLimit = 30 * time.Second
	// idleLimit is how long a connection may lie idle. vLLM's server closes them after 5 s
	// (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); an older one might be gone by the time a request is sent.
	idleLimit = 4 * time.Second
)

// A feeder hands out the requests of a job in order.
type feeder struct {
	job  *job
	next atomic.Int64
}

// take returns the next request if it is due at now. Otherwise i is -1 and wait is when to ask again, the largest
// integer if no request is left. It is safe for concurrent use.
func (f *feeder) take(now int64) (i int, wait int64) {
	for {
		n := f.next.Load()
		if n >= int64(len(f.job.outcomes)) {
			return -1, math.MaxInt64
		}
		if due := f.job.outcomes[n].due; due > now {
			return -1, due
		}
		if f.next.CompareAndSwap(n, n+1) {
			return int(n), 0
		}
	}
}
