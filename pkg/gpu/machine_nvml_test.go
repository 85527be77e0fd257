//go:build linux && cgo && !nonvml

package gpu

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/stretchr/testify/require"
)

// The limits that nvidia-smi says are those of the library, in watts and megahertz.
func TestRealGPULimits(t *testing.T) {
	one(t, "nvml", readers(t)["nvml"])
	devices := one(t, "nvidia-smi", smi)
	require.NoError(t, AddSetup(t.Context(), devices))
	lib := nvml.New()
	require.Equal(t, nvml.SUCCESS, lib.Init())
	defer lib.Shutdown()
	for i, d := range devices {
		h, ret := lib.DeviceGetHandleByIndex(i)
		require.Equal(t, nvml.SUCCESS, ret)
		mw, ret := h.GetPowerManagementLimit()
		require.Equal(t, nvml.SUCCESS, ret)
		require.InDelta(t, float64(mw)/1000, d.Setup.PowerLimit, 0.01)
		mhz, ret := h.GetMaxClockInfo(nvml.CLOCK_SM)
		require.Equal(t, nvml.SUCCESS, ret)
		require.InDelta(t, float64(mhz), d.Setup.MaxClock, 0.01)
	}
}
