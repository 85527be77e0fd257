package job

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/internal/gputest"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
)

// The samples of a real GPU, as a job's guard writes them, can all be read.
func TestRealGPUSamples(t *testing.T) {
	gputest.Need(t, os.Environ())
	j := newJob(t)
	j.GPUs = gpu.Reader{NVML: gputest.Reader(t, os.Environ())}
	j.plan.Telemetry = &plan.Telemetry{Interval: plan.Seconds(200 * time.Millisecond)}
	stop := j.sampleGPUs(t.Context(), j.plan, "n1")
	await.True(t, func() bool { return strings.Count(j.file(GPUFile("n1")), "\n") > 10 }, "ten samples")
	stop()
	require.NoFileExists(t, j.path("telemetry", GPUNote("n1")))
	text := j.file(GPUFile("n1"))
	t.Log(text)
	n := 0
	require.NoError(t, gpu.Read(strings.NewReader(text), func(s gpu.Sample) {
		n++
		require.NotNil(t, s.Power)
		require.NotEmpty(t, s.UUID)
		require.NotNil(t, s.Energy, "NVML has the counter")
	}))
	require.Equal(t, strings.Count(text, "\n")-1, n, "all but the header")
}

// A node's lines before servers start say its GPUs and how they are set.
func TestRealGPUPreflight(t *testing.T) {
	gputest.Need(t, os.Environ())
	j := newJob(t)
	j.GPUs = gpu.Reader{NVML: gputest.Reader(t, os.Environ())}
	list, err := j.GPUs.List(t.Context())
	require.NoError(t, err)
	devices := list.Devices
	j.plan.Roles[0].GPUs = []int{0}
	j.save(t)
	require.NoError(t, j.Node(t.Context()))
	var lines node.Lines
	for line := range strings.Lines(j.stdout.String()) {
		lines.Add([]byte(line))
	}
	r := lines.Reports["n1"]
	require.NotNil(t, r)
	t.Logf("%+v", r.GPUs)
	require.Len(t, r.GPUs, len(devices))
	require.Equal(t, devices[0].UUID, r.GPUs[0].UUID)
	require.Positive(t, r.GPUs[0].Setup.PowerLimit)
	require.Equal(t, node.OK, check(t, *r, "gpus").Verdict)
}
