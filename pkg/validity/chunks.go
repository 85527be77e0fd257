package validity

import (
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/result"
)

// Bounds of itl-bundled that are part of the check.
const (
	bundledGap   = 0.1 // of the mean gap, and
	bundledMS    = 0.5 // ms: a token that comes sooner came with the one before
	stepMS       = 1   // ms: a median gap above is a step of the engine, and the mean is of prompts between the steps
	weighedApart = 1.5 // times: means over requests and over tokens differ by their weights
)

// itlBundled looks for several tokens in a chunk, and for several chunks at a time.
func itlBundled(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	itl, has := c.m.Latency[result.ITL]
	if !has {
		return notPossible("no ITL was reported")
	}
	findings, bad := "", false
	for _, look := range []func(*facts, int) (string, bool){perChunk, chunksTogether, mediansApart} {
		if text, wrong := look(c, done); text != "" {
			findings, bad = joined(findings, text), bad || wrong
		}
	}
	if findings == "" {
		return notPossible("neither ITL samples nor both medians were reported")
	}
	a := judged(bad, "%s", findings)
	for _, s := range itl.Statistics() {
		a.withheld = append(a.withheld, result.ITL.Key(s.Name))
	}
	return a
}

// outputTokens is how many output tokens the completed requests have, by the side that
// made them if it says so: what a client's tokenizer finds in a text is not what came
// in chunks.
func (c *facts) outputTokens() *int64 {
	if c.m.UsageOutputTokens != nil {
		return c.m.UsageOutputTokens
	}
	return c.m.TotalOutputTokens
}

// perChunk counts tokens per chunk. Without the number of chunks it is the mean gap
// over the time per token of all streams together.
func perChunk(c *facts, done int) (text string, bad bool) {
	tokens, d := c.outputTokens(), c.m.Latency[result.ITL]
	if tokens == nil || *tokens <= int64(done) {
		return "", false
	}
	more, accepted := float64(*tokens-int64(done)), c.limit("tokens_per_chunk")
	gaps, known := c.e.Samples.Gaps()
	if !known && d.N != nil {
		gaps = *d.N
	}
	var per float64
	switch first, whole, tpot := c.m.Latency[result.TTFT].Mean, c.m.Latency[result.E2EL].Mean, c.m.Latency[result.TPOT].Mean; {
	case gaps > 0:
		per = more / float64(gaps)
	case d.Mean == nil:
		return "", false
	case first != nil && whole != nil && *whole > *first:
		per = *d.Mean * more / (float64(done) * (*whole - *first))
	case tpot != nil && *tpot > 0:
		per, accepted = *d.Mean / *tpot, accepted*weighedApart
	default:
		return "", false
	}
	return fmt.Sprintf("%.3f tokens per chunk (accepted %.2f)", per, accepted), per > accepted
}

// chunksTogether counts the chunks that were read with the one before.
func chunksTogether(c *facts, _ int) (text string, bad bool) {
	s := c.e.Samples
	gaps, ok := s.Gaps()
	if !ok || gaps == 0 {
		return "", false
	}
	least, n := min(bundledGap*gapSum(s)/float64(gaps), bundledMS/1000), 0
	for i := range successes(s) {
		if i >= len(s.ITL) {
			break
		}
		for _, gap := range s.ITL[i] {
			if gap < least {
				n++
			}
		}
	}
	share := float64(n) / float64(gaps)
	return fmt.Sprintf("%s %% of the chunks arrived together with the previous one (accepted %s %%)",
			percent(math.Round(1e4*share)/1e4), percent(c.limit("bundled_share"))),
		share > c.limit("bundled_share")
}

// mediansApart compares the gap between chunks with the time per token.
func mediansApart(c *facts, _ int) (text string, bad bool) {
	itl, tpot := c.m.Latency[result.ITL].Median, c.m.Latency[result.TPOT].Median
	if itl == nil || tpot == nil {
		return "", false
	}
	return fmt.Sprintf("median ITL %.3f ms, median TPOT %.3f ms (accepted from a ratio of %.2f)", *itl, *tpot,
		c.limit("itl_share")), *itl < c.limit("itl_share")**tpot && *itl < stepMS
}
