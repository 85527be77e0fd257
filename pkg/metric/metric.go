// Package metric knows the numbers of a record by name: what each is called, its unit,
// which values are better, and how it is read. Numbers that the record's checks withhold
// are not given out.
//
//	m, err := metric.Find("median_ttft_ms")
//	v := m.Of(record) // v.Number is nil if the record has none, or a check withholds it
package metric

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/stats"
)

// Direction says which values of a metric are better.
type Direction string

// The directions.
const (
	Higher Direction = "higher"
	Lower  Direction = "lower"
)

// Metric is one number of a record.
type Metric struct {
	Key    string    `json:"key"` // as in result.json, where it has one
	Name   string    `json:"name"`
	Unit   string    `json:"unit,omitempty"`
	Better Direction `json:"better"`
	Digits int       `json:"-"` // behind the point, in tables of many
	of     func(*result.Result) *float64
}

// RealTime is what a value would be if simulated time had passed as fast as real time, not so many times faster:
// limits are given in real time. A duration is longer then, and a rate lower.
func (m Metric) RealTime(v float64, faster int) float64 {
	switch {
	case faster <= 1:
		return v
	case m.Unit == "ms" || m.Unit == "s":
		return v * float64(faster)
	case strings.HasSuffix(m.Unit, "/s"):
		return v / float64(faster)
	}
	return v
}

// Value is what a run has for a metric: a number, or none, or one that must not
// be shown.
type Value struct {
	Number   *float64
	Withheld bool
}

// MarshalJSON writes the number, null, or "withheld".
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.Withheld:
		return []byte(`"withheld"`), nil
	case v.Number == nil:
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, *v.Number, 'g', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(data []byte) error {
	*v = Value{Withheld: string(data) == `"withheld"`}
	if v.Withheld {
		return nil
	}
	return json.Unmarshal(data, &v.Number)
}

// Of reads the metric from a record; there is no value without a record.
func (m Metric) Of(r *result.Result) Value {
	if r == nil {
		return Value{}
	}
	v := m.of(r)
	withheld := func(key string) bool {
		return key == m.Key || key == m.Key+".value" || slices.Contains(basis[m.Key], key)
	}
	if v != nil && r.Validity != nil && slices.ContainsFunc(r.Validity.Withheld, withheld) {
		return Value{Withheld: true}
	}
	return Value{Number: v}
}

// Shown is a value as tables have it: three significant digits. Counts, scores and the share of
// answered requests keep their own: 99.97 % is not 100.
func (m Metric) Shown(x float64) string {
	if m.Digits == 0 || m.Key == SuccessShare.Key || m.Key == Accuracy.Key {
		return strconv.FormatFloat(x, 'f', m.Digits, 64)
	}
	return quantity.Significant(x)
}

// Beats reports whether a is better than b.
func (m Metric) Beats(a, b float64) bool {
	if m.Better == Lower {
		return a < b
	}
	return a > b
}

// accuracyFloor is in percent of the score: runs of one model differ by up to a
// point.
const accuracyFloor = 1.0

// Floor is the change, in percent, below which the metric's difference does not
// matter.
func (m Metric) Floor() float64 {
	if m.Key == Accuracy.Key {
		return accuracyFloor
	}
	_, stat, ok := result.SplitKey(m.Key)
	if !ok {
		return stats.FloorThroughput
	}
	if stat == "max" || stat == "std" {
		return stats.FloorTail
	}
	if rank, ok := percentile(stat); ok && rank >= 90 {
		return stats.FloorTail
	}
	return stats.FloorMedian
}

// percentile is the rank of a statistic such as p99.9.
func percentile(stat string) (rank float64, ok bool) {
	_, err := fmt.Sscanf(stat, "p%g", &rank)
	return rank, err == nil
}

func latency(f result.Family, stat, name string) Metric {
	return Metric{Key: f.Key(stat), Name: name, Unit: "ms", Better: Lower, Digits: 2,
		of: func(r *result.Result) *float64 {
			d := r.Results.Latency[f]
			switch stat {
			case "mean":
				return d.Mean
			case "median":
				return d.Median
			case "std":
				return d.Std
			case "min":
				return d.Min
			case "max":
				return d.Max
			}
			rank, ok := percentile(stat)
			if !ok {
				return nil
			}
			if v, ok := d.Percentile(rank); ok {
				return &v
			}
			return nil
		}}
}

