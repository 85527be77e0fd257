package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/query"
)

// counts are those of the requests that were answered.
type counts struct {
	mu       sync.Mutex
	requests map[route]*timing
	inFlight int
}

type route struct {
	pattern string // of the mux, so that there are few
	status  int
}

type timing struct {
	n       int64
	seconds float64
}

// counted keeps the number and the time of requests.
func (d *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		d.counts.add(1)
		d.patience(w, r)
		defer func() {
			d.counts.add(-1)
			d.counts.took(route{r.Pattern, seen.status}, time.Since(began))
			if fault := recover(); fault != nil {
				if fault != http.ErrAbortHandler {
					d.opts.Log("fault in %s %s: %v\n%s", r.Method, r.URL.Path, fault, debug.Stack())
				}
				panic(http.ErrAbortHandler) // the client sees a broken answer
			}
		}()
		next.ServeHTTP(seen, r)
	})
}

func (c *counts) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight += n
}

func (c *counts) took(r route, t time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = map[route]*timing{}
	}
	x := c.requests[r]
	if x == nil {
		x = &timing{}
		c.requests[r] = x
	}
	x.n++
	x.seconds += t.Seconds()
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what the writer can do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// addMetrics serves counts in Prometheus' text form.
func (d *Server) addMetrics() {
	d.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var b strings.Builder
		if got, err := d.store.Query(r.Context(), query.Query{}); err == nil {
			b.WriteString("# HELP profllm_dashboard_runs Runs in the store.\n# TYPE profllm_dashboard_runs gauge\n")
			fmt.Fprintf(&b, "profllm_dashboard_runs %d\n", got.Runs)
		}
		b.WriteString("# HELP profllm_dashboard_column_bytes Memory that the runs' columns take.\n" +
			"# TYPE profllm_dashboard_column_bytes gauge\n")
		fmt.Fprintf(&b, "profllm_dashboard_column_bytes %d\n", d.store.bytes())
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(heap)
		b.WriteString("# HELP profllm_dashboard_heap_bytes Memory that the server's objects take.\n" +
			"# TYPE profllm_dashboard_heap_bytes gauge\n")
		fmt.Fprintf(&b, "profllm_dashboard_heap_bytes %d\n", heap[0].Value.Uint64())
		d.counts.write(&b)
		_, _ = w.Write([]byte(b.String())) // the client is gone if this fails
	})
}

func (c *counts) write(b *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.WriteString("# HELP profllm_dashboard_requests_in_flight Requests under way.\n" +
		"# TYPE profllm_dashboard_requests_in_flight gauge\n")
	fmt.Fprintf(b, "profllm_dashboard_requests_in_flight %d\n", c.inFlight)
	b.WriteString("# HELP profllm_dashboard_request_seconds Time of requests that were answered.\n" +
		"# TYPE profllm_dashboard_request_seconds summary\n")
	for _, r := range slices.SortedFunc(maps.Keys(c.requests), func(a, b route) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}) {
		labels := fmt.Sprintf("{route=%q,status=\"%d\"}", r.pattern, r.status)
		fmt.Fprintf(b, "profllm_dashboard_request_seconds_sum%s %g\n", labels, c.requests[r].seconds)
		fmt.Fprintf(b, "profllm_dashboard_request_seconds_count%s %d\n", labels, c.requests[r].n)
	}
}
