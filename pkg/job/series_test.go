package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
)

// Repeats end when every median is precise, when the next would end too late, or when
// nothing of it will come; at looks only, and whatever a p may be.
//
// covers: PL-Q14
func TestSeriesOver(t *testing.T) {
	steady := func(n int, wobble float64) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 100 + wobble*float64(i%3-1)
		}
		return xs
	}
	for name, c := range map[string]struct {
		index, of int
		a, b      []float64 // of the two metrics
		spent     time.Duration
		want, why string
	}{
		"precise":                       {6, 20, steady(6, 0.5), steady(6, 1), time.Minute, result.Precise, "the median of a is known to ±0.5 %, the median of b is known to ±1 %"},
		"one of two is not yet":         {6, 20, steady(6, 0.5), steady(6, 3), time.Minute, "", ""},
		"too early to say":              {5, 20, steady(5, 0), steady(5, 0), time.Minute, "", ""},
		"between two looks":             {7, 20, steady(7, 0.5), steady(7, 0.5), time.Minute, "", ""},
		"at the next look":              {9, 20, steady(9, 0.5), steady(9, 0.5), time.Minute, result.Precise, "±0.5 %"},
		"without hope":                  {6, 20, steady(6, 0.5), steady(6, 40), time.Minute, result.Hopeless, "the median of b is known to ±40 % after 6 repeats, and 200 or more would be needed"},
		"hope for twice as many":        {6, 20, steady(6, 0.5), steady(6, 4), time.Minute, "", ""},
		"nothing to believe":            {6, 20, steady(6, 0.5), nil, time.Minute, result.Hopeless, "none of 6 repeats has a valid b"},
		"nothing to believe so far":     {5, 20, nil, nil, time.Minute, "", ""},
		"the next would end too late":   {4, 20, steady(4, 0.5), steady(4, 0.5), 50 * time.Minute, result.OutOfTime, "50m0s of 1h0m0s are spent, and one more repeat takes 12m30s"},
		"the next ends in time":         {5, 20, steady(5, 0.5), steady(5, 0.5), 50 * time.Minute, "", ""},
		"precise is better than late":   {6, 20, steady(6, 0.5), steady(6, 0.5), time.Hour, result.Precise, "±0.5 %"},
		"an invalid one does not count": {7, 20, steady(6, 0.5), steady(6, 0.5), time.Minute, result.Precise, "±0.5 %"},
	} {
		s := job.Series{
			Repeat: &plan.Repeat{Index: c.index, Of: c.of,
				Until: &plan.Until{Percent: 2, Metrics: []string{"a", "b"}, Time: plan.Seconds(time.Hour)}},
			Values: map[string][]float64{"a": c.a, "b": c.b}, Spent: c.spent,
		}
		stopped, why, err := s.Over()
		require.NoError(t, err, name)
		require.Equal(t, c.want, stopped, name)
		require.Contains(t, why, c.why, name)
	}
}
