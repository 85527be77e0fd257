//go:build linux && cgo && !nonvml

package gpu

import (
	"errors"
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"
)

// dgx is eight GPUs without a driver, of which the second is in use.
func dgx() *dgxa100.Server {
	s := dgxa100.New()
	for i, d := range s.Devices {
		dev := d.(*dgxa100.Device)
		used := uint64(i) * 1000 * mib
		dev.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 42949672960, Used: used}, nvml.SUCCESS
		}
		dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			if i != 1 {
				return nil, nvml.ERROR_NOT_SUPPORTED
			}
			return []nvml.ProcessInfo{{Pid: 4711, UsedGpuMemory: 900 * mib}, {Pid: 4712, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
		}
	}
	return s
}

// covers: PL-G13
func TestNVML(t *testing.T) {
	s := dgx()
	devices, err := fromNVML(s)
	require.NoError(t, err)
	require.Len(t, devices, 8)
	for i, d := range devices {
		require.Equal(t, i, d.Index)
		require.Equal(t, "Mock NVIDIA A100-SXM4-40GB", d.Name)
		require.Equal(t, s.DriverVersion, d.Driver)
		require.NotEmpty(t, d.UUID)
		require.Equal(t, int64(40)<<30, d.Total)
		require.Equal(t, int64(i)*1000*mib, d.Used)
	}
	require.Equal(t, []Process{{PID: 4711, Used: 900 * mib}, {PID: 4712}}, devices[1].Processes)
}

// An old driver lacks the newer call, and must not be asked it.
func TestNVMLOldDriver(t *testing.T) {
	s := dgx()
	asked := ""
	s.LookupSymbolFunc = func(symbol string) error {
		asked = symbol
		return errors.New("undefined symbol")
	}
	for _, d := range s.Devices {
		d.(*dgxa100.Device).GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { panic("not there") }
	}
	devices, err := fromNVML(s)
	require.NoError(t, err)
	require.Equal(t, memoryV2, asked)
	require.Equal(t, int64(40)<<30, devices[0].Total)
}

func TestNVMLInit(t *testing.T) {
	s := dgx()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { panic("called without a library") }
	for ret, no := range map[nvml.Return]bool{
		nvml.ERROR_LIBRARY_NOT_FOUND: true, nvml.ERROR_DRIVER_NOT_LOADED: true, nvml.ERROR_LIB_RM_VERSION_MISMATCH: false,
	} {
		s.InitFunc = func() nvml.Return { return ret }
		_, err := fromNVML(s)
		require.Error(t, err)
		require.Equal(t, no, errors.Is(err, ErrNoDriver))
	}
}

func TestNVMLDeviceGone(t *testing.T) {
	s := dgx()
	s.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	_, err := fromNVML(s)
	require.ErrorContains(t, err, "nvml: device 3: uuid: ")
}
