package validity

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// What sums of statistics may be off: those of clients whose definitions are known, and
// those of other programs, which count tokens in their own ways.
const (
	partsSlack   = 0.002 // of the mean E2EL
	partsSlackMS = 1     // ms
	gapsSlack    = 0.25  // of the time behind the first tokens, as tokens of an answer may be counted otherwise
	othersSlack  = 0.1   // of the mean E2EL, of an imported file
	othersMS     = 10    // ms, the same: from the last token to the end of the stream
)

// impossibleParts holds TTFT and TPOT or ITL against E2EL, which is their sum in each
// request: E2EL = TTFT + (n-1) TPOT for n tokens.
func (c *facts) impossibleParts(done int) (bad []string) {
	first, whole := c.m.Latency[result.TTFT].Mean, c.m.Latency[result.E2EL].Mean
	if s := c.e.Samples; s != nil && len(s.TTFT) > 0 && len(s.Latency) > 0 && len(s.OutputLen) > 0 {
		return nil // summary-differs looks at each request
	}
	if first == nil || whole == nil || c.m.TotalOutputTokens == nil || c.m.CutRequests != nil || *first <= 0 {
		return nil
	}
	out, rest := float64(*c.outputTokens()), *whole-*first
	more := (out - float64(done)) / float64(done) // tokens of an answer after the first, mean
	if more <= 0 {
		return nil
	}
	tpot := c.m.Latency[result.TPOT]
	switch {
	case c.imported():
		slack := othersSlack**whole + othersMS
		bad = c.partsBeyond(tpot, rest, more, slack)
		// More gaps than answers are single ones, and none of them may be missing.
		if itl := c.m.Latency[result.ITL]; itl.Mean != nil && itl.N != nil && *itl.N >= 2*done {
			if sum := *itl.Mean * float64(*itl.N) / float64(done); rest-sum > slack {
				bad = append(bad,
					fmt.Sprintf("mean E2EL minus mean TTFT is %.6g ms, but the gaps of an answer are %.6g ms", rest,
						sum))
			}
		}
	case measured(tpot) && c.equalAnswers(done):
		slack := partsSlack**whole + partsSlackMS
		if c.m.FromLog {
			slack += logRounding * (more + 2)
		}
		if sum := *first + more**tpot.Mean; math.Abs(sum-*whole) > slack {
			bad = append(bad, fmt.Sprintf("mean TTFT %.6g ms plus %.0f times mean TPOT %.6g ms is %.6g ms, but mean E2EL is %.6g ms", *first, more, *tpot.Mean, sum, *whole))
		}
	}
	// Each gap is that before one token or several, so that there are at most as many gaps as
	// tokens.
	if itl := c.m.Latency[result.ITL]; measured(itl) && !c.imported() &&
		*itl.Mean*more < (1-gapsSlack)*rest-partsSlackMS {
		bad = append(bad, fmt.Sprintf("mean ITL %.6g ms, %.4g times per answer, is less than mean E2EL minus mean TTFT, %.6g ms", *itl.Mean, more, rest))
	}
	return bad
}

// measured reports whether a family has values: of answers that were not streamed a
// client writes zeros.
func measured(d result.Distribution) bool { return d.Mean != nil && *d.Mean != 0 }

// partsBeyond compares the time behind the first tokens with what the least and the
// largest TPOT allow for all of them.
func (c *facts) partsBeyond(tpot result.Distribution, rest, more, slack float64) (bad []string) {
	if tpot.Max != nil && rest-*tpot.Max*more > slack {
		bad = append(bad, fmt.Sprintf("mean E2EL minus mean TTFT is %.6g ms, more than %.4g times the largest TPOT %.6g ms", rest, more, *tpot.Max))
	}
	if tpot.Min != nil && *tpot.Min*more-rest > slack {
		bad = append(bad, fmt.Sprintf("mean E2EL minus mean TTFT is %.6g ms, less than %.4g times the smallest TPOT %.6g ms", rest, more, *tpot.Min))
	}
	return bad
}

// equalAnswers reports whether all answers are known to have one length: none has more
// than planned, and together they have as many.
func (c *facts) equalAnswers(done int) bool {
	p := c.e.Planned
	return p.IgnoreEOS && p.OutputTokens > 1 && *c.m.TotalOutputTokens == int64(p.OutputTokens)*int64(done) &&
		*c.outputTokens() == *c.m.TotalOutputTokens
}

// What statistics of one sample may be off each other.
const (
	medianSlack = 0.02 // of the median, as programs interpolate percentiles in their ways
	spreadSlack = 0.02 // of the standard deviation, and half of it of the mean
	stdOfRange  = 0.71 // two values have sqrt(1/2) of their range, more have less
	leastOf     = 20   // values, from which on neighbours lie close together
)