func rate(key, name, unit string, of func(*result.Metrics) *float64) Metric {
	return Metric{Key: key, Name: name, Unit: unit, Better: Higher, Digits: 2,
		of: func(r *result.Result) *float64 { return of(&r.Results) }}
}

// The metrics of CloudAI's tables, in their order.
var (
	MeanTTFT   = latency(result.TTFT, "mean", "Mean TTFT")
	MedianTTFT = latency(result.TTFT, "median", "Median TTFT")
	P99TTFT    = latency(result.TTFT, "p99", "P99 TTFT")
	MeanTPOT   = latency(result.TPOT, "mean", "Mean TPOT")
	MedianTPOT = latency(result.TPOT, "median", "Median TPOT")
	P99TPOT    = latency(result.TPOT, "p99", "P99 TPOT")

	Successful = Metric{Key: "completed_requests", Name: "Successful Prompts", Better: Higher,
		of: func(r *result.Result) *float64 {
			if n := r.Results.CompletedRequests; n != nil {
				return new(float64(*n))
			}
			return nil
		}}
	SuccessShare = Metric{Key: "successful_percent", Name: "Successful Prompts", Unit: "%", Better: Higher, Digits: 2,
		of: successPercent}

	Throughput = rate("output_throughput", "Throughput", "tok/s",
		func(m *result.Metrics) *float64 { return m.OutputThroughput })
	PerUser = rate("output_throughput_per_user", "TPS/User", "tok/s",
		func(m *result.Metrics) *float64 { return m.OutputPerUser })
	PerGPU = rate("output_throughput_per_gpu", "TPS/GPU", "tok/s",
		func(m *result.Metrics) *float64 { return m.OutputPerGPU })

	Accuracy = Metric{Key: "accuracy", Name: "Accuracy", Better: Higher, Digits: 4,
		of: func(r *result.Result) *float64 {
			if r.Accuracy == nil {
				return nil
			}
			return &r.Accuracy.Value
		}}
)

// TTFT and TPOT are the mean, the median and the P99 of each.
var (
	TTFT = []Metric{MeanTTFT, MedianTTFT, P99TTFT}
	TPOT = []Metric{MeanTPOT, MedianTPOT, P99TPOT}
)

// Usual are those that are judged where nothing else is asked: few, because each
// further one makes the others harder to believe.
var Usual = []Metric{Throughput, MedianTTFT, P99TTFT, MedianTPOT, P99TPOT, Accuracy}

// All are those that a table may show beside further latencies.
var All = slices.Concat(TTFT, TPOT, served, GPU, Cost, offline())

// served are the others of a server under load, and those of an evaluation.
var served = []Metric{
	Successful, SuccessShare, Throughput, PerUser, PerGPU, Accuracy,
	rate("request_throughput", "Requests", "1/s", func(m *result.Metrics) *float64 { return m.RequestThroughput }),
	rate("request_goodput", "Goodput", "1/s", func(m *result.Metrics) *float64 { return m.RequestGoodput }),
	rate("total_token_throughput", "Total throughput", "tok/s",
		func(m *result.Metrics) *float64 { return m.TotalTokenThroughput }),
	rate("total_token_throughput_per_gpu", "Total TPS/GPU", "tok/s",
		func(m *result.Metrics) *float64 { return m.TotalPerGPU }),
	rate("prefix_cache_hit_rate", "Prefix cache hits", "", func(m *result.Metrics) *float64 {
		if m.Routing == nil {
			return nil
		}
		return m.Routing.HitRate
	}),
}

// GPU is what the GPUs that served did in the client's window.
var GPU = []Metric{
	{Key: "avg_gpu_utilization", Name: "GPU use", Unit: "%", Better: Higher, Digits: 1,
		of: func(r *result.Result) *float64 {
			if r.System == nil {
				return nil
			}
			return r.System.AvgGPUUtilization
		}},
	drawn("gpu_power_w", "GPU power", "W", 0, func(m *result.Metrics) *float64 { return m.GPUPower }),
	drawn("gpu_energy_j", "GPU energy", "J", 0, func(m *result.Metrics) *float64 { return m.GPUEnergy }),
	drawn("joules_per_output_token", "Energy/output token", "J", 3,
		func(m *result.Metrics) *float64 { return m.JoulesPerOutputToken }),
}

