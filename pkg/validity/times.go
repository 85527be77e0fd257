package validity

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// successes are the indices of the requests that are not known to have failed.
func successes(s *result.Samples) iter.Seq[int] {
	return func(yield func(int) bool) {
		if s == nil {
			return
		}
		n := max(len(s.TTFT), len(s.ITL), len(s.Latency), len(s.Start), len(s.OutputLen), len(s.Errors))
		for i := range n {
			if !s.Failed(i) && !yield(i) {
				return
			}
		}
	}
}

// ofSuccesses returns the values of a list that belong to successful requests.
func ofSuccesses(s *result.Samples, values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	good := make([]float64, 0, len(values))
	for i := range successes(s) {
		if i < len(values) {
			good = append(good, values[i])
		}
	}
	return good
}

// timesImpossible looks at the times themselves: what no clock and no client can have
// seen.
func timesImpossible(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad []string
	if s := c.e.Samples; s != nil {
		bad = append(impossibleTimes(s), c.copies()...)
	}
	bad = append(bad, c.impossibleLoad(done)...)
	bad = append(bad, c.impossibleStatistics(done)...)
	if len(bad) > 0 {
		return fail("%s", strings.Join(bad, "; "))
	}
	if c.e.Samples == nil {
		return pass("%d latencies agree with each other and with the window; single requests were not saved",
			len(c.m.Latency))
	}
	return pass("the times of the single requests are consistent")
}

// oddities counts times that cannot be, by what is wrong with them.
type oddities struct {
	kinds []string
	found map[string]*oddity
}

type oddity struct {
	n       int
	first   float64 // s
	request int     // from 1
}

func (o *oddities) add(kind string, request int, seconds float64) {
	x := o.found[kind]
	if x == nil {
		if o.found == nil {
			o.found = map[string]*oddity{}
		}
		x = &oddity{first: seconds, request: request + 1}
		o.found[kind] = x
		o.kinds = append(o.kinds, kind)
	}
	x.n++
}

func (o *oddities) list() []string {
	var list []string
	for _, kind := range o.kinds {
		x := o.found[kind]
		list = append(list, fmt.Sprintf("%d %s, the first by %.6g s in request %d", x.n, kind, x.first, x.request))
	}
	return list
}

// What sums of times read one after the other may be off.
const (
	readApart    = 1e-6 // s, two readings of a clock for one event
	sumApart     = 1e-3 // s, the sum of a stream's gaps
	tailSeconds  = 0.1  // s, from the last token to the end of the stream
	tailOfStream = 0.1  // the same as a share of the latency
)

// impossibleTimes lists what is wrong with the times of single requests.
func impossibleTimes(s *result.Samples) []string {
	var o oddities
	streamed := slices.ContainsFunc(s.TTFT, func(x float64) bool { return x != 0 })
	for i := range successes(s) {
		tokens := addGaps(s, &o, i)
		if i < len(s.TTFT) {
			ttft := s.TTFT[i]
			tokens += ttft
			if !(ttft >= 0) || streamed && ttft == 0 {
				o.add("TTFTs are not above 0", i, ttft)
			}
		}
		if i < len(s.Start) && math.IsNaN(s.Start[i]-s.Start[i]) {
			o.add("requests have no send time", i, s.Start[i])
		}
		if i < len(s.Latency) {
			addLatency(s, &o, i, tokens)
		}
	}
	return o.list()
}

// addGaps returns the sum of a stream's gaps.
func addGaps(s *result.Samples, o *oddities, i int) (sum float64) {
	if i >= len(s.ITL) {
		return 0
	}
	for _, gap := range s.ITL[i] {
		if !(gap >= 0) {
			o.add("gaps between tokens are below 0", i, gap)
		}
		sum += gap
	}
	return sum
}

// addLatency compares a request's latency with the time to its last token, as far as
// that is known.
func addLatency(s *result.Samples, o *oddities, i int, tokens float64) {
	latency := s.Latency[i]
	if !(latency > 0) || math.IsInf(latency, 1) {
		o.add("latencies are not above 0", i, latency)
		return
	}
	if i < len(s.TTFT) && s.TTFT[i] > latency+readApart {
		o.add("first tokens came after the request's end", i, s.TTFT[i]-latency)
		return
	}
	if i >= len(s.TTFT) || i >= len(s.ITL) || len(s.ITL[i]) == 0 {
		return
	}
	switch off := tokens - latency; {
	case off > sumApart+1e-6*latency:
		o.add("last tokens came after the request's end", i, off)
	case -off > max(tailSeconds, tailOfStream*latency):
		o.add("requests took longer than TTFT and gaps together", i, -off)
	}
}

// leastAlike is the least sample in which equal values say anything.
const leastAlike = 20

