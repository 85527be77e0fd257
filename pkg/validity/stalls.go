package validity

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// What a silence is compared with, beside the threshold: prompts that are computed
// alone, and engines whose every step is slow, are silent for as long each time.
const (
	silentGaps      = 20 // times the mean gap
	silentPrefills  = 3  // times the TTFT of a prompt that did not wait, while tokens are due
	silentTTFTs     = 10 // times the median TTFT, while only first tokens are due
	silentLatencies = 3  // times the median latency, if the gaps are not known
	unqueued        = 10 // percent: the TTFT of this rank is that of prompts that hardly waited
)

// stalled looks for time in which the service, the network or the client stood still.
func stalled(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	if s := c.e.Samples; s != nil {
		if a, ok := c.silence(s); ok {
			return a
		}
	}
	return withFirst(c.longestGap(), c.waitForFirst(done))
}

// silence answers from the single requests; ok is false if they lack the times.
func (c *facts) silence(s *result.Samples) (a answer, ok bool) {
	placed := len(s.Start) > 0 && len(s.Latency) == len(s.Start)
	if gaps, has := s.Gaps(); !placed && (!has || gaps == 0) {
		return a, false
	}
	between, first := c.accepted(s)
	text, bad := "", false
	if placed {
		q := longestQuiet(s, min(between, c.limit("gap_s")))
		accepted, what := max(between, float64(q.waiting)*silentPrefills*promptTime(s)), "no stream got a token"
		if !q.between {
			accepted, what = max(first, float64(q.waiting)*promptTime(s)), "no request got its first token"
		}
		bad = q.seconds > accepted
		text = fmt.Sprintf("the longest time in which %s was %.3f s, %.1f s after the first send (accepted %.2f s)",
			what, q.seconds, q.at, accepted)
		if !bad {
			text = fmt.Sprintf("%s for %.3f s at most (accepted %.2f s)", what, q.seconds, accepted)
		}
	}
	if gap, request := widestGap(s); request >= 0 {
		most := max(c.limit("gap_s"), between)
		bad = bad || gap > most
		text = joined(text, fmt.Sprintf("the longest gap between two tokens of a stream was %.3f s, in request %d (accepted %.2f s)", gap, request+1, most))
	}
	return judged(bad, "%s", text), true
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// accepted is the longest silence that is taken for honest, s: while tokens of
// running streams are due, and while only first tokens are.
func (c *facts) accepted(s *result.Samples) (between, first float64) {
	least := c.limit("stall_s")
	latencies, ttfts := ofSuccesses(s, s.Latency), ofSuccesses(s, s.TTFT)
	between, first = least, least
	if n, ok := s.Gaps(); ok && n > 0 {
		between = max(between, silentGaps*gapSum(s)/float64(n), silentPrefills*promptTime(s))
	} else if len(latencies) > 0 {
		between = max(between, silentLatencies*stats.MiddleMean(latencies))
	}
	switch {
	case len(ttfts) > 0:
		first = max(first, silentTTFTs*stats.MiddleMean(ttfts))
	case len(latencies) > 0:
		first = max(first, silentLatencies*stats.MiddleMean(latencies))
	}
	return between, first
}

// promptTime is the TTFT of prompts that hardly waited for others, s; 0 if not known.
func promptTime(s *result.Samples) float64 {
	ttfts := slices.Sorted(slices.Values(ofSuccesses(s, s.TTFT)))
	if len(ttfts) == 0 {
		return 0
	}
	return ttfts[len(ttfts)*unqueued/100]
}

// widestGap returns the longest gap of a successful request, and which; -1 if no gaps
// were saved.
func widestGap(s *result.Samples) (gap float64, request int) {
	gap, request = math.Inf(-1), -1
	for i := range successes(s) {
		if i >= len(s.ITL) {
			break
		}
		for _, x := range s.ITL[i] {
			if x > gap {
				gap, request = x, i
			}
		}
	}
	return gap, request
}

// A quiet time is one in which requests were in flight and none got a token.
type quiet struct {
	seconds, at float64 // at: from the first send
	between     bool    // streams that had begun were among them
	// requests that waited for their first token when it began: an engine that computes whole
	// prompts is silent for all of them
	waiting int
}

// A turn is a moment at which a stream begins, gets a token around a silence, or ends.
type turn struct {
	at                         float64
	open, streaming, receiving int // changes of how many are
	token                      bool
}

// longestQuiet returns the longest quiet time behind the first token of all, which cold-start
// judges. Of a stream's gaps only those of at least
// that many seconds count, which are few; between the others it is receiving.
// Where gaps were not saved, a stream's time behind its first token counts as one.
func longestQuiet(s *result.Samples, least float64) (longest quiet) {
	turns := turnsOf(s, least)
	open, streaming, receiving := 0, 0, 0
	since, begin, waiting, answered := 0.0, math.Inf(1), 0, false
	for _, t := range turns {
		begin = min(begin, t.at)
		if answered && open > 0 && receiving == 0 {
			if streaming == 0 {
				waiting = open // all that came meanwhile are computed together
			}
			q := quiet{seconds: t.at - since, at: since - begin, between: streaming > 0, waiting: waiting}
			// A silence while tokens are due says more than one before the first.
			if q.seconds > longest.seconds && (q.between || !longest.between) ||
				q.between && !longest.between && q.seconds > least {
				longest = q
			}
		}
		answered = answered || t.token
		fresh := t.token || open == 0 || receiving > 0
		open, streaming, receiving = open+t.open, streaming+t.streaming, receiving+t.receiving
		if fresh {
			since, waiting = t.at, open-streaming
		}
	}
	return longest
}

// turnsOf lists the moments of all successful requests in order.
func turnsOf(s *result.Samples, least float64) []turn {
	var turns []turn
	known := len(s.ITL) > 0
	for i := range successes(s) {
		start, end := s.Start[i], s.Start[i]+s.Latency[i]
		turns = append(turns, turn{at: start, open: 1})
		if i >= len(s.TTFT) {
			turns = append(turns, turn{at: end, open: -1, token: true})
			continue
		}
		at, receives := start+s.TTFT[i], 0
		if known && i < len(s.ITL) && len(s.ITL[i]) > 0 {
			receives = 1
		}
		turns = append(turns, turn{at: at, streaming: 1, receiving: receives, token: true})
		if receives == 1 {
			for _, gap := range s.ITL[i] {
				if gap >= least {
					turns = append(turns, turn{at: at, receiving: -1, token: true},
						turn{at: at + gap, receiving: 1, token: true})
				}
				at += gap
			}
		}
		turns = append(turns, turn{at: max(at, end), open: -1, streaming: -1, receiving: -receives, token: true})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	return turns
}

// longestGap answers from the statistics of the gaps.
func (c *facts) longestGap() answer {
	d := c.m.Latency[result.ITL]
	if d.Mean == nil {
		return notPossible("neither single requests nor an ITL were reported")
	}
	if d.Max != nil {
		most := 1000 * max(c.limit("gap_s"), silentGaps**d.Mean/1000)
		return judged(*d.Max > most, "the longest gap between two tokens was %.6g ms (accepted %.6g)", *d.Max, most)
	}
	tail, share, ok := tailOf(d)
	if !ok {
		return notPossible("neither the longest gap nor a standard deviation and a percentile of the ITL were reported")
	}
	most := 1000 * max(c.limit("stall_s"), silentGaps**d.Mean/1000)
	return judged(tail > most,
		"by the standard deviation, the longest %s %% of the gaps between tokens have a root mean square of at least %.6g ms (accepted %.6g)",
		percent(share), tail, most)
}

// tailOf returns the least root mean square that the values above the highest percentile
// can have, ms, and which share of all they are: that percentile, or what of the mean
// square the others, of which none is larger, cannot explain.
func tailOf(d result.Distribution) (least, share float64, ok bool) {
	if d.Std == nil || d.Mean == nil {
		return 0, 0, false
	}
	rank := math.Inf(-1)
	for p := range d.Percentiles {
		if p > rank && p < 100 {
			rank = p
		}
	}
	if rank < 50 {
		return 0, 0, false
	}
	top := d.Percentiles[rank]
	share = 1 - rank/100
	square := *d.Std**d.Std + *d.Mean**d.Mean - (1-share)*top*top
	return max(top, math.Sqrt(max(0, square)/share)), share, true
}