// impossibleSpread looks for means, medians and standard deviations of one family that
// no sample has. A mean is never further from the median than the standard deviation,
// which is at most half the range, or stdOfRange of it for the sample that it is of.
func (c *facts) impossibleSpread(f result.Family, n int) (bad []string) {
	d, name := c.m.Latency[f], strings.ToUpper(string(f))
	slack := 0.0
	if c.m.FromLog {
		slack = 2 * logRounding
	}
	if p, ok := d.Percentiles[50]; ok && d.Median != nil && n >= leastOf {
		if off := math.Abs(p - *d.Median); off > medianSlack*math.Abs(p)+slack {
			bad = append(bad, fmt.Sprintf("median %s is %.6g ms, but its 50th percentile is %.6g ms", name,
				*d.Median, p))
		}
	}
	if d.Std == nil || !(*d.Std >= 0) || n < 2 {
		return bad
	}
	if d.Mean != nil && d.Median != nil {
		if off := math.Abs(*d.Mean - *d.Median); off > *d.Std*(1+spreadSlack)+spreadSlack/2**d.Mean+slack {
			bad = append(bad, fmt.Sprintf("mean and median %s are %.6g ms apart, but the standard deviation is only %.6g ms", name, off, *d.Std))
		}
	}
	most := math.Inf(1)
	if c.m.Duration != nil && c.m.CutRequests == nil {
		most = 1000 * (*c.m.Duration + slackS)
	}
	if d.Max != nil {
		most = min(most, *d.Max)
	}
	if d.Max != nil && d.Min != nil {
		most = stdOfRange * (*d.Max - *d.Min)
	}
	if *d.Std > most*(1+spreadSlack)+slack {
		bad = append(bad, fmt.Sprintf("standard deviation of %s is %.6g ms, but its range allows at most %.6g ms", name,
			*d.Std, most))
	}
	return bad
}

// impossibleExtras lists peaks, goodput and shares of drafts that contradict the counts
// beside them.
func (c *facts) impossibleExtras(done int) (bad []string) {
	m := c.m
	failed, _, known := c.failed()
	if peak := m.MaxConcurrentRequests; peak != nil && known {
		if most := float64(done + failed + c.e.Planned.Warmups + possibleProbes); *peak > 2*most ||
			*peak > most && !c.imported() {
			bad = append(bad, fmt.Sprintf("max_concurrent_requests is %.6g, but there were %d requests", *peak,
				done+failed))
		}
	}
	if peak := m.MaxOutputTokensPerS; peak != nil && m.TotalOutputTokens != nil && failed == 0 && !c.imported() {
		// It counts events of streams, some of which hold no token.
		if out := float64(*m.TotalOutputTokens); *peak > 3*(out+float64(done)) {
			bad = append(bad, fmt.Sprintf("max_output_tokens_per_s is %.6g, but there were %.0f tokens", *peak, out))
		}
	}
	if good, all := m.RequestGoodput, m.RequestThroughput; good != nil && all != nil && m.CutRequests == nil {
		if *good > *all*(1+c.limit("rate_deviation"))+logRounding {
			bad = append(bad, fmt.Sprintf("request_goodput %.6g/s is above request_throughput %.6g/s", *good, *all))
		}
	}
	return append(bad, impossibleSpeculation(&m.Speculation)...)
}

// impossibleSpeculation lists shares of accepted tokens above all of them.
func impossibleSpeculation(s *result.Speculation) (bad []string) {
	if v := s.AcceptanceRate; v != nil && *v > 100.01 {
		bad = append(bad, fmt.Sprintf("spec_decode_acceptance_rate is %.6g %%", *v))
	}
	if a, d := s.AcceptedTokens, s.DraftTokens; a != nil && d != nil && *a > *d {
		bad = append(bad, fmt.Sprintf("spec_decode_accepted_tokens is %d, but only %d tokens were drafted", *a, *d))
	}
	for i, v := range s.PerPosition {
		if v > 1.0001 {
			bad = append(bad, fmt.Sprintf("spec_decode_per_position_acceptance_rates has %.6g at position %d", v, i))
		}
	}
	return bad
}

// otherLoad lists what the client says that it was asked, and was not. A rate that rises
// is written in several ways.
func (c *facts) otherLoad() (bad []string) {
	p, m := c.e.Planned, c.m
	if c.imported() {
		return nil
	}
	if model := c.e.GivenModel; model != "" && p.Model != "" && path.Clean(model) != path.Clean(p.Model) &&
		!c.e.served(model) {
		bad = append(bad, fmt.Sprintf("the client was given the model %q, but %q was planned", model, p.Model))
	}
	if n := m.NumPrompts; n != nil && p.NumPrompts > 0 && *n != p.NumPrompts && requestsMissing(c).
		outcome == result.Pass {
		bad = append(bad, fmt.Sprintf("the client was given %d requests, but %d were planned", *n, p.NumPrompts))
	}
	if n := m.MaxConcurrency; n != nil && p.Concurrency > 0 && *n != p.Concurrency {
		bad = append(bad, fmt.Sprintf("the client was given a cap of %d, but %d was planned", *n, p.Concurrency))
	}
	if r := m.RequestRate; r != nil && p.RequestRate > 0 && c.r.Config.Benchmark.Arrivals != result.Rising {
		if off := math.Abs(float64(*r) - p.RequestRate); !(off <= 0.001*p.RequestRate+2*logRounding) {
			bad = append(bad, fmt.Sprintf("the client was given a rate of %g/s, but %g/s was planned", float64(*r),
				p.RequestRate))
		}
	}
	return bad
}
