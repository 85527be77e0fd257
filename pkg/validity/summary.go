package validity

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// summaryDiffers holds the summary against the single requests beside it.
func summaryDiffers(c *facts) answer {
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	s := c.e.Samples
	if s == nil {
		return notPossible("the client saved no requests")
	}
	x := comparison{c: c}
	x.latency(result.TTFT, ofSuccesses(s, s.TTFT))
	x.latency(result.E2EL, ofSuccesses(s, s.Latency))
	x.latency(result.ITL, slices.Collect(gapsOf(s)))
	x.tpot(s)
	x.goodput(s)
	if len(s.InputLen) > 0 && c.m.TotalInputTokens != nil {
		sum := 0
		for i := range successes(s) {
			if i < len(s.InputLen) {
				sum += s.InputLen[i]
			}
		}
		x.compare("input tokens", float64(*c.m.TotalInputTokens), float64(sum), "tokens")
	}
	if x.compared == 0 {
		return notPossible("neither statistics nor requests to compare them with")
	}
	if len(x.bad) > 0 {
		return fail("%s (accepted %s %% apart)", list(x.bad), percent(c.limit("summary_deviation")))
	}
	return pass("%d statistics of %d requests agree with the single requests", x.compared, done)
}

// A comparison holds statistics against what the single requests give.
type comparison struct {
	c        *facts
	bad      []string
	compared int
}

// rounded is what a client's file may be off by rounding to two decimals, ms.
const rounded = 0.0051

func (x *comparison) compare(name string, reported, got float64, unit string) {
	x.compared++
	if off := math.Abs(reported - got); !(off <= x.c.limit("summary_deviation")*math.Abs(got)+rounded) {
		x.bad = append(x.bad, fmt.Sprintf("%s is %.6g %s, but the single requests give %.6g", name, reported, unit,
			got))
	}
}

// latency compares the mean and the percentiles of a family.
func (x *comparison) latency(f result.Family, seconds []float64) {
	reported := x.c.m.Latency[f].Mean
	if len(seconds) == 0 || reported == nil {
		return
	}
	sum := 0.0
	for _, v := range seconds {
		sum += v
	}
	x.compare("mean "+strings.ToUpper(string(f)), *reported, 1000*sum/float64(len(seconds)), "ms")
	x.percentiles(f, seconds)
}

// percentiles compares those of a family. Clients interpolate them in several ways,
// all between the neighbours of the rank.
func (x *comparison) percentiles(f result.Family, seconds []float64) {
	sorted := slices.Sorted(slices.Values(seconds))
	last := len(sorted) - 1
	reported := x.c.m.Latency[f].Percentiles
	for _, rank := range slices.Sorted(maps.Keys(reported)) {
		at := rank / 100 * float64(last)
		low, high := 1000*sorted[max(0, int(at)-1)], 1000*sorted[min(last, int(at)+2)]
		x.compare(result.PercentileName(rank)+" "+strings.ToUpper(string(f)), reported[rank],
			min(max(reported[rank], low), high), "ms")
	}
}

// tpot compares the time per output token. Most clients weight requests alike, others
// tokens; either will do for the mean, and percentiles are of requests.
func (x *comparison) tpot(s *result.Samples) {
	reported := x.c.m.Latency[result.TPOT].Mean
	if reported == nil || !hasTimes(s) {
		return
	}
	var each []float64
	var sum, time, tokens float64
	for i := range successes(s) {
		if more := float64(s.OutputLen[i] - 1); more > 0 {
			took := s.Latency[i] - s.TTFT[i]
			each = append(each, took/more)
			sum += took / more
			time += took
			tokens += more
		}
	}
	if len(each) == 0 {
		return
	}
	requests, weighted := 1000*sum/float64(len(each)), 1000*time/tokens
	if math.Abs(*reported-weighted) < math.Abs(*reported-requests) {
		requests = weighted
	}
	x.compare("mean TPOT", *reported, requests, "ms")
	x.percentiles(result.TPOT, each)
}

// hasTimes reports whether every request has its TTFT, its latency and its length.
func hasTimes(s *result.Samples) bool {
	return len(s.OutputLen) > 0 && len(s.TTFT) == len(s.OutputLen) && len(s.Latency) == len(s.OutputLen)
}

// goodput counts the requests within every limit. One as near to a limit as a
// statistic may be off is within it or not.
func (x *comparison) goodput(s *result.Samples) {
	reported, window := x.c.m.RequestGoodput, x.c.m.Duration
	limits := x.c.r.Config.Benchmark.Goodput
	if reported == nil || window == nil || *window <= 0 || len(limits) == 0 || !hasTimes(s) {
		return
	}
	within := func(factor, more float64) (n float64) {
		for i := range successes(s) {
			good := true
			for key, limit := range limits {
				var took float64
				switch result.Family(key) {
				case result.TTFT:
					took = s.TTFT[i]
				case result.E2EL:
					took = s.Latency[i]
				case result.TPOT: // 0 for an answer of one token, as vLLM counts it
					if s.OutputLen[i] > 1 {
						took = (s.Latency[i] - s.TTFT[i]) / float64(s.OutputLen[i]-1)
					}
				}
				good = good && 1000*took <= limit*factor+more
			}
			if good {
				n++
			}
		}
		return n / *window
	}
	off := x.c.limit("summary_deviation")
	least, most := within(1-off, -rounded), within(1+off, rounded)
	x.compare("goodput", *reported, min(max(*reported, least), most), "requests/s")
}

// gapsOf are those of successful requests, s.
func gapsOf(s *result.Samples) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		for i := range successes(s) {
			if i >= len(s.ITL) {
				return
			}
			for _, gap := range s.ITL[i] {
				if !yield(gap) {
					return
				}
			}
		}
	}
}

// gapSum is the sum of the gaps, s.
func gapSum(s *result.Samples) (sum float64) {
	for gap := range gapsOf(s) {
		sum += gap
	}
	return sum
}
