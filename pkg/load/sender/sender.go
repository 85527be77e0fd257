// Package sender sends the requests of one Load when they are due, and times what comes back.
//
// Plain HTTP on Linux goes over event loops: each reads many connections from one goroutine,
// with epoll and a reader of HTTP/1.1 of its own. Everything else (https, proxies, other
// systems) goes over a pool with a goroutine for each request in flight. Both send the same
// bytes and read answers with package answer, so that a load has the same outcomes with either.
//
// An event arrives when the kernel receives its last byte, so that neither a busy client nor one
// that rests between two looks adds to a latency. Where the kernel does not say (the pool, TLS, a
// system without SO_TIMESTAMPNS), it arrives when it is read. Events that are read together have
// one time. [Stats] says how late the times may be.
//
// BenchmarkSender on two idle cores, against a server in another process that sends a token
// every 20 ms: the event loop completes 1.2 to 1.4 times the requests per CPU second of net/http
// with a goroutine for each stream and the same reader of answers, 1.2 to 1.4 times those of the
// pool, and 1.5 times those of net/http with bufio and encoding/json. The 99th percentile of the
// gaps that it measures is 21 ms, that of net/http 22 ms.
//
// Example:
//
//	snd, err := sender.Open(ctx, &sender.Target{URL: u, Header: h, Streams: 64})
//	…
//	defer snd.Close()
//	stats := snd.Run(ctx, &sender.Load{Requests: r, Outcomes: outcomes, Limit: 64, Clock: clock})
package sender

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// requestLimit is how long one request may last, as in vLLM's client.
const requestLimit = 6 * time.Hour

var errLasted = fmt.Errorf("the answer did not end within %s", requestLimit)

// Requests are what a load sends. Their methods are safe for concurrent use.
type Requests interface {
	// Body appends the body of request i to dst.
	Body(dst []byte, i int) []byte
	// ID returns the x-request-id of request i, or "".
	ID(i int) string
	// Tokens returns the tokens of the prompt of request i and those that it asks for. bounded
	// says that an answer with more is an error.
	Tokens(i int) (prompt, answer int, bounded bool)
}

// A Load is a number of requests, each with the time at which it is due.
type Load struct {
	Requests Requests
	Outcomes []answer.Outcome // one per request; Due is set, the sender fills in the rest
	Limit    int              // most requests in flight
	KeepText bool             // keep the texts of the answers
	Clock    func() int64     // ns since a fixed instant; goes back only where a simulated clock is set
	Ended    Ends

	// Follow makes requests wait for others, unless it is nil: only the first Heads requests are
	// sent on the schedule. When a request has ended at that time, Follow names the one that
	// follows it, and when that is due; below 0 is none. The request that follows takes the place of
	// the one before, which nothing else gets until then. Follow is called by one goroutine for all
	// requests of one chain.
	Follow func(i int, at int64) (next int, due int64)
	Heads  int

	// Mine says which requests on the schedule this client sends, if others send the rest; nil is
	// all.
	Mine func(i int) bool

	slack int64 // 0 is [closeSlack]
}

// Ends counts the requests that have ended, and knows when the last of them did.
type Ends struct {
	N    atomic.Int64
	Last atomic.Int64 // a reading of the clock
}

// Add counts n more, of which the last ended at that time.
func (e *Ends) Add(n, at int64) {
	for last := e.Last.Load(); at > last && !e.Last.CompareAndSwap(last, at); last = e.Last.Load() {
	}
	e.N.Add(n)
}

// Scheduled returns how many requests are sent on the schedule, the first ones.
func (l *Load) Scheduled() int {
	if l.Follow == nil {
		return len(l.Outcomes)
	}
	return l.Heads
}

// mine returns the first request on the schedule, from i on, that this client sends.
func (l *Load) mine(i int) int {
	for l.Mine != nil && i < l.Scheduled() && !l.Mine(i) {
		i++
	}
	return i
}

// follower returns the request that follows request i, which ended at that time; below 0 is none.
func (l *Load) follower(i int, at int64) int {
	if l.Follow == nil {
		return -1
	}
	next, due := l.Follow(i, at)
	if next >= 0 {
		l.Outcomes[next].Due = due
	}
	return next
}

