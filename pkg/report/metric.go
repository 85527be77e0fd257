package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/source"
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
	digits int       // behind the point, in tables of many
	of     func(*result.Result) *float64
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

// text writes the value with that many digits behind the point; n/a if absent.
func (v Value) text(digits int) string {
	switch {
	case v.Withheld:
		return "withheld"
	case v.Number == nil:
		return "n/a"
	}
	return strconv.FormatFloat(*v.Number, 'f', digits, 64)
}

// Of reads the metric from a record.
func (m Metric) Of(r *result.Result) Value {
	if r == nil {
		return Value{}
	}
	v := m.of(r)
	if v != nil && r.Validity != nil && (slices.Contains(r.Validity.Withheld, m.Key) || slices.Contains(r.Validity.Withheld, m.Key+".value")) {
		return Value{Withheld: true}
	}
	return Value{Number: v}
}

// better reports whether a beats b.
func (m Metric) better(a, b float64) bool {
	if m.Better == Lower {
		return a < b
	}
	return a > b
}

// direction says whether a change of that much is for the better.
func (m Metric) direction(change float64) Outcome {
	if m.better(change, 0) {
		return Improved
	}
	return Regressed
}

func latencyMetric(f result.Family, stat, name string) Metric {
	return Metric{Key: f.Key(stat), Name: name, Unit: "ms", Better: Lower, digits: 2, of: func(r *result.Result) *float64 {
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
		var rank float64
		if _, err := fmt.Sscanf(stat, "p%g", &rank); err != nil {
			return nil
		}
		if v, ok := d.Percentile(rank); ok {
			return &v
		}
		return nil
	}}
}

func rate(key, name, unit string, of func(*result.Metrics) *float64) Metric {
	return Metric{Key: key, Name: name, Unit: unit, Better: Higher, digits: 2, of: func(r *result.Result) *float64 { return of(&r.Results) }}
}

// The metrics of CloudAI's tables, in their order.
var (
	meanTTFT   = latencyMetric(result.TTFT, "mean", "Mean TTFT")
	medianTTFT = latencyMetric(result.TTFT, "median", "Median TTFT")
	p99TTFT    = latencyMetric(result.TTFT, "p99", "P99 TTFT")
	meanTPOT   = latencyMetric(result.TPOT, "mean", "Mean TPOT")
	medianTPOT = latencyMetric(result.TPOT, "median", "Median TPOT")
	p99TPOT    = latencyMetric(result.TPOT, "p99", "P99 TPOT")

	successful = Metric{Key: "completed_requests", Name: "Successful Prompts", Better: Higher, of: func(r *result.Result) *float64 {
		if n := r.Results.CompletedRequests; n != nil {
			return new(float64(*n))
		}
		return nil
	}}
	successShare = Metric{Key: "successful_percent", Name: "Successful Prompts", Unit: "%", Better: Higher, digits: 2, of: successPercent}

	throughput = rate("output_throughput", "Throughput", "tok/s", func(m *result.Metrics) *float64 { return m.OutputThroughput })
	perUser    = rate("output_throughput_per_user", "TPS/User", "tok/s", func(m *result.Metrics) *float64 { return m.OutputPerUser })
	perGPU     = rate("output_throughput_per_gpu", "TPS/GPU", "tok/s", func(m *result.Metrics) *float64 { return m.OutputPerGPU })

	accuracy = Metric{Key: "accuracy", Name: "Accuracy", Better: Higher, digits: 4, of: func(r *result.Result) *float64 {
		if r.Accuracy == nil {
			return nil
		}
		return &r.Accuracy.Value
	}}
)

// metrics are those that a table may show beside the latencies.
var metrics = slices.Concat(served, gpuMetrics, offlineMetrics())

// served are those of a server under load, and of an evaluation.
var served = []Metric{
	meanTTFT, medianTTFT, p99TTFT, meanTPOT, medianTPOT, p99TPOT, successful, successShare, throughput, perUser, perGPU, accuracy,
	rate("request_throughput", "Requests", "1/s", func(m *result.Metrics) *float64 { return m.RequestThroughput }),
	rate("request_goodput", "Goodput", "1/s", func(m *result.Metrics) *float64 { return m.RequestGoodput }),
	rate("total_token_throughput", "Total throughput", "tok/s", func(m *result.Metrics) *float64 { return m.TotalTokenThroughput }),
	rate("total_token_throughput_per_gpu", "Total TPS/GPU", "tok/s", func(m *result.Metrics) *float64 { return m.TotalPerGPU }),
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

// FindMetric returns the metric of a key of result.json, such as p95_ttft_ms, or
// of CloudAI's name for it.
func FindMetric(name string) (Metric, error) {
	key := name
	if k, ok := aliases[name]; ok {
		key = k
	}
	var known []string
	for _, m := range metrics {
		if m.Key == key {
			return m, nil
		}
		known = append(known, m.Key)
	}
	if f, stat, ok := result.SplitKey(key); ok {
		return latencyMetric(f, stat, key), nil
	}
	for k := range aliases {
		known = append(known, k)
	}
	return Metric{}, source.Errorf(source.Pos{File: "metric"}, "unknown metric %q", name).Hintf("%s", source.Suggest(name, known))
}
