package validity

import (
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// leastSteps is the least sample in which values that are drawn freely come closer to
// each other than a clock's step: of 30 that spread over their median, two lie within
// 5 % of it but for once in 100,000 times.
const leastSteps = 30

// coarseClock looks for latencies that all lie whole steps apart.
func coarseClock(c *facts) answer {
	s := c.e.Samples
	if s == nil {
		return notPossible("the client saved no requests")
	}
	var bad []string
	looked := 0
	for _, x := range []struct {
		family result.Family
		values []float64
	}{{result.TTFT, ofSuccesses(s, s.TTFT)}, {result.ITL, someGaps(s)}, {result.E2EL, ofSuccesses(s, s.Latency)}} {
		if len(x.values) < leastSteps {
			continue
		}
		looked++
		if share := apart(x.values); share > c.limit("clock_share") {
			bad = append(bad, strings.ToUpper(string(x.family))+" "+percent(math.Round(1e4*share)/1e4)+" %")
		}
	}
	if looked == 0 {
		return notPossible("fewer than %d values of each latency were saved", leastSteps)
	}
	if len(bad) > 0 {
		return fail("the values are multiples of a clock step, in percent of their median: %s (accepted %s %%)",
			list(bad), percent(c.limit("clock_share")))
	}
	return pass("the values of %d latencies have steps below %s %% of their median", looked,
		percent(c.limit("clock_share")))
}

// apart is the least difference between two different values, as a share of their
// median; 1 if all are equal. What differs in the last bits is equal.
func apart(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 || sorted[len(sorted)-1] <= 0 {
		return 0
	}
	middle := stats.UpperMedian(sorted)
	if middle <= 0 {
		middle = sorted[len(sorted)-1]
	}
	return min(1, leastGap(sorted, 1e-7*middle)/middle)
}

// leastGap is the least difference above a bound between neighbours in a sorted list, infinite
// if there is none.
func leastGap(sorted []float64, above float64) float64 {
	least := math.Inf(1)
	for i := 1; i < len(sorted); i++ {
		if d := sorted[i] - sorted[i-1]; d > above {
			least = min(least, d)
		}
	}
	return least
}

// fewGaps is how many gaps are enough to see a clock's step.
const fewGaps = 4096

// someGaps are gaps of successful requests from all over the run.
func someGaps(s *result.Samples) []float64 {
	all, ok := s.Gaps()
	if !ok || all == 0 {
		return nil
	}
	every := (all + fewGaps - 1) / fewGaps
	var some []float64
	k := 0
	for i := range successes(s) {
		if i >= len(s.ITL) {
			break
		}
		for _, gap := range s.ITL[i] {
			if k%every == 0 {
				some = append(some, gap)
			}
			k++
		}
	}
	return some
}