// closeSlack returns [closeSlack], or what a test sets in its place.
func (l *Load) closeSlack() int64 { return cmp.Or(l.slack, closeSlack) }

// wanted returns how the answer to request i is read.
func (l *Load) wanted(i int, form answer.Form) answer.Wanted {
	w := answer.Wanted{Form: form, Text: l.KeepText}
	if _, n, bounded := l.Requests.Tokens(i); bounded {
		w.Tokens = n
	}
	return w
}

// tokenRoom bounds the room for token times that is set aside before a request is sent.
const tokenRoom = 4096

// prepare readies the outcome of request i for its answer.
func (l *Load) prepare(i int) *answer.Outcome {
	prompt, asked, _ := l.Requests.Tokens(i)
	o := &l.Outcomes[i]
	o.State, o.Input = answer.InFlight, prompt
	if o.Tokens == nil {
		o.Tokens = make([]int64, 0, min(asked+1, tokenRoom)) // chat servers send one event more than tokens
	}
	o.Tokens = o.Tokens[:0]
	return o
}

// A Sender sends the requests of a load when they are due and measures the answers.
type Sender interface {
	// Connect opens connections so that the first n requests find one.
	Connect(ctx context.Context, n int, clock func() int64)
	// Run returns when every request has ended or ctx is done. Requests in flight are then
	// interrupted.
	Run(ctx context.Context, load *Load) Stats
	// Close closes all connections.
	Close()
}

// Stats says how the client itself fared during a run.
type Stats struct {
	Kind  string // epoll or goroutines
	Lag   Spread // ns by which the time of each event may be late; of a pool, how late sleepers wake
	Loops int    // threads that send and read
}

// Add adds what another client did at the same time.
func (c *Stats) Add(other *Stats) {
	c.Kind, c.Loops = other.Kind, c.Loops+other.Loops
	c.Lag.merge(&other.Lag)
}

// streamsPerLoop is how many streams one event loop reads before another one helps. One core
// keeps up with about three times as many at 50 tokens/s each.
const streamsPerLoop = 2048

// A Target is where requests go, and how.
type Target struct {
	URL      *url.URL
	Via      *url.URL // an HTTP proxy; nil is none
	Header   http.Header
	Insecure bool // take any certificate
	Form     answer.Form
	Streams  int // most requests in flight

	ByReading  bool // events arrive when they are read, as other programs have it
	PerLoop    int  // streams that one event loop reads before another one helps; 0 is [streamsPerLoop]
	Goroutines bool // send each request from a goroutine, even where there is an event loop
}

// Open returns the event loop for plain HTTP where there is one, else a goroutine for each request.
func Open(ctx context.Context, t *Target) (Sender, error) {
	if t.URL.Scheme == "http" && t.Via == nil && HaveLoop && !t.Goroutines {
		return newLoops(ctx, t)
	}
	return newPool(t), nil
}

const (
	// ConnectLimit is how long a connection may take to open.
	ConnectLimit = 30 * time.Second
	// IdleLimit is how long a connection may lie idle. vLLM's server closes them after 5 s
	// (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); an older one might be gone by the time a request is sent.
	IdleLimit = 4 * time.Second
)

// Part returns part k of n of a total.
func Part(total, k, n int) int { return total/n + min(max(total%n-k, 0), 1) }

// A feeder hands out the requests of a load in order.
type feeder struct {
	load *Load
	next atomic.Int64
}

func newFeeder(l *Load) *feeder {
	f := &feeder{load: l}
	f.next.Store(int64(l.mine(0)))
	return f
}

// take returns the next request if it is due at now. Otherwise i is -1 and wait is when to ask
// again, the largest integer if no request is left. It is safe for concurrent use.
func (f *feeder) take(now int64) (i int, wait int64) {
	l := f.load
	for {
		n := f.next.Load()
		if n >= int64(l.Scheduled()) {
			return -1, math.MaxInt64
		}
		if due := l.Outcomes[n].Due; due > now {
			return -1, due
		}
		if f.next.CompareAndSwap(n, int64(l.mine(int(n)+1))) {
			return int(n), 0
		}
	}
}
