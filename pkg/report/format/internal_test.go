package format

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/result"
)

// Every metric that a table may show has a name in Prometheus' form.
//
// covers: PL-I2
func TestPrometheusKnowsEachMetric(t *testing.T) {
	for _, m := range metric.All {
		_, gauge := gauges[m.Key]
		_, _, offline := metric.SplitTiming(m.Key)
		f, _, latency := result.SplitKey(m.Key)
		_, known := latencyGauges[f]
		require.True(t, gauge || offline || latency && known, m.Key)
	}
}
