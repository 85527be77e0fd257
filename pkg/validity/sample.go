package validity

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/result"
)

// minSample is the least n with p^n <= risk: below it the sample
// holds no value beyond the percentile with that confidence (one-sided).
func minSample(rank, risk float64) int {
	p := rank / 100
	if p <= 0 || p >= 1 {
		return 1
	}
	return int(math.Ceil(math.Log(risk)/math.Log(p) - 1e-9))
}

// SampleFrom is the least number of values whose percentile of a rank is believed.
func (l Limits) SampleFrom(rank float64) int {
	risk, set := l["percentile_risk"]
	if !set {
		risk = percentileRisk
	}
	return minSample(rank, risk)
}

func tooFew(c *facts) answer {
	if o := c.m.Offline; o != nil {
		return offlineTooFew(o, c.limit("percentile_risk"))
	}
	done, why := c.completed()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad, keys []string
	checked := 0
	for _, f := range result.Families() {
		d := c.m.Latency[f]
		n, known := c.sampleSize(f, d, done)
		atMost := "at most "
		if known {
			atMost = ""
		}
		for _, rank := range slices.Sorted(maps.Keys(d.Percentiles)) {
			checked++
			if need := minSample(rank, c.limit("percentile_risk")); n < need {
				key := f.Key(result.PercentileName(rank))
				bad = append(bad, fmt.Sprintf("%s needs %d, has %s%d", key, need, atMost, n))
				keys = append(keys, key)
			}
		}
	}
	if checked == 0 {
		return notPossible("no percentile was reported")
	}
	a := pass("%d percentiles have enough samples", checked)
	if len(bad) > 0 {
		a = fail("%s", list(bad))
	}
	a.withheld = keys
	return a
}

// sampleSize returns the size of a family's sample, or the most it can be.
func (c *facts) sampleSize(f result.Family, d result.Distribution, done int) (n int, known bool) {
	if d.N != nil {
		return *d.N, true
	}
	if f == result.ITL && c.m.TotalOutputTokens != nil {
		return int(*c.m.TotalOutputTokens) - done, false
	}
	return done, false
}
