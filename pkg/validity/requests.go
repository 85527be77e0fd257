package validity

import (
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

func noSuccess(c *facts) answer {
	if c.m.CompletedRequests == nil {
		return notPossible("the client did not report the number of completed requests")
	}
	done := *c.m.CompletedRequests
	return judged(done <= 0, "%d requests completed", done)
}

func noTokens(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalOutputTokens == nil {
		return notPossible("the client reported no output tokens")
	}
	empty := 0
	if s := c.e.Samples; s != nil {
		for i, n := range s.OutputLen {
			if n == 0 && !s.Failed(i) {
				empty++
			}
		}
	}
	out := *c.m.TotalOutputTokens
	return judged(out <= 0 || empty > 0, "%d output tokens in %d requests; %d answers were empty", out, done, empty)
}

// failed returns the number of failed requests; derived says that the client
// did not report it.
func (c *facts) failed() (n int, derived, ok bool) {
	if c.m.FailedRequests != nil {
		return *c.m.FailedRequests, slices.Contains(c.m.Derived, "failed_requests"), true
	}
	return 0, false, false
}

func requestsMissing(c *facts) answer {
	if cut := c.warnings(result.CutShort); len(cut) > 0 {
		return fail("%s", list(cut))
	}
	if c.m.CompletedRequests == nil {
		return notPossible("the client did not report the number of completed requests")
	}
	failed, derived, ok := c.failed()
	if !ok || derived {
		return notPossible("the client did not report the number of failed requests")
	}
	planned := c.planned()
	if planned == 0 {
		return notPossible("the number of planned requests is not known")
	}
	done := *c.m.CompletedRequests
	return judged(done+failed != planned, "%d completed + %d failed of %d planned", done, failed, planned)
}

func requestErrors(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	failed, _, ok := c.failed()
	if !ok {
		return notPossible("the number of failed requests is not known")
	}
	share := float64(failed) / float64(done+failed)
	return judged(share > c.limit("failed_share"), "%d of %d requests failed (%.2f %%, accepted %.2f %%)",
		failed, done+failed, 100*share, 100*c.limit("failed_share"))
}

func outputLength(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalOutputTokens == nil || *c.m.TotalOutputTokens <= 0 {
		return notPossible("no output tokens, see no-tokens")
	}
	p := c.e.Planned
	total, by := c.answered(done)
	perRequest := float64(total) / float64(done)
	switch {
	case p.IgnoreEOS && p.OutputTokens > 0:
		off := perRequest/float64(p.OutputTokens) - 1
		short, share := c.shortAnswers(done, by)
		return judged(math.Abs(off) > c.limit("output_deviation") || share > c.limit("short_share"),
			"%.2f tokens per request%s, %d planned (%+.2f %%, accepted %.2f %%)%s",
			perRequest, by, p.OutputTokens, 100*off, 100*c.limit("output_deviation"), short)
	case p.OutputTokens > 0 && float64(p.OutputTokens) < c.limit("output_tokens"):
		return notPossible("answers of %d token were planned without ignore-eos", p.OutputTokens)
	}
	least := c.limit("output_tokens")
	return judged(perRequest < least, "%.2f tokens per request%s (accepted from %s)", perRequest, by, plain(least))
}

// answered is how many output tokens there are, by the client, whose single answers are known too. Where a length
// is planned that every answer must have, the server's usage counts instead if the server's number fits the plan and
// the client's does not: a client that counts with a tokenizer of its own finds other tokens in the same text. That
// the sides differ is what token-books says. by names the server, and is "" for the client.
func (c *facts) answered(done int) (total int64, by string) {
	total = *c.m.TotalOutputTokens
	p, served := c.e.Planned, c.m.UsageOutputTokens
	if served == nil || !p.IgnoreEOS || p.OutputTokens <= 0 {
		return total, ""
	}
	fits := func(n int64) bool {
		return math.Abs(float64(n)/float64(done)/float64(p.OutputTokens)-1) <= c.limit("output_deviation")
	}
	if fits(*served) && !fits(total) {
		return *served, " by the server's usage"
	}
	return total, ""
}

// shortAnswers is the share of the answers that ended before half of the planned tokens, which a mean of many
// requests hides. The client counts the single answers: it is not asked where its count is not the one that fits.
func (c *facts) shortAnswers(done int, by string) (text string, share float64) {
	s := c.e.Samples
	if s == nil || len(s.OutputLen) == 0 || by != "" {
		return "", 0
	}
	n := 0
	for i := range successes(s) {
		if i < len(s.OutputLen) && s.OutputLen[i] > 0 && 2*s.OutputLen[i] < c.e.Planned.OutputTokens { // see no-tokens
			n++
		}
	}
	share = float64(n) / float64(done)
	return fmt.Sprintf("; %d of %d answers have less than half the planned tokens (accepted %s %%)", n, done,
		percent(c.limit("short_share"))), share
}

func inputLength(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if c.m.TotalInputTokens == nil {
		return notPossible("the client reported no input tokens")
	}
	total := *c.m.TotalInputTokens
	if total <= 0 {
		return fail("%d input tokens in %d requests", total, done)
	}
	planned := c.e.Planned.InputTokens
	if planned == 0 {
		return notPossible("no fixed prompt length was planned")
	}
	got := float64(total) / float64(done)
	off := got/float64(planned) - 1
	return judged(math.Abs(off) > c.limit("input_deviation"),
		"%.2f tokens per request, %d planned (%+.2f %%, accepted %.2f %%)",
		got, planned, 100*off, 100*c.limit("input_deviation"))
}

func impossibleSpeed(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	tpot := c.m.Latency[result.TPOT].Mean
	if c.m.TotalOutputTokens == nil || tpot == nil || *tpot <= 0 {
		return notPossible("no output tokens, or no mean TPOT")
	}
	busy, ok := c.e.Samples.TotalLatency() // s of all requests together
	if mean := c.m.Latency[result.E2EL].Mean; !ok && mean != nil {
		busy, ok = *mean/1000*float64(done), true
	}
	if !ok || busy <= 0 {
		return notPossible("neither latencies nor a mean E2EL were reported")
	}
	// A request waits for its first token, and a TPOT for each that follows: O-D tokens take that long, at most L.
	later := max(0, *c.m.TotalOutputTokens-int64(done))
	ratio := float64(later) * *tpot / 1000 / busy
	return judged(ratio > c.limit("speed_ratio"),
		"%d tokens after the first of %.3f ms in %.3f s of requests: %.2f times what fits (accepted %.2f)",
		later, *tpot, busy, ratio, c.limit("speed_ratio"))
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
