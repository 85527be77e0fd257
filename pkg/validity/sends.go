package validity

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

// A pace is how fast a client sent, of what it was asked, 1/s.
type pace struct {
	asked, least float64
	sent         float64
	bound        string // "at least " or "at most ", if the sends were not saved
	how          string
	missed       bool
}

func (p pace) String() string {
	return fmt.Sprintf("%s%.2f requests/s were sent, %.2f planned (accepted from %.2f: %s)", p.bound, p.sent, p.asked,
		p.asked*p.least, p.how)
}

// pace compares the rate of the sends with the one that was asked for; ok is false
// without a rate, and where neither sends nor the window decide.
func (c *facts) pace(done int) (p pace, ok bool) {
	p.asked = c.rate()
	failed, _, _ := c.failed()
	n := done + failed
	if took, sends := c.sending(done); p.asked > 0 && took > 0 && sends > 1 {
		p.sent = float64(sends-1) / took
		p.least, p.how = c.leastPace(sends)
		p.missed = p.sent < p.asked*p.least
		return p, true
	}
	low, high, ok := c.paceOfWindow(n)
	if !ok || p.asked <= 0 {
		return p, false
	}
	p.least, p.how = c.leastPace(n)
	switch {
	case low >= p.asked*p.least:
		p.sent, p.bound = low, "at least "
	case high < p.asked*p.least:
		p.sent, p.bound, p.missed = high, "at most ", true
	default:
		return p, false
	}
	return p, true
}

// paceOfWindow bounds the rate of n sends that were not saved: all lie in the window,
// and the last came no earlier before its end than the longest request took.
func (c *facts) paceOfWindow(n int) (low, high float64, ok bool) {
	d := c.m.Latency[result.E2EL]
	if c.m.Duration == nil || *c.m.Duration <= 0 || d.Mean == nil || n < 2 {
		return 0, 0, false
	}
	longest := *d.Mean
	for _, s := range d.Statistics() {
		if s.Name != "std" {
			longest = max(longest, s.Value)
		}
	}
	if d.Max == nil && d.Std != nil {
		longest += beyondTop * *d.Std
	}
	high = math.Inf(1)
	if rest := *c.m.Duration - longest/1000; rest > 0 {
		high = float64(n) / rest
	}
	return float64(n-1) / *c.m.Duration, high, true
}

// beyondTop is how many standard deviations the longest request may be above the
// highest percentile.
const beyondTop = 3

// leastPace is the least share of the asked rate that a schedule of n sends keeps, and
// why. The gaps of a Poisson process add up with a spread of its own; of a rescaled
// schedule only the first gap is left to chance.
func (c *facts) leastPace(n int) (least float64, how string) {
	least, spread := c.limit("send_rate"), c.gapSpread()
	switch c.r.Config.Benchmark.Arrivals {
	case result.Rescaled:
		return least - 6*spread/float64(n), "the client rescales its schedule"
	case result.Drawn:
		return least - 3*spread/math.Sqrt(float64(n-1)), "the client draws every gap"
	case result.Rising:
		return least - 3*spread/math.Sqrt(float64(n-1)), "the rate rises, this is its minimum"
	}
	return least - 3*spread/math.Sqrt(float64(n-1)), "how the client draws its schedule is not known"
}

// Bounds of a lump, which are part of the check.
const (
	lumpWindow = 0.01 // s: requests this close together were sent at once
	lumpRisk   = 1e-6 // that chance alone makes one, over all requests
	lumpSigmas = 5    // standard deviations of how many sends chance puts that close
)

