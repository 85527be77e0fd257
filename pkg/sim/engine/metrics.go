package engine

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// kind is how a family is exposed.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter" // exposed with the suffix _total, beside a gauge _created
	histogram kind = "histogram"
	summary   kind = "summary" // count and sum only
)

// A family is one metric of /metrics. Its series appear in the order they were first used.
type family struct {
	name    string
	kind    kind
	buckets []float64
	bare    bool // no _created beside it: what the process collector of the Python client does
	labels  [][]string
	order   []string
	series  map[string]*series
}

type series struct {
	labels  []string
	value   float64 // gauge, counter; sum of a histogram or summary
	count   uint64
	buckets []uint64 // not cumulative
	created float64
}

// registry holds the metrics of one process. It is safe for concurrent use.
type registry struct {
	mu       sync.Mutex
	now      func() time.Time
	families []*family
	byName   map[string]*family
}

func newRegistry(now func() time.Time, families []*family) *registry {
	r := &registry{now: now, families: families, byName: map[string]*family{}}
	for _, f := range families {
		f.series = map[string]*series{}
		r.byName[f.name] = f
		for _, l := range f.labels {
			r.at(f, l)
		}
	}
	return r
}

// restart makes the counters those of a process that has just begun. Gauges hold what
// is going on, and stay.
func (r *registry) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Seconds(r.now())
	for _, f := range r.families {
		for _, s := range f.series {
			if f.kind == gauge {
				continue
			}
			s.value, s.count, s.created = 0, 0, now
			clear(s.buckets)
		}
	}
	r.at(r.byName["process_start_time_seconds"], nil).value = now
}

// at returns the series with these labels, given as name, value, name, value. The caller holds mu.
func (r *registry) at(f *family, labels []string) *series {
	key := labelText(labels)
	s, ok := f.series[key]
	if !ok {
		s = &series{labels: labels, created: Seconds(r.now()), buckets: make([]uint64, len(f.buckets)+1)}
		f.series[key] = s
		f.order = append(f.order, key)
	}
	return s
}

// add moves a counter or gauge; an unknown name is a mistake of this package, found by its tests.
func (r *registry) add(name string, x float64, labels ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[name]
	r.at(f, r.full(f, labels)).value += x
}

// set gives a gauge its value.
func (r *registry) set(name string, x float64, labels ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[name]
	r.at(f, r.full(f, labels)).value = x
}

// observe adds one value to a histogram or summary.
func (r *registry) observe(name string, x float64, labels ...string) {
	r.observeN(name, x, 1, labels...)
}

func (r *registry) observeN(name string, x float64, n int, labels ...string) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[name]
	s := r.at(f, r.full(f, labels))
	s.value += x * float64(n)
	s.count += uint64(n)
	i, _ := slices.BinarySearch(f.buckets, x)
	s.buckets[i] += uint64(n)
}

// value reads a counter or gauge.
func (r *registry) value(name string, labels ...string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[name]
	return r.at(f, r.full(f, labels)).value
}

// full puts labels beside those that every series of the family carries; the result is sorted
// by label name.
func (r *registry) full(f *family, labels []string) []string {
	if len(f.labels) == 0 || len(f.labels[0]) == 0 {
		return labels
	}
	if len(labels) == 0 {
		return f.labels[0]
	}
	for _, l := range f.labels { // the few fixed label sets of the family
		if contains(l, labels) {
			return l
		}
	}
	return labels
}

func contains(set, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		at := slices.Index(set, pairs[i])
		if at < 0 || set[at+1] != pairs[i+1] {
			return false
		}
	}
	return true
}

func labelText(labels []string) string {
	var b []byte
	for i := 0; i+1 < len(labels); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%s=%q", labels[i], labels[i+1])
	}
	return string(b)
}

// writeTo writes the Prometheus text format, version 1.0.0, as the Python client does.
func (r *registry) writeTo(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	for _, f := range r.families {
		f.write(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (f *family) write(b *bytes.Buffer) {
	name := f.name
	if f.kind == counter {
		name += "_total"
	}
	header(b, name, f.kind)
	for _, labels := range f.order {
		s := f.series[labels]
		switch f.kind {
		case gauge, counter:
			sample(b, name, labels, s.value)
		case histogram:
			f.writeBuckets(b, s)
			fallthrough
		case summary:
			sample(b, f.name+"_count", labels, float64(s.count))
			sample(b, f.name+"_sum", labels, s.value)
		}
	}
	if f.kind == gauge || f.bare || len(f.order) == 0 {
		return
	}
	header(b, f.name+"_created", gauge)
	for _, labels := range f.order {
		sample(b, f.name+"_created", labels, f.series[labels].created)
	}
}

func (f *family) writeBuckets(b *bytes.Buffer, s *series) {
	var sum uint64
	for i, n := range s.buckets {
		sum += n
		le := "+Inf"
		if i < len(f.buckets) {
			le = number(f.buckets[i])
		}
		sample(b, f.name+"_bucket", labelText(insertLabel(s.labels, "le", le)), float64(sum))
	}
}

func header(b *bytes.Buffer, name string, k kind) {
	fmt.Fprintf(b, "# HELP %s Simulated by profllm.\n# TYPE %s %s\n", name, name, k)
}

func sample(b *bytes.Buffer, name, labels string, x float64) {
	b.WriteString(name)
	if labels != "" {
		b.WriteString("{" + labels + "}")
	}
	b.WriteString(" " + number(x) + "\n")
}

// number formats x as Python's repr does for the values that occur: 1.0, 0.25, 1.795e+09.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e6 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func Seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
