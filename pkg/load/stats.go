package load

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/stats"
)

// A measurement is what a run left behind. Times are readings of its clock in ns.
type measurement struct {
	options    *Options
	model      model
	outcomes   []outcome
	arrivals   []time.Duration // when each request was due, from the start of the run
	rates      []float64       // requests per second at each arrival
	started    time.Time       // wall clock at begin
	begin, end int64
	cpu        time.Duration
	client     clientStats

	coldWarmUps int // warm-up requests that failed
}

// beginWithFirstSend lets a load of which the first request is due at once begin with
// that: what the machine does before, when it is busy, is no time of the load.
func (m *measurement) beginWithFirstSend() {
	first := int64(math.MaxInt64)
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.start != 0 {
			first = min(first, o.start)
		}
	}
	if late := first - m.begin; late > 0 && first != math.MaxInt64 {
		m.begin, m.started = first, m.started.Add(time.Duration(late))
	}
}

// A Family is the statistics of one metric over all successful requests, in ms.
type Family struct {
	Name              string // as in --percentile-metrics
	Mean, Median, Std float64
	Percentiles       []Percentile
	N                 int // values; with 0 all statistics are 0, as in vLLM's files
}

// A Percentile is one value below which P percent of the others lie, in ms.
type Percentile struct{ P, Value float64 }

// name returns the percentile as keys spell it: 99, 99.9.
func (p Percentile) name() string { return strconv.FormatFloat(p.P, 'g', -1, 64) }

// newFamily computes the statistics of values in seconds, which it sorts.
func newFamily(name string, seconds, percentiles []float64) Family {
	f := Family{Name: name, N: len(seconds)}
	f.Mean, f.Std = meanStd(seconds)
	f.Mean, f.Std = f.Mean*1000, f.Std*1000
	slices.Sort(seconds)
	f.Median = stats.PercentileFromBelow(seconds, 0.5) * 1000
	for _, p := range percentiles {
		f.Percentiles = append(f.Percentiles, Percentile{p, stats.PercentileFromBelow(seconds, p/100) * 1000})
	}
	return f
}

// meanStd returns the mean and the population standard deviation, 0 of nothing.
func meanStd(values []float64) (mean, std float64) {
	if len(values) == 0 {
		return 0, 0
	}
	n := float64(len(values))
	for _, v := range values {
		mean += v
	}
	mean /= n
	for _, v := range values {
		std += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(std / n)
}

const second = 1e9 // ns

// ttft, latency and tpot are in seconds and defined for completed requests.
func (o *outcome) ttft() float64 { return float64(o.tokens[0]-o.start) / second }

func (o *outcome) latency() float64 { return float64(o.tokens[len(o.tokens)-1]-o.start) / second }

// tpot is 0 for an answer of one token, as vLLM counts it for goodput.
func (o *outcome) tpot() float64 {
	if o.output < 2 {
		return 0
	}
	return (o.latency() - o.ttft()) / float64(o.output-1)
}

// gaps appends the times between token events, in seconds.
func (o *outcome) gaps(dst []float64) []float64 {
	for i := 1; i < len(o.tokens); i++ {
		dst = append(dst, float64(o.tokens[i]-o.tokens[i-1])/second)
	}
	return dst
}

// queued is how long the request waited in the client after it was due, in seconds.
func (o *outcome) queued() float64 { return float64(max(o.start-o.due, 0)) / second }

// series collects the values of every metric family over the completed requests, in seconds.
func series(outcomes []outcome) map[string][]float64 {
	all := make(map[string][]float64)
	add := func(name string, v float64) { all[name] = append(all[name], v) }
	for i := range outcomes {
		o := &outcomes[i]
		if o.state != completed {
			continue
		}
		add("ttft", o.ttft())
		add("e2el", o.latency())
		if o.output > 1 {
			add("tpot", o.tpot())
		}
		add("client_queue_time", o.queued())
		add("e2el_including_client_queue", o.latency()+o.queued())
		all["itl"] = o.gaps(all["itl"])
	}
	return all
}

// countGood returns how many completed requests meet every limit, which are in ms and inclusive.
func countGood(outcomes []outcome, limits map[string]float64) int {
	within := func(metric string, v float64) bool {
		limit, ok := limits[metric]
		return !ok || v <= limit/1000
	}
	good := 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.state == completed && within("ttft", o.ttft()) && within("tpot", o.tpot()) && within("e2el", o.latency()) {
			good++
		}
	}
	return good
}

// peakTokens returns the most token events in one second, seconds starting at the earliest completed request.
func peakTokens(outcomes []outcome) int {
	first := int64(math.MaxInt64)
	for i := range outcomes {
		if outcomes[i].state == completed {
			first = min(first, outcomes[i].start)
		}
	}
	counts := make(map[int64]int)
	peak := 0
	for i := range outcomes {
		if outcomes[i].state != completed {
			continue
		}
		for _, at := range outcomes[i].tokens {
			s := (at - first) / second
			counts[s]++
			peak = max(peak, counts[s])
		}
	}
	return peak
}

// peakOverlap returns the most completed requests in flight at once, each from its start up to its last token.
func peakOverlap(outcomes []outcome) int {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for i := range outcomes {
		if o := &outcomes[i]; o.state == completed {
			edges = append(edges, edge{o.start, 1}, edge{o.tokens[len(o.tokens)-1], -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) // an end before a start at the same time
	})
	open, peak := 0, 0
	for _, e := range edges {
		open += e.step
		peak = max(peak, open)
	}
	return peak
}
