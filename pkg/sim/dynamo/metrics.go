package dynamo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// metric writes one sample with its header.
func metric(b *bytes.Buffer, name, kind, labels string, v float64) {
	head(b, name, kind)
	sample(b, name, labels, v)
}

func head(b *bytes.Buffer, name, kind string) {
	fmt.Fprintf(b, "# HELP %s Simulated by profllm.\n# TYPE %s %s\n", name, name, kind)
}

func sample(b *bytes.Buffer, name, labels string, v float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(b, "%s%s %s\n", name, labels, strconv.FormatFloat(v, 'f', -1, 64))
}

// outcome is what became of a request, as the frontend counts it.
type outcome struct {
	path, kind, status, failure string // kind: stream or unary
}

// totals are what a frontend counts. They are safe for concurrent use.
type totals struct {
	mu             sync.Mutex
	requests       map[outcome]int
	answered       int // requests that were answered by a worker
	prompt, cached int // tokens of these
	inflight       int
}

func (t *totals) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inflight++
}

// end counts a request; of one that a worker answered, the tokens of the prompt, as texts.
func (t *totals) end(o outcome, prompt, cached string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inflight--
	if t.requests == nil {
		t.requests = map[outcome]int{}
	}
	t.requests[o]++
	n, err := strconv.Atoi(prompt)
	if err != nil {
		return
	}
	found, _ := strconv.Atoi(cached) // beside the other
	t.answered, t.prompt, t.cached = t.answered+1, t.prompt+n, t.cached+found
}

// page is the frontend's page of counters.
func (t *totals) page(served []string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	const name = "dynamo_frontend_"
	model := fmt.Sprintf("model=%q", strings.Join(served, ","))
	head(&b, name+"requests_total", "counter")
	for _, o := range slices.SortedFunc(maps.Keys(t.requests), func(a, b outcome) int {
		return bytes.Compare(fmt.Append(nil, a), fmt.Append(nil, b))
	}) {
		labels := fmt.Sprintf("endpoint=%q,error_type=%q,%s,request_type=%q,status=%q", o.path, o.failure, model, o.kind,
			o.status)
		sample(&b, name+"requests_total", labels, float64(t.requests[o]))
	}
	metric(&b, name+"inflight_requests", "gauge", model, float64(t.inflight))
	for _, h := range []struct {
		name string
		sum  int
	}{{"input_sequence_tokens", t.prompt}, {"cached_tokens", t.cached}} {
		head(&b, name+h.name, "histogram")
		sample(&b, name+h.name+"_bucket", model+`,le="+Inf"`, float64(t.answered))
		sample(&b, name+h.name+"_sum", model, float64(h.sum))
		sample(&b, name+h.name+"_count", model, float64(t.answered))
	}
	return b.Bytes()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(data, '\n'))
}
