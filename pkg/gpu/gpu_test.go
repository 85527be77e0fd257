package gpu

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	twoDevices = `0, GPU-aaaa, NVIDIA H100 80GB HBM3, 570.86.15, 81559, 7
1, GPU-bbbb, NVIDIA H100 80GB HBM3, 570.86.15, 81559, 74102
`
	oneProcess = "GPU-bbbb, 4711, /usr/bin/python3 -m vllm, with, comma, 74090\n"
)

// fakeSMI puts an nvidia-smi on PATH that answers with these texts.
func fakeSMI(t *testing.T, devices, processes string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"gpu": devices, "apps": processes} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	script := "#!/bin/sh\ncase $1 in --query-gpu=*) exec cat '" + dir + "/gpu';; --query-compute-apps=*) exec cat '" +
		dir + "/apps';; esac\nexit 6\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// covers: PL-G13
func TestSMI(t *testing.T) {
	fakeSMI(t, twoDevices, "GPU-bbbb, 4711, /usr/bin/python3, 74090\nGPU-bbbb, 4712, [Not Found], [N/A]\n")
	got, err := smi(t.Context())
	require.NoError(t, err)
	h100 := func(index int, uuid string, used int64, procs ...Process) Device {
		return Device{Index: index, UUID: uuid, Name: "NVIDIA H100 80GB HBM3", Driver: "570.86.15", Reader: SMI,
			Total: 81559 * mib, Used: used * mib, Processes: procs}
	}
	require.Equal(t, []Device{
		h100(0, "GPU-aaaa", 7),
		h100(1, "GPU-bbbb", 74102, Process{PID: 4711, Name: "/usr/bin/python3", Used: 74090 * mib},
			Process{PID: 4712, Name: "[Not Found]"}),
	}, got)
}

func TestSMIComplaints(t *testing.T) {
	for name, c := range map[string]struct{ devices, processes, want string }{
		"no number":     {"zero, GPU-a, A, 1, 2, 3\n", "", `line 1: index "zero" is not a number`},
		"few fields":    {"0, GPU-a\n", "", "line 1: 2 fields instead of 6"},
		"memory":        {"0, GPU-a, A, 1, lots, 3\n", "", `memory.total: "lots" is not a number of MiB`},
		"pid":           {twoDevices, "GPU-aaaa, -, x, 1\n", `pid "-" is not a number`},
		"short process": {twoDevices, "GPU-aaaa, 4711, 1\n", "line 1: 3 fields instead of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSMI(t, c.devices, c.processes)
			_, err := smi(t.Context())
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("a broken driver", func(t *testing.T) {
		dir := t.TempDir()
		text := "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(text), 0o755))
		t.Setenv("PATH", dir)
		_, err := smi(t.Context())
		require.ErrorContains(t, err, "exit status 18: Failed to initialize NVML: Driver/library version mismatch")
		require.NotErrorIs(t, err, ErrNoDriver)
	})
}

// nvidia-smi quotes nothing.
func TestSMICommas(t *testing.T) {
	fakeSMI(t, twoDevices, oneProcess)
	got, err := smi(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Process{{PID: 4711, Name: "/usr/bin/python3 -m vllm, with, comma", Used: 74090 * mib}},
		got[1].Processes)
}

func TestNoDevices(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"),
		[]byte("#!/bin/sh\necho 'No devices were found'\nexit 6\n"), 0o755))
	t.Setenv("PATH", dir)
	got, err := smi(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestNoDriver(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := smi(t.Context())
	require.ErrorIs(t, err, ErrNoDriver)
}

// A driver that hangs does not hang the caller.
func TestHang(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := within(ctx, func(context.Context) ([]Device, error) { select {} })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func FuzzSMI(f *testing.F) {
	f.Add([]byte(twoDevices), []byte(oneProcess))
	f.Add([]byte("0, GPU-a, \"A, B\", 1, [N/A], 3\n"), []byte("GPU-a, 1, x, [N/A]\n"))
	f.Fuzz(func(t *testing.T, devices, processes []byte) {
		list, err := parseDevices(devices)
		if err != nil {
			return
		}
		for _, d := range list {
			require.GreaterOrEqual(t, d.Index, 0)
			require.GreaterOrEqual(t, d.Total, int64(0))
			require.GreaterOrEqual(t, d.Used, int64(0))
		}
		if parseProcesses(processes, list) != nil {
			return
		}
		for _, d := range list {
			for _, p := range d.Processes {
				require.Positive(t, p.PID)
			}
		}
	})
}
