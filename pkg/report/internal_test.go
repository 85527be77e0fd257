package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

func TestPlace(t *testing.T) {
	for dir, want := range map[string]Case{
		"/r/night_2026-01-02_03-04-05/a/0":   {Scenario: "night", Test: "a"},
		"/r/night_2026-01-02_03-04-05/a/3/7": {Scenario: "night", Test: "a", Iteration: 3, Step: 7},
		"/r/a/-1":                            {Test: "-1"},
		"/r/plain":                           {Test: "plain"},
		"/7":                                 {Test: "", Iteration: 7},
	} {
		require.Equal(t, want, place(dir), dir)
	}
}

func TestPrice(t *testing.T) {
	for gpu, want := range map[string]float64{"NVIDIA H100 80GB HBM3": 3, "NVIDIA B200": 5.5, "NVIDIA GB200": 11, "nvidia gb300": 8} {
		usd, ok := price(gpu)
		require.True(t, ok)
		require.Equal(t, want, usd, gpu)
	}
	for _, gpu := range []string{"", "NVIDIA A100-SXM4-80GB", "NVIDIA H200"} {
		_, ok := price(gpu)
		require.False(t, ok, gpu)
	}
}

// Every metric that a table may show has a name in Prometheus' form.
//
// covers: PL-I2
func TestPrometheusKnowsEachMetric(t *testing.T) {
	for _, m := range metrics {
		_, gauge := gauges[m.Key]
		_, _, offline := offlineTiming(m.Key)
		f, _, latency := result.SplitKey(m.Key)
		_, known := latencyGauges[f]
		require.True(t, gauge || offline || latency && known, m.Key)
	}
}
