//go:build linux && cgo

package nvml

import (
	"errors"
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
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
		dev.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 400_000, nvml.SUCCESS }
		dev.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1410, nvml.SUCCESS }
		dev.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) {
			return nvml.FEATURE_ENABLED,
				nvml.SUCCESS
		}
		dev.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, 0, nvml.SUCCESS }
		dev.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			if i != 1 {
				return nil, nvml.ERROR_NOT_SUPPORTED
			}
			return []nvml.ProcessInfo{{Pid: 4711, UsedGpuMemory: 900 * mib},
				{Pid: 4712, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
		}
	}
	return s
}

// list is what a reader prints, or its error.
func list(lib nvml.Interface) (h gpu.Hello, devices []gpu.Device, err error) {
	h, shut := Open(lib, "v")
	defer shut()
	if h.Error != "" {
		return h, nil, errors.New(h.Error)
	}
	err = List(lib, h.GPUs, func(d gpu.Device) error {
		devices = append(devices, d)
		return nil
	})
	return h, devices, err
}

// covers: PL-G13
func TestList(t *testing.T) {
	s := dgx()
	h, devices, err := list(s)
	require.NoError(t, err)
	require.Equal(t, gpu.Hello{Format: gpu.Format, Version: "v", NVML: s.NvmlVersion, Driver: s.DriverVersion,
		CUDA: h.CUDA, GPUs: 8}, h)
	require.Regexp(t, `^[0-9]+\.[0-9]$`, h.CUDA)
	require.Len(t, devices, 8)
	for i, d := range devices {
		require.Equal(t, i, d.Index)
		require.Equal(t, "Mock NVIDIA A100-SXM4-40GB", d.Name)
		require.NotEmpty(t, d.UUID)
		require.Equal(t, int64(40)<<30, d.Total)
		require.Equal(t, int64(i)*1000*mib, d.Used)
		require.Equal(t, &gpu.Setup{PowerLimit: 400, MaxClock: 1410, Persistence: "Enabled", MIG: "Disabled"}, d.Setup)
	}
	require.Equal(t, []gpu.Process{{PID: 4711, Used: 900 * mib}, {PID: 4712}}, devices[1].Processes)
}

// What a GPU does not say of its setup is left out.
func TestSetupUnknown(t *testing.T) {
	s := dgx()
	for _, d := range s.Devices {
		dev := d.(*dgxa100.Device)
		dev.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		dev.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		dev.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	}
	_, devices, err := list(s)
	require.NoError(t, err)
	require.Equal(t, &gpu.Setup{MaxClock: 1410}, devices[0].Setup)
}

// An old driver lacks the newer calls, and must not be asked them.
func TestListOldDriver(t *testing.T) {
	s := dgx()
	s.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	for _, d := range s.Devices {
		dev := d.(*dgxa100.Device)
		dev.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { panic("not there") }
		dev.GetMigModeFunc = func() (int, int, nvml.Return) { panic("not there") }
	}
	_, devices, err := list(s)
	require.NoError(t, err)
	require.Equal(t, int64(40)<<30, devices[0].Total)
	require.Empty(t, devices[0].Setup.MIG)
}

func TestInit(t *testing.T) {
	s := dgx()
	s.DeviceGetCountFunc = func() (int, nvml.Return) { panic("called without a library") }
	for ret, no := range map[nvml.Return]bool{
		nvml.ERROR_LIBRARY_NOT_FOUND: true, nvml.ERROR_DRIVER_NOT_LOADED: true,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: false,
	} {
		s.InitFunc = func() nvml.Return { return ret }
		h, _, err := list(s)
		require.Error(t, err)
		require.Equal(t, no, h.NoDriver)
	}
}

func TestDeviceGone(t *testing.T) {
	s := dgx()
	s.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	_, devices, err := list(s)
	require.ErrorContains(t, err, "nvml: device 3: uuid: ")
	require.Len(t, devices, 3)
}
