package gpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The driver's answers, by hand after the forms of nvidia-smi 550.
const (
	setups  = "GPU-aaaa, 700.00, 1980, Enabled, Disabled\nGPU-bbbb, [N/A], 1980, Disabled, [N/A]\n"
	version = "NVIDIA-SMI version  : 550.120\nNVML version        : 550.120\nDRIVER version      : 550.120\nCUDA Version        : 12.4\n"
)

func TestAddSetup(t *testing.T) {
	dir := t.TempDir()
	// A real nvidia-smi (580.159 on an H100) refuses --version beside any other argument.
	script := "#!/bin/sh\ncase $* in --version) printf '" + version + "';; *--version*) exit 2;; *) printf '" + setups +
		"';; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	t.Setenv("PATH", dir)
	devices := []Device{{UUID: "GPU-bbbb"}, {UUID: "GPU-aaaa"}, {UUID: "GPU-cccc"}}
	require.NoError(t, AddSetup(t.Context(), devices))
	require.Equal(t, &Setup{CUDA: "12.4", PowerLimit: 700, MaxClock: 1980, Persistence: "Enabled", MIG: "Disabled"},
		devices[1].Setup)
	require.Equal(t, &Setup{CUDA: "12.4", MaxClock: 1980, Persistence: "Disabled"}, devices[0].Setup)
	require.Nil(t, devices[2].Setup)
}

// An old driver refuses the query: nothing is known, and nothing is lost.
func TestAddSetupRefused(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'Field \"mig.mode.current\" is not a valid field to query.'\nexit 2\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	t.Setenv("PATH", dir)
	devices := []Device{{UUID: "GPU-a"}}
	require.ErrorContains(t, AddSetup(t.Context(), devices), "not a valid field")
	require.Equal(t, []Device{{UUID: "GPU-a"}}, devices)
	t.Setenv("PATH", t.TempDir())
	require.ErrorIs(t, AddSetup(t.Context(), devices), ErrNoDriver)
}

func FuzzSetup(f *testing.F) {
	f.Add([]byte(setups), []byte(version))
	f.Add([]byte("GPU-a, NaN, 1e9, \"x, y\", z\n"), []byte("CUDA Version: N/A"))
	f.Fuzz(func(t *testing.T, out, text []byte) {
		devices := []Device{{UUID: "GPU-aaaa"}, {}}
		if parseSetups(out, parseCUDA(text), devices) != nil {
			return
		}
		for _, d := range devices {
			if s := d.Setup; s != nil {
				require.True(t, s.PowerLimit >= 0 && s.PowerLimit < 1e6 && s.MaxClock >= 0 && s.MaxClock < 1e6)
				require.LessOrEqual(t, len(s.MIG), 32)
			}
		}
	})
}
