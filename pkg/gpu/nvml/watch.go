//go:build linux && cgo

package nvml

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/profllm/profllm/pkg/gpu"
)

// watched is a GPU that is looked at again and again.
type watched struct {
	nvml.Device
	index                int
	uuid                 string
	newer, event, energy bool // the library has that call
}

// Watch hands over a look at n devices each interval until ctx ends, which is no error,
// or take returns an error. Without a device it ends at once.
func Watch(ctx context.Context, lib nvml.Interface, n int, interval time.Duration, now func() time.Time,
	take func([]gpu.Sample) error) error {
	devices := make([]watched, n)
	for i := range devices {
		d := watched{index: i, newer: has(lib, memoryV2), event: has(lib, eventReasons), energy: has(lib, totalEnergy)}
		var ret nvml.Return
		if d.Device, ret = lib.DeviceGetHandleByIndex(i); ret != nvml.SUCCESS {
			return fmt.Errorf("nvml: device %d: handle: %s", i, ret.Error())
		}
		if d.uuid, ret = d.GetUUID(); ret != nvml.SUCCESS {
			return fmt.Errorf("nvml: device %d: uuid: %s", i, ret.Error())
		}
		devices[i] = d
	}
	if n == 0 {
		return nil
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		look := make([]gpu.Sample, n)
		for i := range devices {
			look[i] = devices[i].sample(now())
		}
		if err := take(look); err != nil {
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
func (d *watched) sample(at time.Time) gpu.Sample {
	s := gpu.Sample{Time: at.UTC(), Index: d.index, UUID: d.uuid}
	set := func(into **float64, v float64, ret nvml.Return) {
		if ret == nvml.SUCCESS {
			*into = &v
		}
	}
	use, ret := d.GetUtilizationRates()
	set(&s.Use, float64(use.Gpu), ret)
	_, used, ret := memory(d.Device, d.newer)
	set(&s.Memory, float64(used/mib), ret)
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
		s.Reasons = new(gpu.Reasons(bits))
	}
	return s
}
