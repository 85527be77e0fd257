package format

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
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

// ofSuite is a sweep over phases: loads with a concurrency, and one at a rate without any.
func ofSuite() *report.Sweep {
	s := &report.Sweep{OfPhases: true, Axes: [][]int{{0}, {1}, {2}}, Metrics: []metric.Metric{metric.Throughput}}
	for i, p := range [][3]string{{"1", "100", "inf"}, {"16", "100", "inf"}, {"64", "320", "inf"}, {"none", "100", "4"}} {
		v, reward := float64(100*i), float64(100*i)
		s.Points = append(s.Points, report.Point{
			Phase: "p" + p[0], Dir: p[0], Usable: true, Metrics: []metric.Value{{Number: &v}}, Reward: &reward,
			Values: []records.Setting{
				{Key: "bench_cmd_args.max_concurrency", Value: p[0]},
				{Key: "bench_cmd_args.num_prompts", Value: p[1]}, {Key: "bench_cmd_args.request_rate", Value: p[2]},
			},
		})
	}
	return s
}

// A curve over the phases of a suite has the loads with a number, on one line: a larger load has
// more prompts, and a rate without a limit is no number.
func TestCurvesOfSuites(t *testing.T) {
	s := ofSuite()
	list := curves(s, map[string]bool{"64": true})
	require.Len(t, list, 1)
	require.Equal(t, "Throughput by max_concurrency", list[0].Title)
	require.Equal(t, []float64{1, 16, 64}, list[0].XTicks)
	require.Len(t, list[0].Points, 3)
	for i, p := range list[0].Points {
		require.Equal(t, "request_rate=inf", p.Series)
		require.Equal(t, i == 2, p.Mark)
	}
	require.Equal(t, "200 tok/s", list[0].Points[2].Label)
	s.OfPhases = false
	require.Empty(t, curves(s, nil), "a sweep over a setting without numbers has no curve over it")
}

// Rewards that are the throughput are not drawn again, whatever an invalid point has as its reward.
func TestRewardsAreToldOnce(t *testing.T) {
	s := ofSuite()
	require.True(t, rewardsAre(s, 0))
	other := 5.0
	s.Points[1].Reward = &other
	require.False(t, rewardsAre(s, 0))
	s.Points[1].Usable = false
	require.True(t, rewardsAre(s, 0))
}

// Points that failed by one cause share a line, though their log lines differ.
func TestOneLineForACause(t *testing.T) {
	s := ofSuite()
	for i := range s.Points {
		p := &s.Points[i]
		p.Usable, p.Verdict = false, "failed"
		p.Reason = "cause cuda-oom: (pid=" + p.Phase + ") out of memory; job-state: ended with 1"
	}
	s.Points[3].Reason = "files-missing: no result"
	require.Equal(t, []string{
		"p1, p16 and p64, failed: cause cuda-oom: (pid=p1) out of memory; …", "pnone, failed: files-missing: no result",
	}, unusable(s))
}
