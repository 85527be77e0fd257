package validity

import (
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/result"
)

// What statistics of a report may be off each other where neither requests nor a window
// are known.
const (
	sumOfRates     = 0.02 // input and output tokens per s against their sum
	tokensPerRate  = 0.05 // output tokens per s against requests per s times their tokens
	loadByRate     = 0.05 // requests in flight by rate and latency, over the cap
	loadByTokens   = 0.25 // the same by tokens per s over those that were asked for, which may be counted apart
	latencyOfParts = 0.25 // mean E2EL against mean TTFT and TPOT: answers need not have one length
)

// withoutWindow is how rates and latencies of a report contradict each other, also where
// it says nothing of its window.
func (c *facts) withoutWindow() (bad []string) {
	if limit := c.concurrency(); limit > 0 && c.m.MeanConcurrentRequests != nil &&
		*c.m.MeanConcurrentRequests > float64(limit)*(1+c.limit("over_cap")) {
		bad = append(bad, fmt.Sprintf("the client reports %.4g requests in flight on average, but the cap is %d",
			*c.m.MeanConcurrentRequests, limit))
	}
	if c.imported() && c.m.Duration == nil {
		bad = append(bad, c.ratesApart()...)
		bad = append(bad, c.loadApart()...)
		bad = append(bad, c.latencyApart()...)
	}
	return bad
}

// perRequest are the output tokens of a request as they were counted; 0 if not known.
func (c *facts) perRequest() float64 {
	if n := c.m.CompletedRequests; n != nil && *n > 0 && c.m.TotalOutputTokens != nil {
		return float64(*c.m.TotalOutputTokens) / float64(*n)
	}
	return 0
}

func (c *facts) ratesApart() (bad []string) {
	m := c.m
	if in, out, all := m.InputThroughput, m.OutputThroughput, m.TotalTokenThroughput; in != nil && out != nil &&
		all != nil {
		if sum := *in + *out; math.Abs(sum-*all) > sumOfRates*math.Abs(*all) {
			bad = append(bad, fmt.Sprintf("input plus output is %.6g tokens per s, not %.6g", sum, *all))
		}
	}
	if per := c.perRequest(); per > 0 && m.RequestThroughput != nil && m.OutputThroughput != nil {
		if expected := *m.RequestThroughput * per; math.Abs(expected-*m.OutputThroughput) > tokensPerRate*expected {
			bad = append(bad, fmt.Sprintf("%.6g requests per s of %.6g tokens are %.6g tokens per s, not %.6g",
				*m.RequestThroughput, per, expected, *m.OutputThroughput))
		}
	}
	return bad
}

// loadApart is Little's law: requests per s times their latency are in flight, and they
// are no more than the cap.
func (c *facts) loadApart() []string {
	limit, latency := c.concurrency(), c.m.Latency[result.E2EL].Mean
	if limit == 0 || latency == nil {
		return nil
	}
	var rate float64
	allowed := loadByRate
	switch {
	case c.m.RequestThroughput != nil:
		rate = *c.m.RequestThroughput
	case c.m.OutputThroughput != nil && c.e.Planned.OutputTokens > 0:
		rate, allowed = *c.m.OutputThroughput/float64(c.e.Planned.OutputTokens), loadByTokens
	}
	if load := rate * *latency / 1000; load > float64(limit)*(1+allowed) {
		return []string{fmt.Sprintf("%.4g requests per s of %.6g ms are %.4g in flight, but the cap is %d", rate,
			*latency, load, limit)}
	}
	return nil
}

// latencyApart holds the mean latency against its parts: the first token, and the time
// per token of the others. No answer is longer than asked; how much shorter it is has to
// be known for the other side.
func (c *facts) latencyApart() []string {
	ttft, tpot, whole := c.m.Latency[result.TTFT].Mean, c.m.Latency[result.TPOT].Mean, c.m.Latency[result.E2EL].Mean
	asked := float64(c.e.Planned.OutputTokens)
	if ttft == nil || tpot == nil || whole == nil || asked < 2 {
		return nil
	}
	most := *ttft + (asked-1)**tpot
	if *whole > most*(1+latencyOfParts) {
		return []string{fmt.Sprintf("mean E2EL %.6g ms is above %.6g ms, the mean TTFT plus %.0f times the mean TPOT",
			*whole, most, asked-1)}
	}
	if per := c.perRequest(); per >= 0.95*asked && *whole < (*ttft+(per-1)**tpot)*(1-latencyOfParts) {
		return []string{fmt.Sprintf("mean E2EL %.6g ms is below %.6g ms, the mean TTFT plus %.4g times the mean TPOT",
			*whole, *ttft+(per-1)**tpot, per-1)}
	}
	return nil
}
