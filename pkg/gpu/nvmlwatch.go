//go:build linux && cgo && !nonvml

package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// libraryWatch asks the driver's own library.
func libraryWatch() []watcher {
	return []watcher{func(ctx context.Context, w Watching) error { return watchNVML(ctx, nvml.New(), w) }}
}

// Calls that older drivers lack: the dynamic linker ends the process that makes one.
const (
	eventReasons = "nvmlDeviceGetCurrentClocksEventReasons"
	totalEnergy  = "nvmlDeviceGetTotalEnergyConsumption"
)

// watched is a GPU that is looked at again and again.
type watched struct {
	nvml.Device
	index                int
	uuid                 string
	newer, event, energy bool // the library has that call
}

func watchNVML(ctx context.Context, lib nvml.Interface, w Watching) error {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
		defer lib.Shutdown()
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return ErrNoDriver
	default:
		return fmt.Errorf("nvml: init: %s", ret.Error())
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("nvml: count the devices: %s", ret.Error())
	}
	has := func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }
	devices := make([]watched, n)
	for i := range devices {
		d := watched{index: i, newer: has(memoryV2), event: has(eventReasons), energy: has(totalEnergy)}
		if d.Device, ret = lib.DeviceGetHandleByIndex(i); ret != nvml.SUCCESS {
			return fmt.Errorf("nvml: device %d: handle: %s", i, ret.Error())
		}
		if d.uuid, ret = d.GetUUID(); ret != nvml.SUCCESS {
			return fmt.Errorf("nvml: device %d: uuid: %s", i, ret.Error())
		}
		devices[i] = d
	}
	if n == 0 {
		return ErrNoDriver
	}
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		look := make([]Sample, n)
		for i := range devices {
			look[i] = devices[i].sample(w.Now())
		}
		if err := w.Take(look); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample asks one GPU for everything; what it does not answer is absent.
func (d *watched) sample(at time.Time) Sample {
	s := Sample{Time: at.UTC(), Index: d.index, UUID: d.uuid}
	set := func(into **float64, v float64, ret nvml.Return) {
		if ret == nvml.SUCCESS {
			*into = &v
		}
	}
	use, ret := d.GetUtilizationRates()
	set(&s.Use, float64(use.Gpu), ret)
	if d.newer {
		m, ret := d.GetMemoryInfo_v2()
		set(&s.Memory, float64(m.Used/mib), ret)
	} else {
		m, ret := d.GetMemoryInfo()
		set(&s.Memory, float64(m.Used/mib), ret)
	}
	mw, ret := d.GetPowerUsage()
	set(&s.Power, float64(mw)/1000, ret)
	if d.energy {
		mj, ret := d.GetTotalEnergyConsumption()
		set(&s.Energy, float64(mj), ret)
	}
	sm, ret := d.GetClockInfo(nvml.CLOCK_SM)
	set(&s.SM, float64(sm), ret)
	mem, ret := d.GetClockInfo(nvml.CLOCK_MEM)
	set(&s.Mem, float64(mem), ret)
	temp, ret := d.GetTemperature(nvml.TEMPERATURE_GPU)
	set(&s.Temp, float64(temp), ret)
	reasons := d.GetCurrentClocksThrottleReasons
	if d.event {
		reasons = d.GetCurrentClocksEventReasons
	}
	if bits, ret := reasons(); ret == nvml.SUCCESS {
		s.Reasons = new(Reasons(bits))
	}
	return s
}
