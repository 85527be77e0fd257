package gpu

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/gputest"
)

// realReaders are the two ways to ask this machine's driver. What makes NVML's program
// missing is a skip, or a failure where a GPU is required.
func realReaders(t *testing.T) (program, library Reader) {
	t.Helper()
	gputest.Need(t, os.Environ())
	return Reader{}, Reader{NVML: gputest.Reader(t, os.Environ())}
}

// listed reads the GPUs, all by the same reader.
func listed(t *testing.T, r Reader) []Device {
	t.Helper()
	list, err := r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list.Note)
	require.NotEmpty(t, list.Devices)
	require.NoError(t, AddSetup(t.Context(), list.Devices))
	return list.Devices
}

// Both readers say the same of the GPUs of this machine, and in the right units.
func TestRealGPUReaders(t *testing.T) {
	program, library := realReaders(t)
	devices := listed(t, program)
	for i, d := range devices {
		t.Logf("%+v; %+v", d, *d.Setup)
		require.Equal(t, i, d.Index)
		require.Regexp(t, `^GPU-[0-9a-f-]{36}$`, d.UUID)
		require.NotEmpty(t, d.Name)
		require.Regexp(t, `^[0-9]+\.[0-9.]+$`, d.Driver)
		require.Greater(t, d.Total, int64(1)<<30)
		require.Less(t, d.Used, d.Total)
		require.Regexp(t, `^[0-9]+\.[0-9]+$`, d.Setup.CUDA)
		require.True(t, d.Setup.PowerLimit > 10 && d.Setup.PowerLimit < 3000, "%g W", d.Setup.PowerLimit)
		require.True(t, d.Setup.MaxClock > 300 && d.Setup.MaxClock < 5000, "%g MHz", d.Setup.MaxClock)
		require.Contains(t, []string{"Enabled", "Disabled"}, d.Setup.Persistence)
		require.Contains(t, []string{"Enabled", "Disabled", ""}, d.Setup.MIG)
	}
	other := listed(t, library)
	require.Regexp(t, `^nvml [0-9.]+$`, other[0].Reader)
	require.Empty(t, differences(devices, other))
}

func TestRealGPUWatchIdle(t *testing.T) {
	program, library := realReaders(t)
	devices := listed(t, program)
	one, other := watchBoth(t, program, library, 15, func(Sample) bool { return true })
	requireSane(t, devices[0], one)
	requireSane(t, devices[0], other)
	require.Empty(t, sampleDifferences(one, other))
	if len(devices[0].Processes) > 0 {
		t.Skip("somebody computes on the GPU: that an idle one is seen as idle was not tested")
	}
	for _, list := range [][]Sample{one, other} {
		require.Zero(t, *list[len(list)-1].Use)
		require.Less(t, *list[len(list)-1].Memory, 2048.0)
	}
}

// A busy GPU is seen as busy, with who computes on it and what that takes.
func TestRealGPUWatchBusy(t *testing.T) {
	program, library := realReaders(t)
	before := listed(t, program)[0]
	pid := gputest.Load(t, os.Environ(), before.UUID)
	one, other := watchBoth(t, program, library, 20, func(s Sample) bool { return s.Use != nil && *s.Use > 80 })
	require.Empty(t, sampleDifferences(one, other))
	for _, list := range [][]Sample{one, other} {
		requireSane(t, before, list)
		for _, s := range list {
			require.Zero(t, *s.Reasons&Idle)
			require.Greater(t, *s.Memory, float64(gputest.Held/mib))
		}
	}
	busy, same := listed(t, program), listed(t, library)
	require.Empty(t, differences(busy, same))
	for _, d := range []Device{busy[0], same[0]} {
		t.Logf("process %d loads it: %+v", pid, d)
		require.GreaterOrEqual(t, d.Used-before.Used, int64(gputest.Held))
	}
	requireHolder(t, pid, busy[0]) // may skip
	requireHolder(t, pid, same[0])
}

// requireSane looks for the units: a number that is off by a factor of a thousand is
// out of these ranges.
func requireSane(t *testing.T, d Device, list []Sample) {
	t.Helper()
	for i, s := range list {
		t.Logf("%s", s.Append(nil))
		require.Equal(t, d.UUID, s.UUID)
		require.WithinDuration(t, time.Now(), s.Time, time.Hour, "in UTC, whatever the zone")
		if i > 0 {
			require.False(t, s.Time.Before(list[i-1].Time))
		}
		for name, x := range map[string]struct {
			value     *float64
			low, high float64
		}{
			"use": {s.Use, 0, 100}, "memory": {s.Memory, 0, float64(d.Total) / mib}, "power": {s.Power, 5, 3000},
			"sm clock": {s.SM, 50, 5000}, "memory clock": {s.Mem, 50, 20000}, "temperature": {s.Temp, 5, 120},
		} {
			require.NotNil(t, x.value, name)
			require.True(t, *x.value >= x.low && *x.value <= x.high, "%s %g", name, *x.value)
		}
		require.NotNil(t, s.Reasons)
	}
}

// requireHolder finds the process that holds the memory. In a container the driver
// says its id on the host.
func requireHolder(t *testing.T, pid int, d Device) {
	t.Helper()
	if len(d.Processes) == 0 {
		t.Skip("the driver names no process here, as in a container")
	}
	var most Process
	for _, p := range d.Processes {
		if p.Used >= most.Used {
			most = p
		}
		if p.PID == pid {
			most = p
			break
		}
	}
	if most.Used > 0 {
		require.GreaterOrEqual(t, most.Used, int64(gputest.Held))
	}
	if most.PID != pid {
		t.Skipf("the driver says process %d, which is %d here: a process namespace", most.PID, pid)
	}
}
