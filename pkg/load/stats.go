package load

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/dataset"
	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/stats"
)

// A measurement is what a run left behind. Times are readings of its clock in ns.
type measurement struct {
	options    *Options
	model      model
	requests   []dataset.Request
	prompts    Prompts
	talks      *conversations // nil if no request follows another
	outcomes   []answer.Outcome
	arrivals   []time.Duration // when each request was due, from the start of the run; first turns only
	rates      []float64       // requests per second at each arrival
	started    time.Time       // wall clock at begin
	begin, end int64
	cpu        time.Duration
	client     sender.Stats

	coldWarmUps int // warm-up requests that failed

	processes  int           // that shared the load
	clockError time.Duration // of the clocks of all but the first
	probes     *Probes       // nil if nothing was probed
}

// beginWithFirstSend lets a load whose first request is due at once begin with
// that: what the machine does before, when it is busy, is no time of the load.
func (m *measurement) beginWithFirstSend() {
	first := int64(math.MaxInt64)
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.Start != 0 {
			first = min(first, o.Start)
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

// series collects the values of every metric family over the completed requests, in seconds.
func series(outcomes []answer.Outcome) map[string][]float64 {
	all := make(map[string][]float64)
	add := func(name string, v float64) { all[name] = append(all[name], v) }
	for i := range outcomes {
		o := &outcomes[i]
		if o.State != answer.Completed {
			continue
		}
		add("ttft", o.TTFT())
		add("e2el", o.Latency())
		if o.Output > 1 {
			add("tpot", o.TPOT())
		}
		add("client_queue_time", o.Queued())
		add("e2el_including_client_queue", o.Latency()+o.Queued())
		all["itl"] = o.Gaps(all["itl"])
	}
	return all
}

// countGood returns how many completed requests meet every limit, which are in ms and inclusive.
func countGood(outcomes []answer.Outcome, limits map[string]float64) int {
	within := func(metric string, v float64) bool {
		limit, ok := limits[metric]
		return !ok || v <= limit/1000
	}
	good := 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.State == answer.Completed && within("ttft", o.TTFT()) && within("tpot", o.TPOT()) &&
			within("e2el", o.Latency()) {
			good++
		}
	}
	return good
}

// peakTokens returns the most token events in one second, seconds starting at the earliest
// completed request.
func peakTokens(outcomes []answer.Outcome) int {
	first := int64(math.MaxInt64)
	for i := range outcomes {
		if outcomes[i].State == answer.Completed {
			first = min(first, outcomes[i].Start)
		}
	}
	counts := make(map[int64]int)
	for i := range outcomes {
		if outcomes[i].State != answer.Completed {
			continue
		}
		n, in := 0, int64(0) // events of this request in one second
		for _, at := range outcomes[i].Tokens {
			if s := (at - first) / second; s != in {
				counts[in] += n
				n, in = 0, s
			}
			n++
		}
		counts[in] += n
	}
	peak := 0
	for _, n := range counts {
		peak = max(peak, n)
	}
	return peak
}

// peakOverlap returns the most completed requests in flight at once, each from its start up to
// its last token.
func peakOverlap(outcomes []answer.Outcome) int {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for i := range outcomes {
		if o := &outcomes[i]; o.State == answer.Completed {
			edges = append(edges, edge{o.Start, 1}, edge{o.Tokens[len(o.Tokens)-1], -1})
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
