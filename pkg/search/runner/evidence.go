package runner

import (
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search"
)

// Evidence is what a record at a load says about the limits. Why says, of a probe that is no
// evidence, what is wrong with it, and of one that is, which limit needs more load.
type Evidence struct {
	search.Probe
	Why string
	Low bool // a rate is below its limit because too little was asked for
}

// clearly is a margin that leaves no doubt.
const clearly = 5

// Of judges a record that was measured at a load.
func Of(limits []metric.Limit, load float64, r *result.Result) Evidence {
	e := Evidence{Probe: search.Probe{Value: load}}
	for _, l := range limits {
		v := l.Metric.Of(r)
		switch {
		case v.Withheld:
			return e.no(l.Metric.Key + " is withheld: a check does not believe it")
		case v.Number == nil:
			return e.no(l.Metric.Key + " is absent")
		}
		m, low := margin(l, *v.Number, r)
		if low {
			e.Low, e.Why = true, l.String()+" needs more load"
		}
		e.Margins = append(e.Margins, m)
	}
	if why := doubt(r.Validity, e.Holds()); why != "" {
		return e.no(why)
	}
	return e
}

// overloads are the words of failed checks that do not excuse a limit that fails: less load came
// through than was asked for, or a queue grew. The limit fails all the more at the load itself.
var overloads = []string{"load-not-reached", "not-steady"}

// doubt says why a judged record is no evidence, "" if it is.
func doubt(v *result.Validity, holds bool) string {
	if v == nil {
		return "not judged"
	}
	for _, c := range v.Checks {
		switch bad := c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect); {
		case !bad, !holds && slices.Contains(overloads, c.Word):
		case c.Word == "load-not-reached":
			return c.Word + ": less load than was asked for holds the limits"
		default:
			return c.Word
		}
	}
	return ""
}

// no is a probe that is no evidence.
func (e Evidence) no(why string) Evidence {
	return Evidence{Probe: search.Probe{Value: e.Value, Invalid: true}, Why: why}
}

// margin is how far a value is on the good side of its limit; low says that it is beyond it
// only for want of load.
func margin(l metric.Limit, v float64, r *result.Result) (m search.Margin, low bool) {
	done := 0
	if n := r.Results.CompletedRequests; n != nil {
		done = *n
	}
	switch {
	case l.Metric.Key == metric.SuccessShare.Key:
		return failures(l.Value, v, done), false
	case l.Metric.Better == metric.Lower:
		return below(l, v, done, r), false
	case l.Metric.Key != "request_goodput":
		return search.Margin{Log: clearly}, v < l.Value // a throughput, which more load does not lower
	}
	if all := r.Results.RequestThroughput; v < l.Value && all != nil && *all < l.Value {
		return search.Margin{Log: clearly}, true
	}
	return search.Margin{Log: ratio(v, l.Value), Noise: search.CountNoise(done)}, false
}

// ratio is ln(a/b), within what counts as clear.
func ratio(a, b float64) float64 {
	switch {
	case a <= 0:
		return -clearly
	case b <= 0:
		return clearly
	}
	return min(max(math.Log(a/b), -clearly), clearly)
}

// failures compares shares of failed requests.
func failures(limit, percent float64, done int) search.Margin {
	failed := float64(done) * (100 - percent) / max(percent, 1)
	allowed := float64(done) * (100 - limit) / max(percent, 1)
	return search.Margin{Log: ratio(allowed+0.5, failed+0.5), Noise: 1 / math.Sqrt(failed+1)}
}

// below compares what must stay below its limit: the percentile of a latency, which a sample
// gives too low, or a mean.
func below(l metric.Limit, v float64, done int, r *result.Result) search.Margin {
	m := search.Margin{Log: ratio(l.Value, v)}
	family, stat, ok := result.SplitKey(l.Metric.Key)
	if !ok {
		return m
	}
	d := r.Results.Latency[family]
	rank := 50.0
	if stat == "mean" {
		if d.Mean != nil && d.Std != nil {
			m.Noise = search.MeanNoise(done, *d.Mean, *d.Std)
		}
		return m
	} else if name := stat; name != "median" {
		if rank, ok = rankOf(d, name); !ok {
			return m
		}
	}
	if other, beside, ok := neighbour(d, rank); ok {
		t := search.Tail{N: done, Rank: rank, Value: v, Other: other, Beside: beside}
		m.Noise = t.Noise()
		m.Log += t.Bias()
	}
	return m
}

// rankOf is the rank of a percentile's name.
func rankOf(d result.Distribution, name string) (float64, bool) {
	for rank := range d.Percentiles {
		if result.PercentileName(rank) == name {
			return rank, true
		}
	}
	return 0, false
}

// neighbour is the percentile that is nearest to a rank, preferably below it.
func neighbour(d result.Distribution, rank float64) (other, value float64, ok bool) {
	best := math.Inf(1)
	ranks := []float64{50}
	for r := range d.Percentiles {
		ranks = append(ranks, r)
	}
	for _, r := range ranks {
		v, has := d.Percentile(r)
		far := math.Abs(r - rank)
		if r > rank {
			far += 100
		}
		if has && r != rank && far < best {
			best, other, value, ok = far, r, v, true
		}
	}
	return other, value, ok
}