// Cost is what a million tokens cost, in money where the price of the GPUs is known, and in energy
// where that was measured.
//
//	usd_per_million_output_tokens = gpu_hour_usd x gpus / 3600 / output_throughput x 1e6
//	usd_per_million_tokens        = gpu_hour_usd x gpus / 3600 / total_token_throughput x 1e6
//	kwh_per_million_output_tokens = joules_per_output_token x 1e6 / 3.6e6
var Cost = []Metric{
	drawn("usd_per_million_output_tokens", "Cost/1M output tokens", "USD", 3,
		func(m *result.Metrics) *float64 { return usdPerMillion(m, m.OutputThroughput) }),
	drawn("usd_per_million_tokens", "Cost/1M tokens", "USD", 3,
		func(m *result.Metrics) *float64 { return usdPerMillion(m, m.TotalTokenThroughput) }),
	drawn("kwh_per_million_output_tokens", "Energy/1M output tokens", "kWh", 3, func(m *result.Metrics) *float64 {
		if m.JoulesPerOutputToken == nil {
			return nil
		}
		return new(*m.JoulesPerOutputToken / 3.6)
	}),
}

// usdPerMillion is the cost of a million tokens at so many tokens/s, of all GPUs that served.
func usdPerMillion(m *result.Metrics, throughput *float64) *float64 {
	if m.GPUHourUSD == nil || m.GPUs == nil || throughput == nil || !(*throughput > 0) {
		return nil
	}
	return new(*m.GPUHourUSD * float64(*m.GPUs) / 3600 / *throughput * 1e6)
}

// basis are the keys that a cost is computed from: where a check withholds one, it withholds the cost.
var basis = map[string][]string{
	"usd_per_million_output_tokens": {"output_throughput"},
	"usd_per_million_tokens":        {"total_token_throughput"},
	"kwh_per_million_output_tokens": {"joules_per_output_token", "gpu_energy_j"},
}

func drawn(key, name, unit string, digits int, of func(*result.Metrics) *float64) Metric {
	return Metric{Key: key, Name: name, Unit: unit, Better: Lower, Digits: digits,
		of: func(r *result.Result) *float64 { return of(&r.Results) }}
}

// CloudAI's names of metrics, in agent_metrics.
var aliases = map[string]string{
	"default": "output_throughput", "throughput": "output_throughput",
	"tps-per-user": "output_throughput_per_user", "tps-per-gpu": "output_throughput_per_gpu",
}

func successPercent(r *result.Result) *float64 {
	done, of := r.Results.CompletedRequests, r.Results.NumPrompts
	if done == nil || of == nil || *of <= 0 {
		return nil
	}
	return new(float64(*done) / float64(*of) * 100)
}

// Find returns the metric of a key of result.json, such as p95_ttft_ms, or of
// CloudAI's name for it.
func Find(name string) (Metric, error) {
	if m, ok := Lookup(name); ok {
		return m, nil
	}
	var known []string
	for _, m := range All {
		// Whoever asks for a tpot means that of a served load.
		if !strings.HasPrefix(m.Key, "offline.requests.") || strings.Contains(name, "requests") {
			known = append(known, m.Key)
		}
	}
	for k := range aliases {
		known = append(known, k)
	}
	return Metric{}, source.Errorf(source.Pos{File: "metric"}, "unknown metric %q", name).
		Hintf("%s", source.Suggest(name, known))
}

// Lookup is Find for names that need not be metrics.
func Lookup(name string) (Metric, bool) {
	key := name
	if k, ok := aliases[name]; ok {
		key = k
	}
	for _, m := range All {
		if m.Key == key {
			return m, true
		}
	}
	if f, stat, ok := result.SplitKey(key); ok {
		return latency(f, stat, key), true
	}
	return Metric{}, false
}
