package validity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// A span is one successful request on the client's clock, s.
type span struct{ start, end, ttft float64 }

// spansOf returns the successful requests in the order of their starts; nil if
// the client did not save them.
func spansOf(s *result.Samples) []span {
	if s == nil || len(s.Start) == 0 || len(s.Latency) != len(s.Start) {
		return nil
	}
	var list []span
	for i, start := range s.Start {
		if s.Failed(i) {
			continue
		}
		x := span{start: start, end: start + s.Latency[i], ttft: math.NaN()}
		if len(s.TTFT) == len(s.Start) {
			x.ttft = s.TTFT[i]
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	return list
}

// concurrency is the cap on requests in flight, 0 if there is none.
func (c *facts) concurrency() int {
	if n := c.e.Planned.Concurrency; n > 0 {
		return n
	}
	if n := c.m.MaxConcurrency; n != nil {
		return *n
	}
	return 0
}

// rate is the rate that was asked for, 1/s; 0 if requests were to come as fast
// as the cap allows.
func (c *facts) rate() float64 {
	if r := c.e.Planned.RequestRate; r > 0 {
		return r
	}
	if r := c.m.RequestRate; r != nil && !math.IsInf(float64(*r), 0) && *r > 0 {
		return float64(*r)
	}
	return 0
}

// clientBound looks for a client that could not keep up, in whatever it says of
// itself.
func clientBound(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	var parts []string
	bad := false
	add := func(wrong bool, format string, args ...any) {
		bad = bad || wrong
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	k := c.m.Client
	if k != nil && k.CPUSeconds != nil && k.Threads != nil && *k.Threads > 0 && c.m.Duration != nil &&
		*c.m.Duration > 0 {
		share := *k.CPUSeconds / *c.m.Duration / float64(*k.Threads)
		add(share > c.limit("client_cpu"), "%.0f %% of %d threads (accepted %s %%)", 100*share, *k.Threads,
			percent(c.limit("client_cpu")))
	}
	// A simulated engine shares the machine with the client, and with whatever else
	// a rehearsal runs there: that the client had to wait says nothing of it.
	alone := !c.r.Simulated
	if k != nil && k.SendDelayP99 != nil && alone {
		add(*k.SendDelayP99 > c.limit("send_delay_ms"), "p99 send delay %.2f ms (accepted %s)", *k.SendDelayP99,
			plain(c.limit("send_delay_ms")))
	}
	if k != nil && k.LagP99 != nil && alone {
		add(*k.LagP99 > c.limit("lag_ms"), "p99 lag %.2f ms (accepted %s)", *k.LagP99, plain(c.limit("lag_ms")))
	}
	// Under a cap a late answer delays the next request: that is the server's.
	if p, ok := c.pace(done); ok && c.concurrency() == 0 {
		add(p.missed, "%s", p)
	}
	if len(parts) == 0 {
		return notPossible("the client reported nothing about itself")
	}
	return judged(bad, "%s", strings.Join(parts, ", "))
}

// sending is the time from the first to the last of n sends.
func (c *facts) sending(done int) (took float64, n int) {
	if s := c.e.Samples; s != nil && len(s.Start) > 1 {
		return slices.Max(s.Start) - slices.Min(s.Start), len(s.Start)
	}
	if k := c.m.Client; k != nil && k.FirstSend != nil && k.LastSend != nil {
		failed, _, _ := c.failed()
		return *k.LastSend - *k.FirstSend, done + failed
	}
	return 0, 0
}

// gapSpread is the standard deviation of the gaps between sends over their mean:
// gamma-distributed gaps of burstiness b have 1/sqrt(b).
func (c *facts) gapSpread() float64 {
	if b := c.r.Config.Benchmark.Burstiness; b != nil && *b > 0 {
		return 1 / math.Sqrt(float64(*b))
	}
	return 1
}

// inFlight is how many requests were in flight on average: Little's law, with the
// window of the client.
func (c *facts) inFlight(done int) (float64, bool) {
	if c.m.Duration == nil || *c.m.Duration <= 0 {
		return 0, false
	}
	busy, ok := c.e.Samples.TotalLatency()
	if mean := c.m.Latency[result.E2EL].Mean; !ok && mean != nil {
		busy, ok = *mean/1000*float64(done), true
	}
	return busy / *c.m.Duration, ok
}

// aimed holds the load against the cap that was asked for. Where a rate was asked for
// as well, one of the two is what limits the load, and has to be reached. A rate alone
// is the client's to keep, see client-bound. Whether a rate was reached may be unknown.
func (c *facts) aimed(load float64, done int) (parts []string, out result.Outcome) {
	limit := min(c.concurrency(), done)
	if limit == 0 {
		return nil, result.NotPossible
	}
	full := load/float64(limit) >= c.limit("load_share")
	parts = []string{fmt.Sprintf("%.2f requests in flight on average, cap %d (accepted from %.2f)", load, limit,
		c.limit("load_share")*float64(limit))}
	if c.rate() == 0 {
		return parts, judged(!full, "").outcome
	}
	p, known := c.pace(done)
	if known {
		parts = append(parts, p.String())
	}
	switch {
	case full:
		return append(parts, "the cap was reached"), result.Pass
	case !known:
		return append(parts, "it is not known whether the rate was reached"), result.NotPossible
	case p.missed:
		return append(parts, "neither the rate nor the cap was reached"), result.Fail
	}
	return append(parts, "the rate was reached"), result.Pass
}

func loadNotReached(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	load, ok := c.inFlight(done)
	if !ok {
		return notPossible("neither latencies nor a mean E2EL were reported")
	}
	parts, out := c.aimed(load, done)
	if g := c.m.Load; g != nil && float64(g.Samples) >= c.limit("load_samples") && g.Running+g.Waiting > 0 {
		seen := g.Running + g.Waiting
		if math.Abs(load/seen-1) > c.limit("load_deviation") {
			out = result.Fail
		} else if out == result.NotPossible && c.concurrency() == 0 {
			out = result.Pass
		}
		parts = append(parts, fmt.Sprintf("client: %.2f in flight, engines: %.2f (accepted %s %% apart)", load, seen,
			percent(c.limit("load_deviation"))))
	}
	if len(parts) == 0 {
		return notPossible("there is neither a concurrency cap nor %.0f samples of the engines' gauges",
			c.limit("load_samples"))
	}
	if out == result.NotPossible {
		return notPossible("%s", strings.Join(parts, "; "))
	}
	return judged(out == result.Fail, "%s", strings.Join(parts, "; "))
}

// SteadyFrom is the least number of requests that no-steady-state accepts of a
// load with that many in flight, as fast as they are answered.
func (l Limits) SteadyFrom(concurrency int) int {
	rounds, set := l["rounds"]
	if !set {
		rounds = minRounds
	}
	return steadyFrom(rounds, concurrency)
}

func steadyFrom(rounds float64, concurrency int) int {
	return int(math.Ceil(rounds * float64(concurrency)))
}

func noSteadyState(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	limit := c.concurrency()
	if limit == 0 || c.rate() > 0 {
		return notPossible("no load of fixed concurrency was planned")
	}
	planned := max(c.planned(), done)
	least := steadyFrom(c.limit("rounds"), limit)
	bad := planned < least
	text := fmt.Sprintf("%d requests, %d at a time (accepted from %d)", planned, limit, least)
	if low, ok := c.lowShare(limit); ok {
		bad = bad || low > c.limit("ramp_share")
		text += fmt.Sprintf("; fewer than half of them in flight for %.1f %% of the window (accepted %s %%)", 100*low,
			percent(c.limit("ramp_share")))
	}
	return judged(bad, "%s", text)
}

// lowShare is the share of the window with fewer than half of limit in flight.
func (c *facts) lowShare(limit int) (float64, bool) {
	list := spansOf(c.e.Samples)
	if len(list) == 0 || c.m.Duration == nil || *c.m.Duration <= 0 {
		return 0, false
	}
	enough, n, since := 0.0, 0, 0.0
	for _, x := range changes(list) {
		if 2*n >= limit {
			enough += x.at - since
		}
		n += x.by
		since = x.at
	}
	return max(0, 1 - enough / *c.m.Duration), true
}

func windowWrong(c *facts) answer {
	if _, why := c.completed(); why != "" {
		return notPossible("%s", why)
	}
	if c.m.Duration == nil && c.imported() {
		return notPossible("the imported file has no window")
	}
	if c.m.Duration == nil {
		a := fail("the client did not report the end of its window")
		a.word = "window-open"
		return a
	}
	if failed, _, ok := c.failed(); ok && failed > 0 {
		return notPossible("the end times of %d failed requests are not known", failed)
	}
	var busy float64
	switch list, k := spansOf(c.e.Samples), c.m.Client; {
	case len(list) > 0:
		busy = lastEnd(list) - list[0].start
	case k != nil && k.FirstSend != nil && k.LastEnd != nil:
		busy = *k.LastEnd - *k.FirstSend
	default:
		return notPossible("the client saved no send times")
	}
	if busy <= 0 {
		return notPossible("there is no time between the first request and the last answer")
	}
	idle := c.limit("idle_s")
	if asked := c.rate(); asked > 0 {
		// vLLM's client waits for a gap before its first request too. Of a Poisson
		// process one gap in a thousand is longer than that.
		idle = max(idle, (1+c.limit("first_gap_sigmas")*c.gapSpread())/asked)
	}
	longest := c.limit("window_ratio")
	return judged(*c.m.Duration-busy > max((longest-1)*busy, idle),
		"the window has %.3f s, the time from the first request to the last answer is %.3f s (accepted %.2f times, or %.2f s more)",
		*c.m.Duration, busy, longest, idle)
}

// coldStart compares the first requests with the others, if nothing warmed the
// engine up. Those that are sent together at the beginning wait for each other, which
// is no compiling: they are judged by how many they are, and the first tenth without
// them.
func coldStart(c *facts) answer {
	if c.e.Planned.Warmups > 0 {
		return pass("%d warm-ups were sent before", c.e.Planned.Warmups)
	}
	list := spansOf(c.e.Samples)
	tenth := len(list) / 10
	if tenth < 1 || math.IsNaN(list[0].ttft) {
		return notPossible("the client saved fewer than ten requests")
	}
	ratio, wave := c.limit("cold_start_ratio"), together(list)
	text, bad := "", false
	compare := func(what string, first, rest []span, accepted, least float64) {
		a, b := medianTTFT(first), medianTTFT(rest)
		bad = bad || a > accepted*b && a-b > least
		text = joined(text, fmt.Sprintf("median TTFT of %s %.1f ms, of the other requests %.1f ms (accepted %.3g times)", what, 1000*a, 1000*b, accepted))
	}
	if behind := list[wave:]; len(behind) > tenth {
		if float64(wave) >= seldom*float64(len(list)) {
			compare(fmt.Sprintf("the %d requests sent together at the beginning", wave), list[:wave], behind,
				max(ratio, float64(wave)/crowd(behind)), connecting)
		}
		list = behind
	} else {
		ratio = max(ratio, float64(wave))
	}
	compare(fmt.Sprintf("the first %d requests", tenth), list[:tenth], list[tenth:], ratio, 0)
	return judged(bad, "%s", text)
}

const (
	seldom     = 0.01 // share of requests that show in a 99th percentile
	connecting = 0.1  // s: what many first requests at once may take longer, with new connections
)

func medianTTFT(list []span) float64 {
	times := make([]float64, 0, len(list))
	for _, x := range list {
		times = append(times, x.ttft)
	}
	return stats.MiddleMean(times)
}

// crowd is how many prompts waited for their first token together, as seen by one of
// them on average.
func crowd(list []span) float64 {
	waits := make([]span, 0, len(list))
	for _, x := range list {
		waits = append(waits, span{start: x.start, end: x.start + x.ttft})
	}
	n, since, sum, square := 0.0, 0.0, 0.0, 0.0
	for _, x := range changes(waits) {
		sum += n * (x.at - since)
		square += n * n * (x.at - since)
		n += float64(x.by)
		since = x.at
	}
	return max(1, square/max(sum, math.SmallestNonzeroFloat64))
}

// together is how many of the requests were sent before the first of all answers
// began.
func together(list []span) int {
	began := math.Inf(1)
	for _, x := range list {
		began = min(began, x.start+x.ttft)
	}
	n := 0
	for _, x := range list {
		if x.start < began {
			n++
		}
	}
	return n
}

// notSteady looks for a queue that grows over the second half of the window.
func notSteady(c *facts) answer {
	list := spansOf(c.e.Samples)
	if len(list) == 0 || math.IsNaN(list[0].ttft) {
		return notPossible("the client saved no requests")
	}
	half := (list[0].start + list[len(list)-1].start) / 2
	var at, ttft, flying []float64
	ends := make([]float64, 0, len(list))
	for _, x := range list {
		ends = append(ends, x.end)
	}
	slices.Sort(ends)
	for i, x := range list {
		if x.start < half {
			continue
		}
		over, _ := slices.BinarySearch(ends, x.start)
		at, ttft, flying = append(at, x.start), append(ttft, x.ttft), append(flying, float64(i+1-over))
	}
	if least := c.limit("trend_requests"); float64(len(at)) < least {
		return notPossible("%d requests in the second half (%.0f needed)", len(at), least)
	}
	var parts []string
	bad := false
	for _, v := range []struct {
		name   string
		values []float64
	}{{"TTFT", ttft}, {"requests in flight", flying}} {
		// Under a cap the next request waits for an answer, not for a queue.
		if v.name != "TTFT" && c.concurrency() > 0 && c.rate() == 0 {
			continue
		}
		rise, sure := trend(at, v.values)
		bad = bad || sure && rise > c.limit("trend_share")
		doubt := ""
		if !sure {
			doubt = ", within chance"
		}
		parts = append(parts, fmt.Sprintf("%s %+.1f %%%s", v.name, 100*rise, doubt))
	}
	return judged(bad, "over the second half: %s (accepted %s %%)", strings.Join(parts, "; "),
		percent(c.limit("trend_share")))
}

// trend fits a line through y over x, which ascends. rise is how much the line
// gains from its begin to its end, as a share of its begin; sure says that the
// 95 % interval of the slope lies above zero. Neighbours are alike, because most of
// what is in flight for one is so for the next: the line is that of the means of
// trendBlocks blocks, which tell much less of each other.
func trend(x, y []float64) (rise float64, sure bool) {
	x, y = blockMeans(x), blockMeans(y)
	const n = trendBlocks
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if xx == 0 {
		return 0, false
	}
	slope := xy / xx
	var rest float64
	for i := range x {
		d := y[i] - my - slope*(x[i]-mx)
		rest += d * d
	}
	// The means lie half a block from the ends.
	length := (x[n-1] - x[0]) * n / (n - 1)
	begin := my - slope*length/2
	if begin <= 0 {
		begin = my
	}
	if begin <= 0 {
		return 0, false
	}
	return slope * length / begin, slope > trendT*math.Sqrt(rest/(n-2)/xx)
}

// blockMeans parts a list of at least as many values into trendBlocks blocks.
func blockMeans(list []float64) []float64 {
	means := make([]float64, trendBlocks)
	for i := range means {
		block := list[i*len(list)/trendBlocks : (i+1)*len(list)/trendBlocks]
		for _, x := range block {
			means[i] += x / float64(len(block))
		}
	}
	return means
}
