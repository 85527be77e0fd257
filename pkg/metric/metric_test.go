package metric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/report/reporttest"
	"github.com/profllm/profllm/pkg/result"
)

func TestFindMetric(t *testing.T) {
	_, err := metric.Find("output_througput")
	require.EqualError(t, err,
		"metric: unknown metric \"output_througput\"\n\thint: did you mean \"output_throughput\"?")
	_, err = metric.Find("tpot")
	require.EqualError(t, err,
		"metric: unknown metric \"tpot\"\n\thint: did you mean \"mean_tpot_ms\", \"median_tpot_ms\" or \"p99_tpot_ms\"?")
	m, err := metric.Find("p95_e2el_ms")
	require.NoError(t, err)
	require.Equal(t, metric.Lower, m.Better)
	r := reporttest.Record(reporttest.Numbers{Throughput: 1, TTFT: 1})
	require.Equal(t, metric.Value{}, m.Of(r))
	require.NoError(t, r.Results.SetLatency(result.E2EL, "p95", 12))
	require.Equal(t, 12.0, *m.Of(r).Number)
}

// The share of answered requests counts those that failed.
func TestSuccessShareCountsErrors(t *testing.T) {
	r := reporttest.Record(reporttest.Numbers{Throughput: 1, TTFT: 1})
	r.Results.NumPrompts, r.Results.CompletedRequests, r.Results.FailedRequests = new(40), new(30), new(10)
	require.Equal(t, 75.0, *metric.SuccessShare.Of(r).Number)
	for name, key := range map[string]string{"accuracy": "accuracy", "Accuracy": ""} {
		m, err := metric.Find(name)
		require.Equal(t, key != "", err == nil, name)
		require.Equal(t, key, m.Key)
	}
}

// covers: PL-Q15
func TestFloors(t *testing.T) {
	for key, want := range map[string]float64{
		"output_throughput": 2, "request_throughput": 2, "median_ttft_ms": 5, "mean_tpot_ms": 5, "p50_ttft_ms": 5, "p75_ttft_ms": 5,
		"p90_ttft_ms": 15, "p99_ttft_ms": 15, "p99.9_itl_ms": 15, "max_ttft_ms": 15, "accuracy": 1,
	} {
		m, err := metric.Find(key)
		require.NoError(t, err)
		require.Equal(t, want, m.Floor(), key)
	}
}

// Costs follow from the price of the GPUs and from energy that was measured; a number that they are
// computed from and that a check withholds, withholds them.
func TestCost(t *testing.T) {
	r := &result.Result{Validity: &result.Validity{}}
	m := &r.Results
	m.OutputThroughput, m.TotalTokenThroughput, m.GPUs = new(2000.0), new(10000.0), new(8)
	value := func(key string) metric.Value {
		x, err := metric.Find(key)
		require.NoError(t, err)
		return x.Of(r)
	}
	require.Equal(t, metric.Value{}, value("usd_per_million_output_tokens"), "no price")
	require.Equal(t, metric.Value{}, value("kwh_per_million_output_tokens"), "no energy")
	m.GPUHourUSD, m.JoulesPerOutputToken = new(3.0), new(0.9)
	require.InDelta(t, 3.0*8/3600/2000*1e6, *value("usd_per_million_output_tokens").Number, 1e-12)
	require.InDelta(t, 3.0*8/3600/10000*1e6, *value("usd_per_million_tokens").Number, 1e-12)
	require.InDelta(t, 0.25, *value("kwh_per_million_output_tokens").Number, 1e-12)
	r.Validity.Withheld = []string{"output_throughput", "gpu_energy_j"}
	require.True(t, value("usd_per_million_output_tokens").Withheld)
	require.True(t, value("kwh_per_million_output_tokens").Withheld)
	require.NotNil(t, value("usd_per_million_tokens").Number)
	*m.OutputThroughput = 0
	require.Equal(t, metric.Value{}, value("usd_per_million_output_tokens"))
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		m    metric.Metric
		x    float64
		want string
	}{
		{metric.Throughput, 9176.053, "9180"}, {metric.MedianTTFT, 6.6669, "6.67"}, {metric.Successful, 1319, "1319"},
		{metric.SuccessShare, 99.97, "99.97"}, {metric.Accuracy, 0.79512, "0.7951"},
	} {
		require.Equal(t, c.want, c.m.Shown(c.x))
	}
}

// Limits are given in real time: what an accelerated rehearsal measured is turned into that.
func TestRealTime(t *testing.T) {
	at := func(key string, v float64, speed int) float64 {
		m, err := metric.Find(key)
		require.NoError(t, err)
		return m.RealTime(v, speed)
	}
	require.InDelta(t, 610.0, at("p99_ttft_ms", 10, 61), 1e-9)
	require.InDelta(t, 10.0, at("output_throughput", 610, 61), 1e-9)
	require.InDelta(t, 10.0, at("request_throughput", 610, 61), 1e-9)
	require.InDelta(t, 0.9, at("accuracy", 0.9, 61), 1e-9)
	for _, speed := range []int{0, 1} {
		require.InDelta(t, 10.0, at("p99_ttft_ms", 10, speed), 1e-9)
	}
}
