//go:build linux && cgo

package nvml

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
)

// busy are eight GPUs that say all they can be asked while they are watched.
func busy() *dgxa100.Server {
	s := dgx()
	for _, d := range s.Devices {
		dev := d.(*dgxa100.Device)
		dev.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: 97},
				nvml.SUCCESS
		}
		dev.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 399_500, nvml.SUCCESS }
		dev.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 12_345_678, nvml.SUCCESS }
		dev.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1410, nvml.CLOCK_MEM: 1215}[c], nvml.SUCCESS
		}
		dev.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) {
			return 0,
				nvml.ERROR_NOT_SUPPORTED
		}
		dev.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0x4, nvml.SUCCESS }
		dev.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 0x20, nvml.SUCCESS }
	}
	return s
}

// covers: PL-V26, PL-V27, PL-V33
func TestWatch(t *testing.T) {
	s := busy()
	at := time.UnixMilli(1_795_000_000_123).UTC()
	var looks [][]gpu.Sample
	ctx, cancel := context.WithCancel(t.Context())
	err := Watch(ctx, s, 8, time.Millisecond, func() time.Time { return at }, func(look []gpu.Sample) error {
		if looks = append(looks, look); len(looks) == 3 {
			cancel()
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, looks[0], 8)
	uuid, _ := s.Devices[3].GetUUID()
	require.Equal(t, gpu.Sample{
		Time: at, Index: 3, UUID: uuid, Use: new(97.0), Memory: new(3000.0), Power: new(399.5), Energy: new(12345678.0),
		SM: new(1410.0), Mem: new(1215.0), Reasons: new(gpu.SWPowerCap),
	}, looks[0][3])
}

// An old library lacks newer calls, and must not be asked them.
func TestWatchOldDriver(t *testing.T) {
	s := busy()
	s.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	for _, d := range s.Devices {
		dev := d.(*dgxa100.Device)
		dev.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { panic("not there") }
		dev.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { panic("not there") }
		dev.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { panic("not there") }
	}
	over := errors.New("enough")
	err := Watch(t.Context(), s, 8, time.Millisecond, time.Now, func(look []gpu.Sample) error {
		require.Nil(t, look[0].Energy)
		require.Equal(t, new(gpu.SWThermal), look[0].Reasons)
		return over
	})
	require.ErrorIs(t, err, over)
}

func TestWatchComplaints(t *testing.T) {
	s := busy()
	require.NoError(t, Watch(t.Context(), s, 0, time.Second, time.Now, nil), "there is nothing to watch")
	s.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	require.ErrorContains(t, Watch(t.Context(), s, 8, time.Second, time.Now, nil), "nvml: device 3: uuid: ")
}
