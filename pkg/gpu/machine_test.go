package gpu

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/gputest"
)

// readers are the two ways to ask this machine's driver, by name.
func readers(t *testing.T) map[string]reader {
	t.Helper()
	gputest.Need(t, os.Environ())
	list := map[string]reader{"nvidia-smi": smi}
	for _, r := range library() {
		list["nvml"] = r
	}
	return list
}

func watchers(t *testing.T) map[string]watcher {
	t.Helper()
	gputest.Need(t, os.Environ())
	list := map[string]watcher{"nvidia-smi": WatchProgram}
	for _, w := range libraryWatch() {
		list["nvml"] = w
	}
	return list
}

// one reads this machine's GPUs, which are not those of a fake.
func one(t *testing.T, name string, read reader) []Device {
	t.Helper()
	devices, err := read(t.Context())
	if errors.Is(err, ErrNoDriver) {
		gputest.Lacks(t, os.Environ(), name+": no library of the driver, although nvidia-smi sees a GPU")
	}
	require.NoError(t, err, name)
	require.NotEmpty(t, devices, name)
	return devices
}

// Both readers say the same of the GPUs of this machine.
func TestRealGPUReaders(t *testing.T) {
	list := readers(t)
	program := one(t, "nvidia-smi", list["nvidia-smi"])
	for i, d := range program {
		require.Equal(t, i, d.Index)
		require.Regexp(t, `^GPU-[0-9a-f-]{36}$`, d.UUID)
		require.NotEmpty(t, d.Name)
		require.Regexp(t, `^[0-9]+\.[0-9.]+$`, d.Driver)
		require.Greater(t, d.Total, int64(1)<<30)
		require.Less(t, d.Used, d.Total)
	}
	if list["nvml"] == nil {
		t.Skip("a build without cgo has one reader, nvidia-smi")
	}
	library := one(t, "nvml", list["nvml"])
	require.Len(t, library, len(program))
	for i, d := range library {
		require.InDelta(t, program[i].Total, d.Total, mib, "nvidia-smi says whole MiB")
		require.InDelta(t, program[i].Used, d.Used, 64*mib)
		d.Total, d.Used, d.Processes = program[i].Total, program[i].Used, program[i].Processes
		require.Equal(t, program[i], d)
	}
}

func TestRealGPUSetup(t *testing.T) {
	devices := one(t, "nvidia-smi", readers(t)["nvidia-smi"])
	require.NoError(t, AddSetup(t.Context(), devices))
	for _, d := range devices {
		t.Logf("%s: %+v", d.Name, *d.Setup)
		require.Regexp(t, `^[0-9]+\.[0-9]+$`, d.Setup.CUDA)
		require.True(t, d.Setup.PowerLimit > 10 && d.Setup.PowerLimit < 3000, "%g W", d.Setup.PowerLimit)
		require.True(t, d.Setup.MaxClock > 300 && d.Setup.MaxClock < 5000, "%g MHz", d.Setup.MaxClock)
		require.Contains(t, []string{"Enabled", "Disabled"}, d.Setup.Persistence)
		require.Contains(t, []string{"Enabled", "Disabled", ""}, d.Setup.MIG)
	}
}

// watchFor returns the samples of GPU 0 of so many looks, after enough said that the
// first of them may be taken.
func watchFor(t *testing.T, watch watcher, looks int, enough func(Sample) bool) []Sample {
	t.Helper()
	var list []Sample
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := watch(ctx, Watching{Interval: 200 * time.Millisecond, Now: time.Now, Take: func(look []Sample) error {
		for _, s := range look {
			if s.Index == 0 && len(list) < looks && (len(list) > 0 || enough(s)) {
				list = append(list, s)
			}
		}
		if len(list) == looks {
			cancel()
		}
		return nil
	}})
	if errors.Is(err, ErrNoDriver) {
		gputest.Lacks(t, os.Environ(), "no library of the driver, although nvidia-smi sees a GPU")
	}
	require.NoError(t, err)
	require.Len(t, list, looks)
	return list
}

func anySample(Sample) bool { return true }

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

// requireCounts looks at the counter of energy, which only NVML has, and never falls.
func requireCounts(t *testing.T, name string, list []Sample) {
	t.Helper()
	for i, s := range list {
		if name == "nvidia-smi" {
			require.Nil(t, s.Energy)
			continue
		}
		require.NotNil(t, s.Energy)
		if i > 0 {
			require.GreaterOrEqual(t, *s.Energy, *list[i-1].Energy)
		}
	}
}

func TestRealGPUWatchIdle(t *testing.T) {
	all := watchers(t)
	devices := one(t, "nvidia-smi", smi)
	last := map[string]Sample{}
	for name, watch := range all {
		t.Run(name, func(t *testing.T) {
			list := watchFor(t, watch, 15, anySample)
			requireSane(t, devices[0], list)
			requireCounts(t, name, list)
			last[name] = list[len(list)-1]
			if len(devices[0].Processes) > 0 {
				t.Skip("somebody computes on the GPU: that an idle one is seen as idle was not tested")
			}
			require.Zero(t, *last[name].Use)
			require.Less(t, *last[name].Memory, 2048.0)
		})
	}
	if len(last) == 2 {
		require.InDelta(t, *last["nvml"].Memory, *last["nvidia-smi"].Memory, 64)
		require.InDelta(t, *last["nvml"].Temp, *last["nvidia-smi"].Temp, 10)
		require.InEpsilon(t, *last["nvml"].Power, *last["nvidia-smi"].Power, 0.5)
		require.Equal(t, last["nvml"].Index, last["nvidia-smi"].Index)
	}
}

// A busy GPU is seen as busy, with who computes on it and what that takes.
func TestRealGPUWatchBusy(t *testing.T) {
	all := readers(t)
	before := one(t, "nvidia-smi", smi)[0]
	pid := gputest.Load(t, os.Environ(), before.UUID)
	for name, read := range all {
		t.Run(name+" lists", func(t *testing.T) {
			d := one(t, name, read)[0]
			t.Logf("process %d loads it: %+v", pid, d)
			require.GreaterOrEqual(t, d.Used-before.Used, int64(gputest.Held))
			requireHolder(t, pid, d)
		})
	}
	for name, watch := range watchers(t) {
		t.Run(name+" watches", func(t *testing.T) {
			list := watchFor(t, watch, 20, func(s Sample) bool { return s.Use != nil && *s.Use > 80 })
			requireSane(t, before, list)
			requireCounts(t, name, list)
			for _, s := range list {
				require.Zero(t, *s.Reasons&Idle)
				require.Greater(t, *s.Memory, float64(gputest.Held/mib))
			}
			requirePower(t, list)
		})
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

// requirePower holds the counter of energy against the power over the same time: they
// are different sensors' words in different units.
func requirePower(t *testing.T, list []Sample) {
	t.Helper()
	first, last := list[0], list[len(list)-1]
	if first.Energy == nil {
		return
	}
	sum := 0.0
	for _, s := range list {
		sum += *s.Power
	}
	watts := (*last.Energy - *first.Energy) / 1000 / last.Time.Sub(first.Time).Seconds()
	t.Logf("%.1f W by the counter, %.1f W by the samples", watts, sum/float64(len(list)))
	require.InEpsilon(t, sum/float64(len(list)), watts, 0.35)
}
