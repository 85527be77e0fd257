package validity

import (
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

// waitForFirst answers from the statistics of the TTFT whether requests waited for their first
// token for longer than an honest load explains. The statistics tell neither when the requests
// waited nor whether others got tokens meanwhile, so it fails only for what neither a queue nor
// a long prompt explains, and passes only if no TTFT can be longer than the single requests
// would be allowed. Everything between is not possible to say.
func (c *facts) waitForFirst(done int) answer {
	d := c.m.Latency[result.TTFT]
	median, ok := d.Percentile(50)
	if !ok {
		return notPossible("without single requests or a median TTFT, waits for first tokens are not known")
	}
	least, most := longest(d, done)
	if least > most {
		return notPossible("the statistics of the TTFT contradict each other")
	}
	short := max(1000*c.limit("stall_s"), silentTTFTs*median)
	if most <= short {
		return pass("no request waited for its first token for more than %.3f s (accepted %.2f s)", most/1000,
			short/1000)
	}
	accepted, why := c.longestWait(done, median, short)
	switch {
	case least <= short:
		return notPossible("without single requests, stalls before first tokens cannot be excluded")
	case why != "":
		return notPossible("a request waited for its first token for %.3f s or more, which may be honest: %s",
			least/1000, why)
	case least <= accepted:
		return notPossible("a request waited for its first token for %.3f s or more, which a queue may explain",
			least/1000)
	}
	return fail("a request waited for its first token for %.3f s or more (accepted %.2f s), at a median TTFT of %.3f s: "+
		"an outage or a cold start", least/1000, accepted/1000, median/1000)
}

// longestWait returns the longest TTFT, ms, that a queue explains in a load whose median request
// hardly waited: behind the prompts of all others in flight, or for a seat that answers of the
// usual length hold. It says why if that is not known.
func (c *facts) longestWait(done int, median, short float64) (accepted float64, why string) {
	if c.e.Planned.InputTokens == 0 {
		return 0, "the prompts have no fixed length"
	}
	inFlight := float64(c.concurrency())
	if peak := c.m.MaxConcurrentRequests; inFlight == 0 && peak != nil {
		inFlight = *peak
	}
	if inFlight == 0 {
		return 0, "the number of requests in flight is not known"
	}
	accepted = max(short, silentPrefills*inFlight*median)
	if c.seated(done) {
		return accepted, ""
	}
	latency, ok := c.medianLatency(median)
	if !ok {
		return 0, "the latency of whole requests is not known"
	}
	return max(accepted, silentLatencies*latency), ""
}

// seated reports whether a small median TTFT proves that the engine had a seat for every request:
// if the cap alone limits a load of equal requests on one engine that has fewer seats than the
// cap, all but the first requests wait for one, and the median is such a wait.
func (c *facts) seated(done int) bool {
	limit, p := c.concurrency(), c.e.Planned
	if limit == 0 || c.rate() > 0 || done < 2*limit || !p.IgnoreEOS || p.OutputTokens == 0 || c.r.Placement == nil {
		return false
	}
	return !slices.ContainsFunc(c.r.Placement.Roles, func(r result.PlacedRole) bool { return r.Replica > 0 })
}

// medianLatency is the median of the whole latency, ms, or what TTFT and TPOT say of it.
func (c *facts) medianLatency(ttft float64) (float64, bool) {
	if whole, ok := c.m.Latency[result.E2EL].Percentile(50); ok {
		return whole, true
	}
	tpot, ok := c.m.Latency[result.TPOT].Percentile(50)
	tokens := c.perRequest()
	return ttft + tpot*max(0, tokens-1), ok && tokens > 0
}

// longest returns the least and the most that the longest of n values can be. Values that are
// not negative have one of at least their mean square by their mean, and none lies further above
// the mean than the standard deviation times the root of n-1.
func longest(d result.Distribution, n int) (least, most float64) {
	if d.Max != nil {
		return *d.Max, *d.Max
	}
	for _, v := range d.Percentiles {
		least = max(least, v)
	}
	if d.Mean == nil || d.Std == nil || *d.Mean <= 0 {
		return least, math.Inf(1)
	}
	mean, std := *d.Mean, *d.Std
	if tail, _, ok := tailOf(d); ok {
		least = max(least, tail)
	}
	return max(least, mean+std*std/mean), mean + std*math.Sqrt(float64(max(n, 1)-1))
}

// withFirst joins what is known of the gaps between tokens with what is known of first tokens:
// both halves must pass.
func withFirst(gaps, first answer) answer {
	a := answer{outcome: result.Pass, detail: fmt.Sprintf("%s; %s", gaps.detail, first.detail)}
	for _, outcome := range []result.Outcome{result.NotPossible, result.Fail} { // the last decides
		if gaps.outcome == outcome || first.outcome == outcome {
			a.outcome = outcome
		}
	}
	return a
}
