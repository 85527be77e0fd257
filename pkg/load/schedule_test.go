package load

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func inf() float64 { return math.Inf(1) }

// gapsOf returns the intervals of a schedule in seconds, the first from the start.
func gapsOf(due []time.Duration) []float64 {
	out := make([]float64, len(due))
	last := time.Duration(0)
	for i, d := range due {
		out[i] = (d - last).Seconds()
		last = d
	}
	return out
}

// covers: LBEN-1
func TestScheduleFollowsItsLaw(t *testing.T) {
	const n = 20_000
	for _, burst := range []float64{0.1, 0.5, 1, 2, 5} {
		due, _ := schedule(&Options{RequestRate: 40, Burstiness: burst}, n)
		require.Equal(t, n*time.Second/40, due[n-1], "the last request leaves exactly N/R after the start")
		mean, std := meanStd(gapsOf(due))
		require.InEpsilon(t, 1.0/40, mean, 1e-6)
		require.InEpsilon(t, 1/math.Sqrt(burst), std/mean, 0.06, "coefficient of variation at burstiness %v", burst)
	}
}

func TestScheduleCorners(t *testing.T) {
	due, _ := schedule(&Options{RequestRate: inf(), Burstiness: 1}, 5)
	require.Equal(t, make([]time.Duration, 5), due, "an infinite rate sends all at once")

	due, _ = schedule(&Options{RequestRate: 2, Burstiness: inf()}, 4)
	require.Equal(t, []time.Duration{5e8, 10e8, 15e8, 20e8}, due,
		"infinite burstiness is a constant interval, the first included")

	seeded := func(seed int64) []time.Duration {
		o := Options{RequestRate: 2, Burstiness: 1}
		o.Seed = seed
		due, _ := schedule(&o, 50)
		return due
	}
	require.Equal(t, seeded(1), seeded(1))
	require.NotEqual(t, seeded(1), seeded(2))
}

func TestRampUp(t *testing.T) {
	start, end := 1, 9
	o := Options{
		RequestRate: inf(), Burstiness: inf(),
		RampUpStrategy: "linear", RampUpStartRPS: &start, RampUpEndRPS: &end,
	}
	due, rates := schedule(&o, 5)
	require.Equal(t, []float64{1, 3, 5, 7, 9}, rates)
	require.InDelta(t, 1+1.0/3+0.2+1.0/7+1.0/9, due[4].Seconds(), 1e-6, "a ramp is not stretched")

	o.RampUpStrategy = "exponential"
	_, rates = schedule(&o, 5)
	require.InDeltaSlice(t, []float64{1, math.Sqrt(3), 3, 3 * math.Sqrt(3), 9}, rates, 1e-12)

	events := rateChanges(&o, time.Date(2026, 11, 21, 1, 2, 3, 0, time.Local), due, rates, 3)
	require.Len(t, events, 3, "1, 2 and 3 requests/s were reached by the third request")
	require.Equal(t, rateChange{1, "2026-11-21T01:02:03.000000"}, events[0])
}
