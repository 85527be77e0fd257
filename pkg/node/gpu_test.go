package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/internal/gputest"
)

// realGPUs is what a node looks like with the GPUs of this machine, all of them planned.
func realGPUs(t *testing.T) (*Look, []gpu.Device) {
	t.Helper()
	gputest.Need(t, os.Environ())
	reader := gpu.Reader{NVML: gputest.Reader(t, os.Environ())}
	list, err := reader.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list.Note)
	l := look(t)
	l.ListGPUs, l.SetUp, l.Proc, l.GPUs = reader.List, gpu.AddSetup, "/proc", nil
	for i := range list.Devices {
		l.GPUs = append(l.GPUs, i)
	}
	return l, list.Devices
}

func TestRealGPULook(t *testing.T) {
	l, devices := realGPUs(t)
	r := l.Report(t.Context())
	require.Equal(t, OK, found(r, "gpus").Verdict)
	require.Equal(t, fmt.Sprintf("%d visible, %d planned", len(devices), len(devices)), found(r, "gpus").Seen)
	require.Len(t, r.GPUs, len(devices))
	require.Positive(t, r.GPUs[0].Setup.PowerLimit)
	var out bytes.Buffer
	require.NoError(t, r.Write(&out))
	for line := range strings.Lines(out.String()) {
		require.Less(t, len(line), 1024, "srun keeps a line of a kilobyte whole: %s", line)
	}
	var back Lines
	for line := range strings.Lines(out.String()) {
		back.Add([]byte(line))
	}
	require.Equal(t, r.GPUs[0].Setup, back.Reports[l.Host].GPUs[0].Setup)

	l.GPUs = append(l.GPUs, len(devices))
	require.Equal(t, Fail, found(l.Report(t.Context()), "gpus").Verdict)
}

// A GPU whose memory somebody holds is not fit, by either reader.
func TestRealGPULookHeld(t *testing.T) {
	l, devices := realGPUs(t)
	held, err := l.Held(t.Context())
	require.NoError(t, err)
	require.Empty(t, held)
	pid := gputest.Load(t, os.Environ(), devices[0].UUID)
	for name, list := range map[string]func(context.Context) (gpu.Listing, error){"nvml": l.ListGPUs,
		"nvidia-smi": gpu.Reader{}.List} {
		l.ListGPUs = list
		r := l.Report(t.Context())
		t.Logf("%s: process %d: %s; %s", name, pid, found(r, "gpu-memory").Seen, found(r, "gpu-processes").Seen)
		require.Equal(t, Fail, found(r, "gpu-memory").Verdict)
		require.Contains(t, found(r, "gpu-memory").Seen, "GPU 0 holds ")
		held, err := l.Held(t.Context())
		require.NoError(t, err)
		require.Len(t, held, 1)
	}
}
