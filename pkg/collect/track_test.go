package collect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/result"
)

// at is that many seconds into the window of ten seconds.
func at(s float64) time.Time {
	return time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

func watched(samples ...gpu.Sample) result.GPUUse {
	t := newTrack(&result.GPUSamples{Begin: at(0), End: at(10), Interval: 1}, result.GPUUse{Node: "n1"})
	for _, s := range samples {
		t.add(s)
	}
	t.finish()
	return t.use
}

// every has a sample each second from one time to another, of a power that follows it.
func every(from, to float64, power func(s float64) float64) (list []gpu.Sample) {
	for s := from; s <= to; s++ {
		list = append(list, gpu.Sample{Time: at(s), Power: new(power(s))})
	}
	return list
}

func steady(float64) float64 { return 300 }

// covers: PL-V33
func TestEnergyOfSamples(t *testing.T) {
	ramp := func(s float64) float64 { return 100 + 10*s } // 1000 J and 500 J in the window
	u := watched(every(-5.3, 20, ramp)...)
	require.InDelta(t, 1500, *u.Energy, 1e-6, "cut at the ends of the window")
	require.Equal(t, "power", u.EnergyFrom)
	require.InDelta(t, 150, *u.Power, 1e-6)
	require.InDelta(t, 197, *u.PeakPower, 1e-6, "in the window")
	require.Equal(t, 10, u.Samples)
	require.InDelta(t, 1, u.Coverage, 1e-9)
	require.InDelta(t, 1, u.LongestGap, 1e-6)

	// The counter has all that was drawn between two looks.
	list := every(-5, 20, steady)
	for i := range list {
		list[i].Energy = new(7e9 + 1000*400*float64(i))
	}
	u = watched(list...)
	require.Equal(t, "counter", u.EnergyFrom)
	require.InDelta(t, 4000, *u.Energy, 1e-6)
	list[9].Energy = new(5.0)
	u = watched(list...)
	require.Equal(t, "power", u.EnergyFrom, "a driver that was loaded anew")
	require.InDelta(t, 3000, *u.Energy, 1e-6)

	// The last look may come before the end: the guard ends with the job.
	u = watched(every(0.5, 9.5, steady)...)
	require.InDelta(t, 3000, *u.Energy, 1e-6)
	require.InDelta(t, 1, u.Coverage, 1e-9)
}

// covers: PL-V33
func TestHolesInSamples(t *testing.T) {
	hole := append(every(-1, 3, steady), every(7, 12, steady)...)
	u := watched(hole...)
	require.InDelta(t, 4, u.LongestGap, 1e-9)
	require.InDelta(t, 0.7, u.Coverage, 1e-9, "half a second after the one and before the other")

	u = watched(every(-1, 4, steady)...)
	require.InDelta(t, 6, u.LongestGap, 1e-9)
	require.InDelta(t, 0.45, u.Coverage, 1e-9)

	u = watched(every(20, 30, steady)...)
	require.Zero(t, u.Samples)
	require.Zero(t, u.Coverage, "all of them are from after the window")
	require.Nil(t, u.Utilization)

	u = watched()
	require.Zero(t, u.Coverage)
	require.Equal(t, 10.0, u.LongestGap)
	require.Nil(t, u.Energy)

	for i := range hole { // a driver that says no power
		hole[i].Power, hole[i].Use = nil, new(50.0)
	}
	u = watched(hole...)
	require.Nil(t, u.Energy)
	require.Equal(t, 50.0, *u.Utilization)

	once := every(-1, 12, steady)
	once[5].Power = nil // one look without
	u = watched(once...)
	require.InDelta(t, 2, u.LongestGap, 1e-9)
	require.InDelta(t, 3000, *u.Energy, 1e-6)

	back := append(every(-1, 12, steady), every(2, 5, func(float64) float64 { return 9e9 })...)
	require.InDelta(t, 3000, *watched(back...).Energy, 1e-6, "a clock that was set back")
}

// covers: PL-V26, PL-V27
func TestUseOfSamples(t *testing.T) {
	list := every(-5, 20, steady)
	for i := range list {
		s := &list[i]
		s.UUID, s.Use, s.SM, s.Memory, s.Temp, s.Reasons = "GPU-a", new(80.0), new(1900.0), new(1000.0+
			float64(i)), new(50.0), new(gpu.SWPowerCap)
		if i%2 == 0 { // six of the eleven in the window
			s.Use, s.SM, s.Reasons = new(0.0), new(345.0), new(gpu.HWThermal|gpu.HWSlowdown|gpu.Idle)
		}
	}
	u := watched(list...)
	require.Equal(t, 11, u.Samples)
	require.Equal(t, "GPU-a", u.UUID)
	require.InDelta(t, 80*6.0/11, *u.Utilization, 1e-9)
	require.Nil(t, u.SMClock, "in six samples only it was in use")
	require.InDelta(t, 5.0/11, *u.Slowed, 1e-9)
	require.Equal(t, []string{"hw-slowdown", "hw-thermal"}, u.SlowedBy)
	require.InDelta(t, 6.0/11, *u.PowerCapped, 1e-9)
	require.InDelta(t, 1015*1.048576e-3, *u.PeakMemory, 1e-9)
	require.Equal(t, 50.0, *u.PeakTemp)
	for i := range list {
		list[i].Use = new(80.0)
	}
	require.InDelta(t, (6*1900.0+5*345)/11, *watched(list...).SMClock, 1e-9)
}
