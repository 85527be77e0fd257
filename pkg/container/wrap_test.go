package container_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// A server whose number of GPUs is 0 names none of them: its container gets no GPU, and nothing
// else that only a step with GPUs needs. GPUs that are known in the job only are GPUs.
//
// covers: CTR-1
func TestStepsWithoutGPUs(t *testing.T) {
	runtime := container.OCI{Program: "docker", GPUs: []string{"--gpus=all"}}
	box := plan.Container{Image: "vllm:1", Security: config.Privileged, RDMA: true}
	for name, c := range map[string]struct {
		visible plan.Word
		uses    bool
	}{
		"none":         {plan.Text(plan.FormatGPUs(nil)), false},
		"one":          {plan.Text(plan.FormatGPUs([]int{0})), true},
		"known in job": {plan.Word{plan.Addr("serve")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			step := plan.Step{Name: "serve", Container: true, Argv: plan.Texts("vllm", "serve", "m"),
				Env: []plan.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: c.visible}}}
			require.Equal(t, c.uses, container.UsesGPUs(step))
			s, err := runtime.Wrap(step, box)
			require.NoError(t, err)
			for _, option := range []string{"--gpus=all", "--privileged", "--rdma"} {
				has := slices.ContainsFunc(s.Argv, func(w plan.Word) bool { return w.String() == option })
				require.Equal(t, c.uses, has, option)
			}
		})
	}
}
