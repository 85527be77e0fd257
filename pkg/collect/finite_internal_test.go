package collect

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// A number that JSON cannot hold costs the record that number, and no other.
func TestDropNotFinite(t *testing.T) {
	r := &result.Result{}
	m := &r.Results
	m.OutputThroughput, m.RequestThroughput = new(math.Inf(1)), new(2.0)
	m.Latency = map[result.Family]result.Distribution{
		result.TTFT: {Mean: new(math.NaN()), Median: new(3.0),
			Percentiles: map[float64]float64{50: 3, 99: math.Inf(-1)}},
	}
	m.Server = []result.ServerDelta{
		{Role: "serve", Counters: map[string]float64{"a": 1, "b": math.NaN()}},
	}
	r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: math.NaN()}
	dropNotFinite(r)

	_, err := json.Marshal(r)
	require.NoError(t, err)
	require.Nil(t, m.OutputThroughput)
	require.Equal(t, 2.0, *m.RequestThroughput)
	require.Nil(t, m.Latency[result.TTFT].Mean)
	require.Equal(t, 3.0, *m.Latency[result.TTFT].Median)
	require.Equal(t, map[float64]float64{50: 3}, m.Latency[result.TTFT].Percentiles)
	require.Equal(t, map[string]float64{"a": 1}, m.Server[0].Counters)
	require.Nil(t, r.Accuracy, "its value cannot be absent")
	require.Len(t, r.Warnings, 5)
	for _, w := range r.Warnings {
		require.Equal(t, result.BadValue, w.Kind)
	}

	before := len(r.Warnings)
	dropNotFinite(r)
	require.Len(t, r.Warnings, before, "the rest is finite")
}
