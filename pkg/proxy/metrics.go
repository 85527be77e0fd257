package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// A route is a class of requests in the metrics.
type route int

const (
	completions route = iota
	chat
	control
	otherPost
	otherGet
	otherMethod
	routes
)

// routeLabels are the Prometheus labels of each route.
var routeLabels = [routes]string{
	completions: `method="POST",path="/v1/completions"`,
	chat:        `method="POST",path="/v1/chat/completions"`,
	control:     `method="any",path="control"`,
	otherPost:   `method="POST",path="other"`,
	otherGet:    `method="GET",path="other"`,
	otherMethod: `method="other",path="other"`,
}

func routeOf(r *http.Request) route {
	switch {
	case isControl(r.URL.Path):
		return control
	case r.Method == http.MethodGet:
		return otherGet
	case r.Method != http.MethodPost:
		return otherMethod
	case r.URL.Path == "/v1/completions":
		return completions
	case r.URL.Path == "/v1/chat/completions":
		return chat
	}
	return otherPost
}

// statusClientGone is nginx's code for a client that left before its answer.
const statusClientGone = 499

// statuses counts by HTTP status; what is outside 100-599 is counted at 0.
type statuses [600]atomic.Int64

func (s *statuses) add(status int) {
	if status < 100 || status >= len(s) {
		status = 0
	}
	s[status].Add(1)
}

// A reason is why a backend gave no whole or no good answer.
type reason int

const (
	noConnection reason = iota
	writeFailed         // the request could not be written
	closedEarly         // the connection ended before any byte of an answer, or within its head
	badAnswer           // not HTTP/1.1, or ambiguous
	tooLarge            // a head, or an answer that the proxy reads itself
	brokeOff            // the body did not finish
	timedOut            // by the proxy's own limit
	badBody             // status 200 with an error inside, or without what it must hold
	unfinished          // an event stream without its last event
	reasons
)

var reasonLabels = [reasons]string{
	noConnection: "no-connection", writeFailed: "write-failed", closedEarly: "closed", badAnswer: "bad-answer",
	tooLarge: "too-large",
	brokeOff: "broke-off", timedOut: "timeout", badBody: "bad-body", unfinished: "unfinished",
}

func (r reason) String() string { return reasonLabels[r] }

type backendCounts struct {
	answers  statuses              // by the backend's status
	errors   atomic.Int64          // no whole answer, or one that the proxy cannot use
	failures [reasons]atomic.Int64 // the same, and successes passed on that are none, by reason
	resends  [reasons]atomic.Int64
}

// counts are the proxy's own metrics.
type counts struct {
	requests  [routes]statuses
	inFlight  atomic.Int64
	received  atomic.Int64 // request body bytes from clients
	sent      atomic.Int64 // answer body bytes to clients
	broken    atomic.Int64
	bad       atomic.Int64
	gone      atomic.Int64
	withoutKV atomic.Int64
	prefill   histogram
	overhead  histogram
}

// bounds are the histograms' upper bounds in seconds: 50 us to 3 minutes.
var bounds = [...]float64{
	.00005, .0001, .0002, .0005, .001, .002, .003, .005, .01, .02, .05,
	.1, .2, .5, 1, 2, 5, 10, 20, 60, 180,
}

type histogram struct {
	buckets [len(bounds) + 1]atomic.Int64
	nanos   atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for s := d.Seconds(); i < len(bounds) && s > bounds[i]; i++ {
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(d))
}

// exposition writes Prometheus text, format 0.0.4.
type exposition struct{ bytes.Buffer }

func (e *exposition) head(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) one(name, kind, help string, v float64) {
	e.head(name, kind, help)
	e.sample(name, "", v)
}

func (e *exposition) sample(name, labels string, v float64) {
	e.WriteString(name)
	if labels != "" {
		e.WriteString("{" + labels + "}")
	}
	e.WriteByte(' ')
	e.Write(strconv.AppendFloat(e.AvailableBuffer(), v, 'g', -1, 64))
	e.WriteByte('\n')
}

func (e *exposition) histogram(name, help string, h *histogram) {
	e.head(name, "histogram", help)
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		bound := math.Inf(1)
		if i < len(bounds) {
			bound = bounds[i]
		}
		le := strconv.FormatFloat(bound, 'g', -1, 64)
		e.sample(name+"_bucket", `le="`+le+`"`, float64(total))
	}
	e.sample(name+"_sum", "", time.Duration(h.nanos.Load()).Seconds())
	e.sample(name+"_count", "", float64(total))
}

