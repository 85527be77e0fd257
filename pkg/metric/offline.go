package metric

import (
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Timing is a duration that a benchmark without a server measures.
type Timing struct {
	Key  string // in a record, below results.offline
	Name string
}

// Timings are those of all benchmarks without a server, in the order of the record.
var Timings = []Timing{
	{"batch.latency", "batch latency"},
	{"startup.cold", "cold start"},
	{"startup.cold_compilation", "compilation, cold"},
	{"startup.cold_encoder_compilation", "encoder compilation, cold"},
	{"startup.warm", "warm start"},
	{"startup.warm_compilation", "compilation, warm"},
	{"startup.warm_encoder_compilation", "encoder compilation, warm"},
	{"processor.e2el", "requests with media"},
	{"processor.preprocessing", "preprocessing of media"},
	{"processor.encoder", "encoder of media"},
	{"requests.ttft", "TTFT from scheduling"},
	{"requests.tpot", "TPOT without a server"},
	{"requests.queue", "time in the queue"},
	{"requests.e2el", "E2EL without a server"},
}

// OfflineRates are those of vllm bench throughput.
var OfflineRates = []Metric{
	offlineRate("request_throughput", "offline requests", "1/s",
		func(t *result.OfflineThroughput) *float64 { return t.RequestThroughput }),
	offlineRate("total_token_throughput", "offline total throughput", "tok/s",
		func(t *result.OfflineThroughput) *float64 { return t.TotalTokenThroughput }),
	offlineRate("output_throughput", "offline throughput", "tok/s",
		func(t *result.OfflineThroughput) *float64 { return t.OutputThroughput }),
}

func offlineRate(key, name, unit string, of func(*result.OfflineThroughput) *float64) Metric {
	return rate("offline.throughput."+key, name, unit, func(m *result.Metrics) *float64 {
		if m.Offline == nil || m.Offline.Throughput == nil {
			return nil
		}
		return of(m.Offline.Throughput)
	})
}

// offline are all that may be asked for, as in a record below results.
func offline() []Metric {
	var all []Metric
	for _, t := range Timings {
		all = append(all, t.Metrics()...)
	}
	return append(all, OfflineRates...)
}

// Of is nil if the record has no such timing.
func (t Timing) Of(r *result.Result) *result.Timing {
	if r.Results.Offline == nil {
		return nil
	}
	for _, have := range r.Results.Offline.Timings() {
		if have.Name == t.Key {
			return have.Timing
		}
	}
	return nil
}

// percentilesKey begins the keys of a timing's percentiles.
const percentilesKey = "percentiles_s."

// Metrics are the mean, the median and the P99 of a timing, in this order.
func (t Timing) Metrics() []Metric {
	return []Metric{
		t.metric("mean", "mean_s", func(x *result.Timing) *float64 { return x.Mean }),
		t.metric("median", percentilesKey+"50", percentileOf("50")),
		t.metric("P99", percentilesKey+"99", percentileOf("99")),
	}
}

func (t Timing) metric(name, key string, of func(*result.Timing) *float64) Metric {
	return Metric{
		Key: t.prefix() + key, Name: t.Name + " " + name, Unit: "s", Better: Lower, Digits: 4,
		of: func(r *result.Result) *float64 {
			x := t.Of(r)
			if x == nil {
				return nil
			}
			return of(x)
		},
	}
}

func percentileOf(rank string) func(*result.Timing) *float64 {
	return func(t *result.Timing) *float64 {
		if v, ok := t.Percentiles[rank]; ok {
			return &v
		}
		return nil
	}
}

func (t Timing) prefix() string { return "offline." + t.Key + "." }

// SplitTiming takes the key of a timing's metric apart: the timing, and the statistic
// as latencies have it.
func SplitTiming(key string) (t Timing, stat string, ok bool) {
	for _, t := range Timings {
		rest, found := strings.CutPrefix(key, t.prefix())
		switch rank, percentile := strings.CutPrefix(rest, percentilesKey); {
		case !found:
		case rest == "mean_s":
			return t, "mean", true
		case percentile && rank == "50":
			return t, "median", true
		case percentile:
			return t, "p" + rank, true
		}
	}
	return Timing{}, "", false
}
