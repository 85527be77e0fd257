package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// Steady is the part of a run in which the load was at its full level, and what was measured there.
//
// If concurrency limits the load, this window begins when as many requests as the limit were in
// flight for the first time, and ends when they were for the last time. If a rate limits it, the
// window begins when the first tenth of the requests had been answered, and ends with the last
// send. With both a rate and a limit, the limit counts if it was reached for half of the time
// between the first and the last send.
//
// Throughput counts what ended in the window: answers, token events, prompts with their first
// token. TTFT is that of requests sent in the window, ITL that of gaps that ended in it; TPOT and
// E2EL are those of requests that were sent and answered in it.
type Steady struct {
	None  string  `json:"none,omitempty"` // why there is no such window; then all else is absent
	Rule  string  `json:"rule,omitempty"` // what limits the load: concurrency or rate
	Level int     `json:"level,omitempty"`
	Begin float64 `json:"begin_s"` // from the start of the run
	End   float64 `json:"end_s"`
	Share float64 `json:"share"` // of the run's duration

	Sent      int `json:"sent"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Whole     int `json:"sent_and_completed"`

	RequestThroughput float64               `json:"request_throughput"`
	OutputThroughput  float64               `json:"output_throughput"`
	TotalThroughput   float64               `json:"total_token_throughput"`
	Families          map[string]Statistics `json:"latencies"` // by the names of --percentile-metrics
}

// Statistics are those of one metric, in ms. Percentiles have the names
// that vLLM's keys give them.
type Statistics struct {
	N           int                `json:"n"`
	Mean        float64            `json:"mean_ms"`
	Median      float64            `json:"median_ms"`
	Std         float64            `json:"std_ms"`
	Percentiles map[string]float64 `json:"percentiles_ms"`
}

// A flight is the time of one request in flight.
type flight struct{ start, end int64 }

// flights returns when each request that was sent was in flight, in the order of their starts.
func (m *measurement) flights() []flight {
	var list []flight
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.Start != 0 {
			list = append(list, flight{o.Start, m.endOf(o)})
		}
	}
	slices.SortFunc(list, func(a, b flight) int { return cmp.Compare(a.start, b.start) })
	return list
}

// endOf returns when a request that was sent gave its slot back. An interrupted one kept it.
func (m *measurement) endOf(o *answer.Outcome) int64 {
	switch {
	case o.End != 0:
		return o.End
	case o.State == answer.Completed:
		return o.Tokens[len(o.Tokens)-1]
	}
	return max(m.end, o.Start)
}

// A plateau is the time for which as many requests were in flight as possible.
type plateau struct {
	first, last int64 // the first and the last moment
	full        int64 // how long in all, between the first and the last send
	peak        int   // most requests in flight
}

// refill is how long a place may be free until the next request is sent, in ns, without the load
// being below its level.
const refill = int64(time.Millisecond)

// plateauOf looks for the plateau of that level.
func plateauOf(list []flight, level int) plateau {
	type edge struct {
		at   int64
		step int
	}
	edges := make([]edge, 0, 2*len(list))
	for _, f := range list {
		edges = append(edges, edge{f.start, 1}, edge{f.end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) // an end before a start at the same time
	})
	var p plateau
	lastSend, open, since := list[len(list)-1].start, 0, int64(0)
	for _, e := range edges {
		before := open
		open += e.step
		p.peak = max(p.peak, open)
		switch {
		case before < level && open >= level:
			if p.first == 0 {
				p.first = e.at
			}
			if p.last == 0 || e.at-p.last > refill {
				since = e.at
			} else {
				p.full -= max(min(p.last, lastSend)-since, 0) // the place was not free long enough to count
			}
		case before >= level && open < level:
			p.last = e.at
			p.full += max(min(e.at, lastSend)-since, 0)
		}
	}
	return p
}

// window returns the begin and the end of the steady part, or why there is none.
func (m *measurement) window() (s Steady, begin, end int64) {
	list := m.flights()
	rate := m.options.RequestRate
	if m.options.Timed() {
		rate = 0 // the trace has one, which is finite
	}
	switch {
	case len(list) == 0:
		return Steady{None: "no request was sent"}, 0, 0
	case m.options.RampUpStrategy != "":
		return Steady{None: "the rate rises during the run"}, 0, 0
	}
	level := min(m.options.concurrency(), len(m.arrivals))
	p := plateauOf(list, level)
	sending := list[len(list)-1].start - list[0].start
	if p.peak >= level && (math.IsInf(rate, 1) || m.options.MaxConcurrency != nil && 2*p.full >= sending) {
		return Steady{Rule: "concurrency", Level: level}, p.first, p.last
	}
	if math.IsInf(rate, 1) {
		return Steady{None: fmt.Sprintf("at most %d requests were in flight, fewer than %d", p.peak, level)}, 0, 0
	}
	for _, f := range list[:(len(list)+9)/10] {
		begin = max(begin, f.end)
	}
	return Steady{Rule: "rate", Level: p.peak}, begin, list[len(list)-1].start
}

// steady measures the steady part of a run.
func (m *measurement) steady() *Steady {
	s, begin, end := m.window()
	if s.None == "" && begin >= end {
		s = Steady{None: "the load had no steady part: its level was not kept for any time"}
	}
	if s.None != "" {
		return &s
	}
	s.Begin, s.End = float64(begin-m.begin)/second, float64(end-m.begin)/second
	if m.end > m.begin {
		s.Share = float64(end-begin) / float64(m.end-m.begin)
	}
	in := func(at int64) bool { return at >= begin && at <= end }
	values := map[string][]float64{}
	var output, input float64
	for i := range m.outcomes {
		o := &m.outcomes[i]
		if o.Start == 0 {
			continue
		}
		ended := o.State != answer.Interrupted && o.State != answer.InFlight && in(m.endOf(o))
		if in(o.Start) {
			s.Sent++
		}
		if ended && o.State == answer.Failed {
			s.Failed++
		}
		if o.State != answer.Completed {
			continue
		}
		if ended {
			s.Completed++
		}
		if ended && in(o.Start) {
			s.Whole++
		}
		output += m.inWindow(o, in, ended, values)
		if in(o.Tokens[0]) {
			input += float64(o.Input)
		}
	}
	took := s.End - s.Begin
	s.RequestThroughput, s.OutputThroughput = float64(s.Completed)/took, output/took
	s.TotalThroughput = (input + output) / took
	s.Families = m.spreads(values)
	return &s
}

// inWindow adds the latencies of a completed request that count in the window to values, and
// returns how many of its tokens came there.
func (m *measurement) inWindow(
	o *answer.Outcome, in func(int64) bool, ended bool, values map[string][]float64,
) float64 {
	add := func(name string, v float64) { values[name] = append(values[name], v) }
	whole := ended && in(o.Start)
	if whole {
		add("e2el", o.Latency())
	}
	if m.options.pools() {
		return 0
	}
	if in(o.Start) {
		add("ttft", o.TTFT())
	}
	if whole && o.Output > 1 {
		add("tpot", o.TPOT())
	}
	events := 0
	for k, at := range o.Tokens {
		if in(at) {
			events++
			if k > 0 {
				add("itl", float64(at-o.Tokens[k-1])/second)
			}
		}
	}
	return float64(events) * float64(o.Output) / float64(len(o.Tokens))
}

// spreads computes the statistics of latencies in s.
func (m *measurement) spreads(values map[string][]float64) map[string]Statistics {
	percentiles, _ := m.options.percentiles()
	families := make(map[string]Statistics, len(values))
	for name, list := range values {
		f := newFamily(name, list, percentiles)
		one := Statistics{N: f.N, Mean: f.Mean, Median: f.Median, Std: f.Std,
			Percentiles: make(map[string]float64, len(percentiles))}
		for _, p := range f.Percentiles {
			one.Percentiles[p.name()] = p.Value
		}
		families[name] = one
	}
	return families
}

// MarshalJSON implements [json.Marshaler].
func (s *Steady) MarshalJSON() ([]byte, error) {
	if s.None != "" {
		return json.Marshal(map[string]string{"none": s.None})
	}
	type plain Steady // without this method
	return json.Marshal((*plain)(s))
}
