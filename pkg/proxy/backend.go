package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	prefillRole = "prefill"
	decodeRole  = "decode"
	serverRole  = "serve" // of an instance that computes prompts itself

	pollEvery   = time.Second
	pollSoon    = 100 * time.Millisecond // until it was healthy once
	pollTimeout = 5 * time.Second

	// maxLate is how many polls in a row may stay without an answer: an engine
	// under load can be silent for longer than a poll waits, and leaving it out
	// for that would shift its load to the others in the middle of a benchmark.
	maxLate = 3

	maxHealth = 1 << 20 // bytes that are read of an answer to /health
)

// A health is what is known of an instance. Unknown ones are used, since a
// proxy may serve before its first poll.
type health int

const (
	unknown health = iota
	healthy
	unhealthy
)

// A backend is one engine instance.
type backend struct {
	*upstream
	role   string
	url    string                 // as given, without a trailing slash
	state  atomic.Pointer[string] // why it cannot be used, "" if it can, nil if that is unknown
	began  atomic.Bool            // it was healthy once
	busy   int                    // requests in flight, guarded by the pool
	late   atomic.Int32           // polls without an answer, in a row
	counts backendCounts
}

func newBackend(role, base string, p *Proxy) (*backend, error) {
	base = strings.TrimRight(base, "/")
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s instance: %w", role, err)
	case u.Scheme != "http":
		return nil, fmt.Errorf("%s instance %q: want an http:// URL", role, base)
	case u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s instance %q: want http://host:port and at most a path", role, base)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	up := &upstream{addr: net.JoinHostPort(u.Hostname(), port), prefix: u.EscapedPath(), via: p.via,
		dial: p.o.DialTimeout, head: int(p.o.MaxHead)}
	return &backend{upstream: up, role: role, url: base}, nil
}

func (b *backend) String() string { return b.role + " " + b.url }

// labels are the Prometheus labels of the backend.
func (b *backend) labels() string { return fmt.Sprintf(`role=%q,backend=%q`, b.role, b.url) }

// saw records whether the backend could be used: err is nil, or why not.
func (b *backend) saw(err error) {
	switch {
	case err != nil:
		reason := err.Error()
		b.state.Store(&reason)
	case !b.is(healthy):
		b.state.Store(new(string))
		b.began.Store(true)
	}
}

// health is what is known of the backend, and why it is unhealthy.
func (b *backend) health() (h health, reason string) {
	switch state := b.state.Load(); {
	case state == nil:
		return unknown, ""
	case *state == "":
		return healthy, ""
	default:
		return unhealthy, *state
	}
}

func (b *backend) is(h health) bool {
	now, _ := b.health()
	return now == h
}

// poll asks the backend for its health and records the answer.
func (b *backend) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, errors.New("no answer to /health"))
	defer cancel()
	b.prune(false)
	err := b.ask(ctx)
	if ctx.Err() == context.Canceled {
		return // the proxy ends: nothing is known
	}
	b.polled(err, ctx.Err() != nil)
}

// polled records a poll's outcome; late says that there was no answer in time.
func (b *backend) polled(err error, late bool) {
	if !late {
		b.late.Store(0)
	} else if b.late.Add(1) < maxLate && b.is(healthy) {
		return
	}
	b.saw(err)
}

func (b *backend) ask(ctx context.Context) error {
	q := request{method: http.MethodGet, uri: "/health", id: "profllm-proxy-health"}
	a, err := b.send(ctx, q.method, b.appendRequest(nil, q, nil), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(a, maxHealth))
	a.finish()
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("/health answers %s", a.Status)
	}
	return err
}

// A pool is the instances of one role.
type pool struct {
	all []*backend

	mu   sync.Mutex
	next int // where the search starts, so that ties go round
}

func newPool(role string, urls []string, of *Proxy) (*pool, error) {
	if len(urls) == 0 {
		return nil, fmt.Errorf("no %s instance given", role)
	}
	p := &pool{}
	for _, u := range urls {
		b, err := newBackend(role, u, of)
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, b)
	}
	return p, nil
}

// pick takes the instance with the fewest requests in flight among those not
// known to be unhealthy; ties go round. Requests differ in length, so counting
// turns alone would let the longest ones pile up on one instance. When every
// instance is unhealthy it picks among all: trying says more than refusing.
// The caller gives the instance back with done.
func (p *pool) pick() *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for _, any := range []bool{false, true} {
		for n := range p.all {
			i := (p.next + n) % len(p.all)
			if !any && p.all[i].is(unhealthy) {
				continue
			}
			if best < 0 || p.all[i].busy < p.all[best].busy {
				best = i
			}
		}
		if best >= 0 {
			break
		}
	}
	p.next = (best + 1) % len(p.all)
	p.all[best].busy++
	return p.all[best]
}

func (p *pool) done(b *backend) {
	p.mu.Lock()
	b.busy--
	p.mu.Unlock()
}

func (p *pool) busy(b *backend) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.busy
}

// begun reports whether every instance was healthy once.
func (p *pool) begun() bool {
	return !slices.ContainsFunc(p.all, func(b *backend) bool { return !b.began.Load() })
}

func (p *pool) healthy() bool {
	for _, b := range p.all {
		if b.is(healthy) {
			return true
		}
	}
	return false
}
