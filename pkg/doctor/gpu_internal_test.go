package doctor

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/internal/gputest"
)

func TestRealGPUProbe(t *testing.T) {
	gputest.Need(t, os.Environ())
	p := Look(t.Context(), t.TempDir(), os.Getenv, gpu.Reader{NVML: gputest.Reader(t, os.Environ())}, "test",
		time.Now())
	require.Empty(t, p.GPUError)
	require.NotEmpty(t, p.GPUs)
	require.Regexp(t, `^[^,]+, [0-9.]+, [0-9]+ GiB$`, p.GPUs[0])
	d := &Doctor{gpus: "gpu:8"}
	d.nvidia("GPUs", &p)
	t.Logf("%+v", d.checks)
	require.Equal(t, OK, d.checks[0].Status)
}