// copies looks for requests that have the times of another to the last digit.
func (c *facts) copies() []string {
	s := c.e.Samples
	if len(s.TTFT) == 0 || len(s.Latency) != len(s.TTFT) {
		return nil
	}
	type times struct{ ttft, latency int64 } // ns: what differs by less, differs by rounding
	var list []times
	for i := range successes(s) {
		list = append(list, times{int64(math.Round(1e9 * s.TTFT[i])), int64(math.Round(1e9 * s.Latency[i]))})
	}
	slices.SortFunc(list, func(a, b times) int {
		return cmp.Or(cmp.Compare(a.ttft, b.ttft),
			cmp.Compare(a.latency, b.latency))
	})
	unlike := slices.Compact(slices.Clone(list))
	n, accepted := len(list)-len(unlike), max(2, c.limit("copied_share")*float64(len(list)))
	if len(list) < leastAlike || float64(n) <= accepted {
		return nil
	}
	if float64(n) < beyondChance*min(equalByChance(ofSuccesses(s, s.TTFT)), equalByChance(ofSuccesses(s, s.Latency))) {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d requests have the TTFT and latency of another to the last digit (accepted %.0f)", n, len(list), accepted)}
}

// beyondChance is how many times as many equal pairs as chance makes are copies: times
// are not spread evenly, so that chance makes more.
const beyondChance = 10

// equalByChance is how many values a coarse clock makes equal to another: about half the pairs
// over the steps of the clock in which most values lie. All may be equal if there is one step
// only.
func equalByChance(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	step, width := leastGap(values, 1e-9), values[n*9/10]-values[n/10]
	if width < step {
		return float64(n)
	}
	return float64(n) * float64(n) * step / (2 * width)
}

// What a window and a cap are exceeded by when clocks are read one after the other.
const (
	windowSlack = 0.01 // of the window
	slackS      = 0.1  // s
	crowdShare  = 0.01 // of the window, with more in flight than the cap
)

// impossibleLoad looks for requests that do not fit into the window or under the cap.
// A window that cuts requests, of which the rates hold a part only, is left alone.
func (c *facts) impossibleLoad(done int) (bad []string) {
	if c.m.Duration == nil || *c.m.Duration <= 0 || c.m.CutRequests != nil {
		return nil
	}
	window := *c.m.Duration
	accepted := window*(1+windowSlack) + slackS
	list := spansOf(c.e.Samples)
	if len(list) > 0 {
		if busy := lastEnd(list) - list[0].start; busy > accepted {
			bad = append(bad, fmt.Sprintf("the requests took %.3f s from the first send to the last answer, but the window has %.3f s", busy, window))
		}
	}
	limit := c.concurrency()
	if limit == 0 {
		return bad
	}
	most := int(math.Ceil(float64(limit) * (1 + c.limit("over_cap"))))
	if over := inFlightAbove(list, most); over > crowdShare*window {
		bad = append(bad, fmt.Sprintf("more than %d requests were in flight for %.3f s, but the cap is %d", most, over,
			limit))
	}
	if load, ok := c.inFlight(done); ok && load > float64(limit)*(1+c.limit("over_cap")) {
		bad = append(bad, fmt.Sprintf("%.2f requests were in flight on average, but the cap is %d", load, limit))
	}
	return bad
}

// lastEnd is when the last of the requests ended.
func lastEnd(list []span) float64 {
	last := math.Inf(-1)
	for _, x := range list {
		last = max(last, x.end)
	}
	return last
}

// inFlightAbove is for how long more than n of the requests were in flight, s.
func inFlightAbove(list []span, n int) (seconds float64) {
	changes, now, since := changes(list), 0, 0.0
	for _, x := range changes {
		if now > n {
			seconds += x.at - since
		}
		now += x.by
		since = x.at
	}
	return seconds
}

// impossibleStatistics looks for statistics that no sample has, with or without the
// sample itself.
func (c *facts) impossibleStatistics(done int) (bad []string) {
	first, whole := c.m.Latency[result.TTFT], c.m.Latency[result.E2EL]
	for _, s := range first.Statistics() {
		// Each request's first token comes before its last, so each quantile does.
		if v, ok := statistic(whole, s.Name); ok && s.Name != "std" && s.Value > v && !c.nearly(s.Value, v) {
			bad = append(bad, fmt.Sprintf("%s TTFT %.6g ms is larger than %s E2EL %.6g ms", s.Name, s.Value, s.Name, v))
		}
	}
	bad = append(bad, c.impossibleParts(done)...)
	for _, f := range []result.Family{result.TTFT, result.TPOT, result.ITL, result.E2EL} {
		d := c.m.Latency[f]
		if n, known := c.sampleSize(f, d, done); known || f == result.TTFT || f == result.E2EL {
			bad = append(bad, c.impossibleSpread(f, n)...)
		}
		if n := cmp.Or(d.N, &done); d.Std != nil && *d.Std == 0 && (d.Mean == nil || *d.Mean > 0) && *n >= leastAlike &&
			!c.m.FromLog {
			bad = append(bad, fmt.Sprintf("%d values of %s have a standard deviation of 0: all are equal to the last digit", *n, strings.ToUpper(string(f))))
		}
		if c.m.Duration == nil || c.m.CutRequests != nil {
			continue
		}
		for _, s := range d.Statistics() {
			if window := 1000 * *c.m.Duration; s.Name != "std" && s.Value > window*(1+windowSlack)+1000*slackS {
				bad = append(bad,
					fmt.Sprintf("%s %s %.6g ms is longer than the window of %.6g ms", s.Name,
						strings.ToUpper(string(f)), s.Value, window))
			}
		}
	}
	return bad
}

// statistic returns the one of that name, as Statistics lists it.
func statistic(d result.Distribution, name string) (float64, bool) {
	for _, s := range d.Statistics() {
		if s.Name == name {
			return s.Value, true
		}
	}
	return 0, false
}
