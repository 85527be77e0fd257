package result

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A Part is what one parser read: some of a record's numbers, the details
// behind them, and complaints. Every field may be absent.
type Part struct {
	Benchmark Benchmark // what the client says it was asked
	Model     string
	Metrics   *Metrics
	Accuracy  *Accuracy
	Samples   *Samples
	Server    []ServerDelta
	Warnings  []Warning
	// Simulated says that the file is labelled so, wherever it is found.
	Simulated bool
	// UnknownKeys counts keys the parser has no place for, such as metadata.
	UnknownKeys int
}

// Samples are the requests behind the statistics, one entry per request in
// the order they were sent. A list may be absent; present ones have one length.
type Samples struct {
	TTFT      []float64   // s; 0 for a failed request
	ITL       [][]float64 // s; one list per request
	Latency   []float64   // s; 0 for a failed request
	Start     []float64   // s on the client's clock, arbitrary origin
	InputLen  []int
	OutputLen []int
	Errors    []string // "" for a success
}

// Failed reports whether request i is known to have failed.
func (s *Samples) Failed(i int) bool {
	switch {
	case i < len(s.Errors):
		return s.Errors[i] != ""
	case i < len(s.OutputLen):
		return s.OutputLen[i] == 0
	case i < len(s.Latency):
		return s.Latency[i] == 0
	}
	return false
}

// Gaps returns the number of ITL samples of successful requests; ok is false
// if the client did not save them.
func (s *Samples) Gaps() (n int, ok bool) {
	if s == nil || s.ITL == nil {
		return 0, false
	}
	for i, gaps := range s.ITL {
		if !s.Failed(i) {
			n += len(gaps)
		}
	}
	return n, true
}

// TotalLatency returns the summed latency of successful requests in s.
func (s *Samples) TotalLatency() (sum float64, ok bool) {
	if s == nil || len(s.Latency) == 0 {
		return 0, false
	}
	for i, x := range s.Latency {
		if !s.Failed(i) {
			sum += x
		}
	}
	return sum, true
}

// WarningKind sorts warnings for the checks that need to know.
type WarningKind string

// The kinds of warnings.
const (
	NotFinite   WarningKind = "not-finite"   // a measured value was NaN or infinite, and was left out
	NoNumber    WarningKind = "no-number"    // a measured value was no number of its kind, and was left out
	BadValue    WarningKind = "bad-value"    // another value of the wrong type was left out
	EmptySample WarningKind = "empty"        // statistics over nothing were left out
	Truncated   WarningKind = "truncated"    // the file ends inside a document
	Appended    WarningKind = "appended"     // several documents, the last one was taken
	Recovered   WarningKind = "from-log"     // read from console text
	OtherFile   WarningKind = "other-file"   // the named file was missing, another was taken
	Contradicts WarningKind = "contradicts"  // two keys for one thing differ
	Retokenized WarningKind = "retokenized"  // client and server counted other tokens of the same texts
	Incomplete  WarningKind = "incomplete"   // requests that a client gave up at the end of its window
	CutShort    WarningKind = "cut-short"    // the client says that it was ended before its load was over
	CheckFailed WarningKind = "check-failed" // a phase's log lacks the line that means success
	HookFailed  WarningKind = "hook-failed"  // a hook after the run, which says nothing about its numbers
	// the client ended without a result
	ClientFailed WarningKind = "client-failed"
	TraceFailed  WarningKind = "trace-failed"  // a server did not start or stop its profiler; Key is the role
	SecretInLog  WarningKind = "secret-in-log" // a process wrote a secret to a file of the run; it is overwritten
	NodeUnfit    WarningKind = "preflight"     // what a node looked like before the start; Key is node/check
	NodeUnclean  WarningKind = "leftover"      // what was found on a node after the end; Key is the node
	Lenient      WarningKind = "lenient"       // servers sent what the protocol does not have; it changes no number
	Unreadable   WarningKind = "unreadable"    // a file, or some of its lines, could not be read
)

// A Warning is something unusual in a file, with which the parser continued.
type Warning struct {
	Kind WarningKind `json:"kind"`
	File string      `json:"file"`
	Line int         `json:"line,omitempty" jsonschema:"1 for the first"`
	Col  int         `json:"col,omitempty" jsonschema:"in bytes, 1 for the first"`
	Key  string      `json:"key,omitempty"`
	Text string      `json:"text"`
}

// KV transfer counters of vLLM's NIXL connector (vllm v1/nixl/stats.py).
// Failures are counted on decode, expired requests on prefill.
const (
	nixlFailedTransfers     = "vllm:nixl_num_failed_transfers_total"
	nixlFailedNotifications = "vllm:nixl_num_failed_notifications_total"
	nixlExpired             = "vllm:nixl_num_kv_expired_reqs_total"
	nixlBytes               = "vllm:nixl_bytes_transferred_sum"
	nixlTransfers           = "vllm:nixl_bytes_transferred_count"
	nixlSeconds             = "vllm:nixl_xfer_time_seconds_sum"
)

