package report

import (
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Judge is what Pair says of the numbers of a test: a and b hold each metric's.
func Judge(metrics []metric.Metric, a, b [][]float64) (Judgement, error) {
	list := []Judgement{{}}
	for i, m := range metrics {
		v, err := newVerdict(m, a[i], b[i])
		if err != nil {
			return Judgement{}, err
		}
		list[0].Metrics = append(list[0].Metrics, *v)
	}
	err := conclude(list, nil)
	return list[0], err
}

// Follow is what Trace says of the numbers of a series: xs holds each metric's.
func Follow(metrics []metric.Metric, xs [][]float64) (Trend, error) {
	list := []Trend{{ByStart: make([]Start, len(xs[0]))}}
	for i := range list[0].ByStart {
		list[0].ByStart[i].Runs = []*records.Run{{Result: &result.Result{}}}
	}
	for i, m := range metrics {
		x := MetricTrend{Metric: m, Floor: m.Floor()}
		for k, v := range xs[i] {
			x.Points = append(x.Points, TrendPoint{Value: v, start: k})
		}
		if err := x.cut(); err != nil {
			return Trend{}, err
		}
		list[0].Metrics = append(list[0].Metrics, x)
	}
	err := concludeTrends(list, nil)
	return list[0], err
}

// FieldOf is the field of a setting that tells loads apart, "" if it is none.
func FieldOf(key string) string { return fieldOf(key) }