// sendsLumped looks for sends that were held back and then made together.
func sendsLumped(c *facts) answer {
	if _, why := c.completed(); why != "" {
		return notPossible("%s", why)
	}
	s, rate := c.e.Samples, c.rate()
	switch {
	case rate == 0:
		return notPossible("no rate was planned")
	case s == nil || len(s.Start) < 2:
		return notPossible("the client saved no send times")
	case c.r.Config.Benchmark.Arrivals == result.Rising:
		return notPossible("the rate rises during the load")
	}
	if limit := c.concurrency(); limit > 0 && inFlightAbove(spansOf(s), limit-1) > 0 {
		return notPossible("sends waited for answers, under a cap of %d", limit)
	}
	starts := slices.Sorted(slices.Values(s.Start))
	hole, at, chance := c.hole(starts, rate)
	most := c.lump(starts, rate)
	excess := c.together(starts, rate)
	worth, longest := float64(most-1)/rate, c.limit("send_gap_s")
	bad := !chance && hole > longest || worth > longest || excess > c.limit("lump_share")
	return judged(bad, "no request was sent for %.3f s, %.1f s after the first send (accepted %.2f s, or chance); %d requests within %.0f ms, worth %.2f s of the schedule (accepted %.2f s); "+
		"%.1f %% more sends than by chance were that close behind another (accepted %s %%)",
		hole, at, longest, most, 1000*lumpWindow, worth, longest, 100*excess, percent(c.limit("lump_share")))
}

// hole is the longest time without a send, and whether chance explains it.
func (c *facts) hole(starts []float64, rate float64) (seconds, at float64, chance bool) {
	for i := 1; i < len(starts); i++ {
		if gap := starts[i] - starts[i-1]; gap > seconds {
			seconds, at = gap, starts[i-1]-starts[0]
		}
	}
	shape := c.shape()
	return seconds, at, !rare(shape, shape*rate*seconds, len(starts))
}

// lump is the largest number of requests that were sent within lumpWindow, 1 if there
// are never more than chance explains.
func (c *facts) lump(starts []float64, rate float64) int {
	shape, most, begin := c.shape(), 1, 0
	for i := range starts {
		for starts[i]-starts[begin] > lumpWindow {
			begin++
		}
		most = max(most, i-begin+1)
	}
	gaps := shape * float64(most-1)
	if over := shape * rate * lumpWindow; gaps <= over || !rare(gaps, over, len(starts)) {
		return 1
	}
	return most
}

// together is the share of the sends that came within lumpWindow behind another, beyond
// what chance explains; of a rate at which most do by chance, 0.
func (c *facts) together(starts []float64, rate float64) float64 {
	shape, n := c.shape(), 0
	for i := 1; i < len(starts); i++ {
		if starts[i]-starts[i-1] <= lumpWindow {
			n++
		}
	}
	expected := gammaShare(shape, shape*rate*lumpWindow)
	chance := lumpSigmas * math.Sqrt(expected*(1-expected)/float64(len(starts)))
	if rate*lumpWindow > 1 {
		return 0
	}
	return max(0, float64(n)/float64(len(starts))-expected-chance)
}

// gammaShare is the probability that a gamma variable of that shape and scale 1 is
// below x, by the series of the incomplete gamma function (Abramowitz and Stegun,
// 6.5.29); x is small.
func gammaShare(shape, x float64) float64 {
	sum, term := 0.0, 1/shape
	for k := 1.0; term > 1e-12*sum; k++ {
		sum += term
		term *= x / (shape + k)
	}
	return min(1, sum*math.Exp(-x+shape*math.Log(x))/math.Gamma(shape))
}

// shape is that of the gamma law of the gaps. What is more even than a Poisson process
// is judged like one.
func (c *facts) shape() float64 {
	if b := c.r.Config.Benchmark.Burstiness; b != nil && *b > 0 {
		return min(1, float64(*b))
	}
	return 1
}

// rare reports whether a gamma variable of that shape and scale 1 is, in none of n
// draws but by lumpRisk, as far from its mean as x (Chernoff's bound of either tail).
func rare(shape, x float64, n int) bool {
	return shape-x+shape*math.Log(x/shape)+math.Log(float64(n)) < math.Log(lumpRisk)
}

// A change is a request that begins or ends.
type change struct {
	at float64
	by int
}

// changes lists the begins and ends of requests in order; what ends at the time at
// which another begins, by the last digits of a clock, has ended.
func changes(list []span) []change {
	all := make([]change, 0, 2*len(list))
	for _, x := range list {
		all = append(all, change{x.start, 1}, change{max(x.start, x.end-readApart), -1})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	return all
}
