// Package proxy is the prefill/decode proxy: it stands in front of engines that
// keep prefill and decode apart and moves each request through both, in vLLM's
// NIXL protocol.
//
// A completion goes to a prefill instance first, shortened to one token; the
// kv_transfer_params of the answer say where its KV blocks lie. The client's
// own request, with those, then goes to a decode instance, which fetches the
// blocks and answers; the answer is streamed to the client byte for byte, in
// whole events. Both requests carry one X-Request-Id. Everything else (models,
// version, tokenize, ...) is forwarded to a decode instance, but for what belongs
// to every engine (profilers, caches, sleep, weights: controls), which goes to all
// instances of both roles. In front of servers that do not keep prefill and decode
// apart (Options.Servers), a completion is forwarded unchanged as well.
//
// It is not a load balancer for production: nothing is retried on another
// instance and nothing is queued, because a benchmark must see what failed. A
// request is sent to the same instance again only if the kernel shows that no
// byte of it arrived; each such request is counted. The proxy speaks plain HTTP/1.1 to its
// backends and pairs no requests but OpenAI's completions.
//
//	p, err := proxy.New(proxy.Options{
//		Prefill: []string{"http://node1:8100"},
//		Decode:  []string{"http://node2:8200", "http://node3:8200"},
//	})
//	...
//	err = p.Serve(ctx, listener)
package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/httpserve"
)

// Options configure a Proxy. Prefill and Decode are required, or Servers alone.
type Options struct {
	// Prefill and Decode are the instances' base URLs, http://host:port with an
	// optional path in front of every request.
	Prefill, Decode []string
	// Servers are the base URLs of servers that compute prompts themselves: a request
	// goes to one of them, unchanged.
	Servers []string
	// Timeout limits a whole request, the answer's last byte included. Zero
	// means no limit: a queue of long prompts may take minutes.
	Timeout time.Duration
	// DialTimeout limits connecting to a backend. Zero means 5 s.
	DialTimeout time.Duration
	// Grace is how long Serve lets streams run on after its context ended.
	// Zero means 10 s.
	Grace time.Duration
	// MaxBody limits a request's body. Zero means 256 MiB.
	MaxBody Bytes
	// MaxBodies limits all bodies in memory: of requests, and of the answers that the proxy
	// reads itself (prefill's, and those to controls). A request that finds no room is answered
	// with 503. Zero means
	// 2 GiB, or MaxBody if that is more.
	MaxBodies Bytes
	// MaxAnswer limits prefill's answer, which holds the prompt's log
	// probabilities if they were asked for. Zero means 64 MiB.
	MaxAnswer Bytes
	// MaxHead limits the head of an answer, and of a request; each connection to
	// an instance has a buffer of that size. Zero means 16 KiB.
	MaxHead Bytes
	// Logger gets a line per failed request, per request that is sent again and
	// per change of an instance's health. Nil logs nothing.
	Logger *slog.Logger
}

// A Proxy moves requests through a prefill and a decode instance. It is an
// http.Handler and safe for concurrent use.
type Proxy struct {
	prefill *pool // nil before servers that compute prompts themselves
	decode  *pool // or those servers
	o       Options
	log     *slog.Logger
	started time.Time
	via     string // this process in a Via header
	counts  counts
	room    room
	serving atomic.Bool // Serve polls in the background

	polls struct { // when Serve does not
		sync.Mutex
		last time.Time
	}
}

// New returns a proxy over the given instances. It connects to none of them.
func New(o Options) (*Proxy, error) {
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 256<<20)
	o.MaxBodies = cmp.Or(o.MaxBodies, max(2<<30, o.MaxBody))
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 64<<20)
	o.MaxHead = cmp.Or(o.MaxHead, defaultHead)
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Proxy{o: o, log: o.Logger, started: time.Now(), via: "profllm-" + randomID(),
		room: room{limit: int64(o.MaxBodies)}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err, err2 error
	if len(o.Servers) > 0 {
		if p.decode, err = newPool(serverRole, o.Servers, p); err != nil {
			return nil, err
		}
		return p, nil
	}
	p.prefill, err = newPool(prefillRole, o.Prefill, p)
	p.decode, err2 = newPool(decodeRole, o.Decode, p)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return p, nil
}

// Serve answers on l until ctx ends, polling the instances' health each second.
// Then it accepts no more, lets running requests end within the grace period,
// and cuts the rest, which it reports as an error. It closes l and the idle
// connections to the instances.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	var polls sync.WaitGroup
	pollCtx, endPolls := context.WithCancel(context.WithoutCancel(ctx))
	p.serving.Store(true)
	p.eachBackend(func(b *backend) {
		polls.Go(func() { p.watch(pollCtx, b) })
	})
	defer func() {
		endPolls()
		polls.Wait()
		p.serving.Store(false)
		p.Close()
	}()

	srv := &http.Server{
		Handler:  p,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),

		ReadHeaderTimeout: headTime,
		MaxHeaderBytes:    int(p.o.MaxHead),
	}
	err := httpserve.Until(ctx, srv, l, p.o.Grace)
	if errors.As(err, new(*httpserve.CutError)) {
		err = fmt.Errorf("stop proxy: %w", err)
	}
	return err
}

