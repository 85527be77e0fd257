package enroot

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

var (
	box = plan.Container{
		Image: "/cache/vllm.sqsh", Mounts: []string{"/out/run:/out/run", "/data:/input:ro"}, Binary: "/bin/profllm",
		Dir: "/out/run",
		Env: []string{"NCCL_DEBUG", "HF_TOKEN"}, Args: []string{"--site", "a b"},
	}
	engine = plan.Step{Name: "serve", Container: true, Log: "logs/serve-%t.log", Argv: plan.Texts("vllm", "serve", "m"),
		Env: []plan.Var{
			{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,1")}, {Name: "VLLM_HOST_IP", Value: plan.Word{plan.Addr("serve")}},
		}}
	client = plan.Step{Name: "bench", Container: true, Argv: plan.Texts("vllm", "bench", "serve")}
)

// covers: PL-G2
func TestWrap(t *testing.T) {
	s, err := New().Wrap(engine, box)
	require.NoError(t, err)
	require.Equal(t, slices.Concat([]plan.Word{plan.Self()},
		plan.Texts("job", "contain", "--runtime=enroot", "--workdir=/out/run", "--step=serve", "CUDA_VISIBLE_DEVICES=0,1"),
		[]plan.Word{plan.Concat("VLLM_HOST_IP=", plan.Addr("serve"))},
		plan.Texts("--", "--env=NVIDIA_VISIBLE_DEVICES=all", "--root", "--rw", "--env=HF_TOKEN", "--env=NCCL_DEBUG",
			"--mount=/out/run:/out/run:none:x-create=auto,rbind", "--mount=/data:/input:none:x-create=auto,rbind,ro",
			"--site", "a b", "/cache/vllm.sqsh", "vllm", "serve", "m")), s.Argv)

	s, err = New().Wrap(client, box)
	require.NoError(t, err)
	require.Contains(t, s.Argv, plan.Text("--env=NVIDIA_VISIBLE_DEVICES=void"),
		"no GPUs: the image's own setting must not ask for them")
}

func TestRefused(t *testing.T) {
	b := box
	b.Image = "nvcr.io#nvidia/vllm:26.01"
	_, err := New().Wrap(client, b)
	require.ErrorContains(t, err, "profllm stage SCENARIO")
}
