//go:build linux && cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/profllm/profllm/pkg/gpu"
)

// Calls that older drivers lack: whoever makes one ends the process.
const (
	memoryV2     = "nvmlDeviceGetMemoryInfo_v2"
	eventReasons = "nvmlDeviceGetCurrentClocksEventReasons"
	totalEnergy  = "nvmlDeviceGetTotalEnergyConsumption"
	migMode      = "nvmlDeviceGetMigMode"
)

const mib = 1 << 20

// Open starts the library, which close ends. Nothing else may be called where Hello has
// an error.
func Open(lib nvml.Interface, version string) (h gpu.Hello, shut func()) {
	h = gpu.Hello{Format: gpu.Format, Version: version}
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		h.Error, h.NoDriver = "libnvidia-ml.so.1 is not here, or cannot be opened", true
		return h, func() {}
	case nvml.ERROR_DRIVER_NOT_LOADED:
		h.Error, h.NoDriver = "the NVIDIA driver is not loaded", true
		return h, func() {}
	default:
		h.Error = "nvml: init: " + ret.Error()
		return h, func() {}
	}
	shut = func() { lib.Shutdown() }
	var ret nvml.Return
	if h.Driver, ret = lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		h.Error = "nvml: driver version: " + ret.Error()
		return h, shut
	}
	if h.GPUs, ret = lib.DeviceGetCount(); ret != nvml.SUCCESS {
		h.Error = "nvml: count the devices: " + ret.Error()
		return h, shut
	}
	if v, ret := lib.SystemGetNVMLVersion(); ret == nvml.SUCCESS {
		h.NVML = v
	}
	if v, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS && v > 0 { // 12080 is 12.8
		h.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	return h, shut
}

// has reports whether the library has a call.
func has(lib nvml.Interface, symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }

// List reads n devices, one after the other.
func List(lib nvml.Interface, n int, each func(gpu.Device) error) error {
	newer, mig := has(lib, memoryV2), has(lib, migMode)
	for i := range n {
		d, err := device(lib, i, newer, mig)
		if err != nil {
			return fmt.Errorf("nvml: device %d: %w", i, err)
		}
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

func device(lib nvml.Interface, index int, newer, mig bool) (gpu.Device, error) {
	d := gpu.Device{Index: index}
	h, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return d, fmt.Errorf("handle: %s", ret.Error())
	}
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return d, fmt.Errorf("uuid: %s", ret.Error())
	}
	if d.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return d, fmt.Errorf("name: %s", ret.Error())
	}
	if d.Total, d.Used, ret = memory(h, newer); ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return d, fmt.Errorf("memory: %s", ret.Error())
	}
	procs, ret := h.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED && ret != nvml.ERROR_NO_PERMISSION {
		return d, fmt.Errorf("processes: %s", ret.Error())
	}
	for _, p := range procs {
		used := int64(p.UsedGpuMemory)
		if used < 0 { // NVML_VALUE_NOT_AVAILABLE, all bits set
			used = 0
		}
		d.Processes = append(d.Processes, gpu.Process{PID: int(p.Pid), Used: used})
	}
	d.Setup = setup(h, mig)
	return d, nil
}

// memory is in bytes; 0 where a GPU shares the host's, and has none of its own.
func memory(h nvml.Device, newer bool) (total, used int64, ret nvml.Return) {
	if newer {
		m, ret := h.GetMemoryInfo_v2()
		return int64(m.Total), int64(m.Used), ret
	}
	m, ret := h.GetMemoryInfo()
	return int64(m.Total), int64(m.Used), ret
}

// setup is how a GPU is set, as far as it says so.
func setup(h nvml.Device, mig bool) *gpu.Setup {
	var s gpu.Setup
	if mw, ret := h.GetPowerManagementLimit(); ret == nvml.SUCCESS {
		s.PowerLimit = float64(mw) / 1000
	}
	if mhz, ret := h.GetMaxClockInfo(nvml.CLOCK_SM); ret == nvml.SUCCESS {
		s.MaxClock = float64(mhz)
	}
	word := map[bool]string{true: "Enabled", false: "Disabled"} // as nvidia-smi says it
	if on, ret := h.GetPersistenceMode(); ret == nvml.SUCCESS {
		s.Persistence = word[on == nvml.FEATURE_ENABLED]
	}
	if mig {
		if now, _, ret := h.GetMigMode(); ret == nvml.SUCCESS {
			s.MIG = word[now == nvml.DEVICE_MIG_ENABLE]
		}
	}
	return &s
}
