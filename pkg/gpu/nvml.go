//go:build linux && cgo && !nonvml

package gpu

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library asks the driver's own library, which is opened when it is first used:
// neither building nor starting this program needs it.
func library() []reader {
	return []reader{func(context.Context) ([]Device, error) { return fromNVML(nvml.New()) }}
}

// memoryV2 is a call that older drivers lack.
const memoryV2 = "nvmlDeviceGetMemoryInfo_v2"

// fromNVML reads every device. Nothing is called unless Init succeeded: the
// dynamic linker ends the process on a symbol that is not there.
func fromNVML(lib nvml.Interface) ([]Device, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
		defer lib.Shutdown()
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, ErrNoDriver
	default:
		return nil, fmt.Errorf("nvml: init: %s", ret.Error())
	}
	driver, ret := lib.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("nvml: driver version: %s", ret.Error())
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("nvml: count the devices: %s", ret.Error())
	}
	newer := lib.Extensions().LookupSymbol(memoryV2) == nil
	devices := make([]Device, n)
	for i := range devices {
		d, err := fromHandle(lib, i, newer)
		if err != nil {
			return nil, fmt.Errorf("nvml: device %d: %w", i, err)
		}
		d.Driver = driver
		devices[i] = d
	}
	return devices, nil
}

func fromHandle(lib nvml.Interface, index int, newer bool) (Device, error) {
	d := Device{Index: index}
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
	if newer {
		m, ret := h.GetMemoryInfo_v2()
		if ret != nvml.SUCCESS {
			return d, fmt.Errorf("memory: %s", ret.Error())
		}
		d.Total, d.Used = int64(m.Total), int64(m.Used)
	} else {
		m, ret := h.GetMemoryInfo()
		if ret != nvml.SUCCESS {
			return d, fmt.Errorf("memory: %s", ret.Error())
		}
		d.Total, d.Used = int64(m.Total), int64(m.Used)
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
		d.Processes = append(d.Processes, Process{PID: int(p.Pid), Used: used})
	}
	return d, nil
}