// Merge adds a part to the record. A client's metrics replace those of an
// earlier part; what the record learnt elsewhere (GPUs, server counters) stays.
func (r *Result) Merge(p Part) {
	if p.Metrics != nil {
		m := *p.Metrics
		m.GPUs = cmp.Or(m.GPUs, r.Results.GPUs)
		m.Server = slices.Concat(r.Results.Server, m.Server)
		m.KVTransfer = cmp.Or(m.KVTransfer, r.Results.KVTransfer)
		m.Load = cmp.Or(m.Load, r.Results.Load)
		m.Proxy = cmp.Or(m.Proxy, r.Results.Proxy)
		m.Routing = cmp.Or(m.Routing, r.Results.Routing)
		r.Results = m
	}
	if p.Accuracy != nil {
		r.Accuracy = p.Accuracy
	}
	if len(p.Server) > 0 {
		r.Results.Server = slices.Concat(r.Results.Server, p.Server)
		r.Results.KVTransfer = KVTransferOf(r.Results.Server)
	}
	if r.Simulated = r.Simulated || p.Simulated; r.Simulated && r.Provenance != nil {
		r.Provenance.Simulated = true
	}
	r.Config.Benchmark.fill(p.Benchmark)
	r.Warnings = append(r.Warnings, p.Warnings...)
	r.Derive()
}

// fill takes from the client what the plan did not say.
func (b *Benchmark) fill(from Benchmark) {
	b.Kind = cmp.Or(b.Kind, from.Kind)
	b.DatasetName = cmp.Or(b.DatasetName, from.DatasetName)
	b.NumPrompts = cmp.Or(b.NumPrompts, from.NumPrompts)
	b.RequestRate = cmp.Or(b.RequestRate, from.RequestRate)
	b.MaxConcurrency = cmp.Or(b.MaxConcurrency, from.MaxConcurrency)
	b.Burstiness = cmp.Or(b.Burstiness, from.Burstiness)
	b.Arrivals = cmp.Or(b.Arrivals, from.Arrivals)
	b.Backend = cmp.Or(b.Backend, from.Backend)
	b.Endpoint = cmp.Or(b.Endpoint, from.Endpoint)
}

// Derive computes what follows from other fields: rates per GPU and per user.
// Merge calls it; call it again after setting Placement.
func (r *Result) Derive() {
	m := &r.Results
	if r.Placement != nil && m.GPUs == nil {
		if n := r.Placement.GPUs(); n > 0 {
			m.GPUs = &n
		}
	}
	m.derive("output_throughput_per_gpu", &m.OutputPerGPU, m.OutputThroughput, m.GPUs)
	m.derive("total_token_throughput_per_gpu", &m.TotalPerGPU, m.TotalTokenThroughput, m.GPUs)
	users := cmp.Or(m.MaxConcurrency, r.Config.Benchmark.MaxConcurrency)
	m.derive("output_throughput_per_user", &m.OutputPerUser, m.OutputThroughput, users)
}

// derive sets *to to from/by and notes the key, unless the client reported it.
func (m *Metrics) derive(key string, to **float64, from *float64, by *int) {
	if from == nil || by == nil || *by <= 0 || (*to != nil && !slices.Contains(m.Derived, key)) {
		return
	}
	*to = new(*from / float64(*by))
	m.NoteDerived(key)
}

// NoteDerived records that profllm, not the client, computed the key.
func (m *Metrics) NoteDerived(key string) {
	if i, found := slices.BinarySearch(m.Derived, key); !found {
		m.Derived = slices.Insert(m.Derived, i, key)
	}
}

// KVTransferOf sums the transfer counters of all roles, nil if there are none.
func KVTransferOf(server []ServerDelta) *KVTransfer {
	total := func(name string) *float64 {
		var sum *float64
		for _, s := range server {
			if v, ok := s.Counters[name]; ok && !math.IsNaN(v) {
				if sum == nil {
					sum = new(0.0)
				}
				*sum += v
			}
		}
		return sum
	}
	count := func(name string) *int64 {
		if v := total(name); v != nil {
			return new(int64(math.Round(*v)))
		}
		return nil
	}
	t := &KVTransfer{
		Transfers:           count(nixlTransfers),
		Bytes:               total(nixlBytes),
		FailedTransfers:     count(nixlFailedTransfers),
		FailedNotifications: count(nixlFailedNotifications),
		ExpiredRequests:     count(nixlExpired),
	}
	if s := total(nixlSeconds); s != nil && t.Transfers != nil && *t.Transfers > 0 {
		t.MeanTransferMS = new(*s * 1000 / float64(*t.Transfers))
	}
	if *t == (KVTransfer{}) {
		return nil
	}
	return t
}

// Lengths returns the different lengths of the lists that are present,
// ascending; one entry, or none, if they fit together.
func (s *Samples) Lengths() []int {
	if s == nil {
		return nil
	}
	var all []int
	for _, list := range []struct {
		present bool
		n       int
	}{
		{s.TTFT != nil, len(s.TTFT)}, {s.ITL != nil, len(s.ITL)}, {s.Latency != nil, len(s.Latency)},
		{s.Start != nil, len(s.Start)}, {s.InputLen != nil, len(s.InputLen)},
		{s.OutputLen != nil, len(s.OutputLen)}, {s.Errors != nil, len(s.Errors)},
	} {
		if list.present {
			all = append(all, list.n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Labelled reports whether a JSON value under the key "simulated" says so: true, or that word
// as a text, as options of clients that write labels of their own do.
func Labelled(value []byte) bool {
	return strings.EqualFold(strings.Trim(strings.TrimSpace(string(value)), `"`), "true")
}