func (p *Proxy) serveMetrics(w http.ResponseWriter) {
	e := &exposition{}
	e.head("profllm_proxy_requests_total", "counter",
		"Requests answered, by the status the client saw; 499: the client left first.")
	for r := range routes {
		for status := range p.counts.requests[r] {
			if n := p.counts.requests[r][status].Load(); n > 0 {
				e.sample("profllm_proxy_requests_total", fmt.Sprintf(`%s,status="%d"`, routeLabels[r], status),
					float64(n))
			}
		}
	}
	p.writeBackends(e)
	c := &p.counts
	e.one("profllm_proxy_in_flight", "gauge", "Requests inside the proxy.", float64(c.inFlight.Load()))
	e.one("profllm_proxy_broken_streams_total", "counter",
		"Answers that broke off after their first byte; the client's connection was cut.", float64(c.broken.Load()))
	e.one("profllm_proxy_bad_answers_total", "counter",
		"Answers of status 200 that were passed on and hold an error, or are an event stream without its end.",
		float64(c.bad.Load()))
	e.one("profllm_proxy_client_gone_total", "counter", "Requests whose client left before the end of its answer.",
		float64(c.gone.Load()))
	e.one("profllm_proxy_without_kv_total", "counter",
		"Requests for which prefill answered no kv_transfer_params: decode computed the prompt itself.",
		float64(c.withoutKV.Load()))
	e.one("profllm_proxy_bodies_bytes", "gauge",
		"Bytes of bodies in memory, of --max-bodies: of requests, and of answers of prefill and to controls.",
		float64(p.room.used.Load()))
	e.one("profllm_proxy_request_bytes_total", "counter", "Bytes of request bodies received from clients.",
		float64(c.received.Load()))
	e.one("profllm_proxy_response_bytes_total", "counter", "Bytes of answer bodies sent to clients.",
		float64(c.sent.Load()))
	e.histogram("profllm_proxy_prefill_seconds", "Seconds from sending a request to prefill to the end of its answer.",
		&c.prefill)
	e.histogram("profllm_proxy_overhead_seconds",
		"Seconds from a request's head to the first byte of its answer that were not spent waiting for a backend.",
		&c.overhead)
	e.one("profllm_proxy_cpu_seconds_total", "counter", "CPU seconds of the process, user and system.", cpuSeconds())
	e.one("profllm_proxy_start_time_seconds", "gauge", "Unix time at which the proxy started.",
		float64(p.started.UnixMilli())/1e3)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(e.Len()))
	io.Copy(w, e)
}

func (p *Proxy) writeBackends(e *exposition) {
	e.head("profllm_proxy_backend_requests_total", "counter",
		`Requests sent to a backend, by its status; status="error": no whole answer, or an unusable one.`)
	p.eachBackend(func(b *backend) {
		labels := b.labels()
		for status := range b.counts.answers {
			if n := b.counts.answers[status].Load(); n > 0 {
				e.sample("profllm_proxy_backend_requests_total", fmt.Sprintf(`%s,status="%d"`, labels, status),
					float64(n))
			}
		}
		e.sample("profllm_proxy_backend_requests_total", labels+`,status="error"`, float64(b.counts.errors.Load()))
	})
	p.writeReasons(e, "profllm_proxy_backend_failures_total",
		"Requests to which a backend gave no whole or no good answer, by reason.",
		func(c *backendCounts) *[reasons]atomic.Int64 { return &c.failures })
	p.writeReasons(e, "profllm_proxy_backend_resends_total",
		"Requests sent a second time, because the kept connection had been closed before they arrived.",
		func(c *backendCounts) *[reasons]atomic.Int64 { return &c.resends })
	e.head("profllm_proxy_backend_in_flight", "gauge", "Requests that a backend is working on.")
	for _, in := range p.pools() {
		for _, b := range in.all {
			e.sample("profllm_proxy_backend_in_flight", b.labels(), float64(in.busy(b)))
		}
	}
	e.head("profllm_proxy_backend_healthy", "gauge", "1 when the last poll or request reached the backend, else 0.")
	p.eachBackend(func(b *backend) {
		v := 0.0
		if b.is(healthy) {
			v = 1
		}
		e.sample("profllm_proxy_backend_healthy", b.labels(), v)
	})
}

func (p *Proxy) writeReasons(e *exposition, name, help string, of func(*backendCounts) *[reasons]atomic.Int64) {
	e.head(name, "counter", help)
	p.eachBackend(func(b *backend) {
		list := of(&b.counts)
		for r := range reasons {
			if n := list[r].Load(); n > 0 {
				e.sample(name, fmt.Sprintf(`%s,reason=%q`, b.labels(), r), float64(n))
			}
		}
	})
}

func (p *Proxy) pools() []*pool {
	if p.prefill == nil {
		return []*pool{p.decode}
	}
	return []*pool{p.prefill, p.decode}
}

func (p *Proxy) eachBackend(do func(b *backend)) {
	for _, in := range p.pools() {
		for _, b := range in.all {
			do(b)
		}
	}
}

// cpuSeconds is the user and system time of this process.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
