package validity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/result"
)

// offlineTooFew is n-too-small for iterations.
func offlineTooFew(o *result.Offline, risk float64) answer {
	var bad, keys []string
	checked := 0
	for _, t := range o.Timings() {
		for _, rank := range slices.Sorted(maps.Keys(t.Percentiles)) {
			p, err := strconv.ParseFloat(rank, 64)
			if err != nil || t.N == nil {
				continue
			}
			checked++
			if need := minSample(p, risk); *t.N < need {
				_, key, _ := t.Percentile(rank)
				bad = append(bad, fmt.Sprintf("%s needs %d, has %d", key, need, *t.N))
				keys = append(keys, key)
			}
		}
	}
	if checked == 0 {
		return notPossible("no percentile was reported with its number of iterations")
	}
	a := judged(len(bad) > 0, "%s", cmp.Or(list(bad), fmt.Sprintf("%d percentiles have enough iterations", checked)))
	a.withheld = keys
	return a
}

// offlineContradictions lists how the numbers contradict each other.
func offlineContradictions(o *result.Offline, fromLog bool, deviation float64) (bad []string, compared int) {
	if t := o.Throughput; t != nil {
		more, n := throughputContradictions(t, fromLog, deviation)
		bad, compared = append(bad, more...), n
	}
	for _, t := range o.Timings() {
		if t.Mean != nil && len(t.Values) > 0 {
			compared++
			sum := 0.0
			for _, v := range t.Values {
				sum += v
			}
			if mean := sum / float64(len(t.Values)); math.Abs(*t.Mean-mean) > deviation*mean {
				bad = append(bad, fmt.Sprintf("%s: mean %.6g s, but its values give %.6g s", t.Name, *t.Mean, mean))
			}
		}
		bad = append(bad, timingDisorder(t)...)
	}
	return bad, compared
}

func timingDisorder(t result.NamedTiming) []string {
	byRank := map[float64]float64{}
	for name, v := range t.Percentiles {
		if rank, err := strconv.ParseFloat(name, 64); err == nil {
			byRank[rank] = v
		}
	}
	ranks := slices.Sorted(maps.Keys(byRank))
	for i := 1; i < len(ranks); i++ {
		if a, b := byRank[ranks[i-1]], byRank[ranks[i]]; b < a-1e-9*math.Abs(a) {
			return []string{fmt.Sprintf("%s: %.6g s at rank %g is above %.6g s at rank %g", t.Name, a, ranks[i-1], b,
				ranks[i])}
		}
	}
	return nil
}

func throughputContradictions(t *result.OfflineThroughput, fromLog bool,
	deviation float64) (bad []string, compared int) {
	if t.Duration == nil {
		return nil, 0
	}
	for _, x := range []struct {
		key   string
		rate  *float64
		total *int64
	}{
		{"request_throughput", t.RequestThroughput, t.Requests},
		{"total_token_throughput", t.TotalTokenThroughput, t.TotalTokens},
		{"output_throughput", t.OutputThroughput, t.OutputTokens},
	} {
		if x.rate == nil || x.total == nil {
			continue
		}
		compared++
		allowed := deviation * math.Abs(float64(*x.total))
		if fromLog {
			allowed += logRounding * *t.Duration
		}
		if got := *x.rate * *t.Duration; !(math.Abs(got-float64(*x.total)) <= allowed) {
			bad = append(bad, fmt.Sprintf("throughput.%s %.4g x %.4g s is %.6g, not %d", x.key, *x.rate, *t.Duration,
				got, *x.total))
		}
	}
	return bad, compared
}