// headTime is how long a client may take to send a request's head.
const headTime = time.Minute

// check complains about limits that cannot be.
func (o Options) check() error {
	switch {
	case len(o.Servers) > 0 && len(o.Prefill)+len(o.Decode) > 0:
		return errors.New("servers that compute prompts themselves go with no prefill and no decode instance")
	case o.MaxBody < 0 || o.MaxBodies < 0 || o.MaxAnswer < 0 || o.MaxHead < 0:
		return errors.New("a limit of the proxy is negative")
	case o.MaxBodies < o.MaxBody:
		return fmt.Errorf("all bodies may have %d bytes and one of them %d: want max-bodies to be at least max-body",
			o.MaxBodies, o.MaxBody)
	case o.MaxHead < 1<<10 || o.MaxHead > 16<<20:
		return fmt.Errorf("max-head is %d bytes: want 1KiB to 16MiB", o.MaxHead)
	}
	return nil
}

// Close closes the idle connections to the instances. Serve does so itself; it
// is for a Proxy used as a handler.
func (p *Proxy) Close() error {
	p.eachBackend(func(b *backend) { b.prune(true) })
	return nil
}

// watch polls b until ctx ends and logs when its health changes.
func (p *Proxy) watch(ctx context.Context, b *backend) {
	was := unknown
	for {
		b.poll(ctx)
		if now, reason := b.health(); now != was {
			was = now
			if now == healthy {
				p.log.Info("instance is healthy", "role", b.role, "url", b.url)
			} else if now == unhealthy {
				p.log.Warn("instance is not healthy", "role", b.role, "url", b.url, "reason", reason)
			}
		}
		pause := pollEvery
		if !b.began.Load() {
			pause = pollSoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// refresh polls every instance unless Serve does so or it was done just now.
func (p *Proxy) refresh(ctx context.Context) {
	if p.serving.Load() {
		return
	}
	p.polls.Lock()
	defer p.polls.Unlock()
	if time.Since(p.polls.last) < pollEvery {
		return
	}
	var polls sync.WaitGroup
	p.eachBackend(func(b *backend) {
		polls.Go(func() { b.poll(ctx) })
	})
	polls.Wait()
	p.polls.last = time.Now()
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && !p.sent(r) {
		switch r.URL.Path {
		case "/health", "/healthcheck", "/readiness": // SGLang's router calls it so
			p.serveHealth(w, r)
			return
		case "/metrics":
			p.serveMetrics(w)
			return
		}
	}
	p.counts.inFlight.Add(1)
	defer p.counts.inFlight.Add(-1)
	ctx := r.Context()
	if p.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.o.Timeout, errTimeout)
		defer cancel()
	}
	x := &exchange{p: p, w: w, r: r, ctx: ctx, route: routeOf(r), start: time.Now(), id: requestID(r)}
	if p.o.Timeout > 0 {
		// Where the server can: a client that does not read must not hold an engine.
		client := http.NewResponseController(w)
		client.SetWriteDeadline(x.start.Add(p.o.Timeout))
		defer client.SetWriteDeadline(time.Time{})
	}
	x.serve()
}

// sent reports whether this proxy itself sent r, perhaps through others.
func (p *Proxy) sent(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Via"], func(v string) bool { return strings.Contains(v, p.via) })
}

// instanceJSON is one instance in the answer of /health.
type instanceJSON struct {
	URL      string `json:"url"`
	Healthy  bool   `json:"healthy"`
	Reason   string `json:"reason,omitempty"` // why it is not
	InFlight int    `json:"in_flight"`
}

// serveHealth answers 200 when at least one instance of each role is healthy,
// else 503, with every instance's state. It is 503 until all of them were healthy
// once: a load that begins earlier would go past those that are not known to be up.
func (p *Proxy) serveHealth(w http.ResponseWriter, r *http.Request) {
	p.refresh(r.Context())
	body := struct {
		Status  string         `json:"status"` // ok, starting or unavailable
		Prefill []instanceJSON `json:"prefill,omitempty"`
		Decode  []instanceJSON `json:"decode,omitempty"`
		Servers []instanceJSON `json:"servers,omitempty"`
	}{}
	if p.prefill == nil {
		body.Servers = p.decode.describe()
	} else {
		body.Prefill, body.Decode = p.prefill.describe(), p.decode.describe()
	}
	status := http.StatusServiceUnavailable
	switch {
	case slices.ContainsFunc(p.pools(), func(in *pool) bool { return !in.begun() }):
		body.Status = "starting"
	case slices.ContainsFunc(p.pools(), func(in *pool) bool { return !in.healthy() }):
		body.Status = "unavailable"
	default:
		body.Status, status = "ok", http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func (p *pool) describe() []instanceJSON {
	var list []instanceJSON
	for _, b := range p.all {
		state, reason := b.health()
		if state == unknown {
			reason = "not asked yet"
		}
		list = append(list, instanceJSON{URL: b.url, Healthy: state == healthy, Reason: reason, InFlight: p.busy(b)})
	}
	return list
}
