package podman

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

var (
	box = plan.Container{
		Image: "nvcr.io#nvidia/vllm:26.01", Mounts: []string{"/out/run:/out/run", "/data:/input:ro"},
		Binary: "/bin/profllm", Dir: "/out/run",
		Env: []string{"NCCL_DEBUG", "HF_TOKEN"}, Args: []string{"--site", "a b"},
	}
	engine = plan.Step{Name: "serve", Container: true, Log: "logs/serve-%t.log", Argv: plan.Texts("vllm", "serve", "m"),
		Env: []plan.Var{
			{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,1")}, {Name: "VLLM_HOST_IP", Value: plan.Word{plan.Addr("serve")}},
		}}
	client = plan.Step{Name: "bench", Container: true, Argv: plan.Texts("vllm", "bench", "serve")}
)

// covers: PL-G8, PL-G14, PL-G15
func TestWrap(t *testing.T) {
	s, err := New().Wrap(engine, box)
	require.NoError(t, err)
	require.Equal(t, slices.Concat([]plan.Word{plan.Self()},
		plan.Texts("job", "contain", "--runtime=podman", "--step=serve", "CUDA_VISIBLE_DEVICES=0,1"),
		[]plan.Word{plan.Concat("VLLM_HOST_IP=", plan.Addr("serve"))},
		plan.Texts("--", "--device=nvidia.com/gpu=all", "--rm", "--init", "--network=host", "--ipc=host", "--uts=host", "--entrypoint=", "--cgroups=disabled", "--http-proxy=false", "--security-opt=label=disable",
			"--workdir=/out/run",
			"--env=HF_TOKEN", "--env=NCCL_DEBUG",
			"--mount=type=bind,source=/out/run,target=/out/run", "--mount=type=bind,source=/data,target=/input,readonly",
			"--site", "a b", "nvcr.io/nvidia/vllm:26.01", "vllm", "serve", "m")), s.Argv)

	s, err = New().Wrap(client, box)
	require.NoError(t, err)
	require.NotContains(t, s.Argv, plan.Text("--device=nvidia.com/gpu=all"), "no GPUs, no devices")
}

func TestImages(t *testing.T) {
	archive := box
	archive.Image = "/cache/vllm.tar"
	s, err := New().Wrap(client, archive)
	require.NoError(t, err)
	require.Equal(t, plan.Text("--load=/cache/vllm.tar"), s.Argv[4], "the node loads what its store lacks")
	for image, want := range map[string]string{
		"/cache/vllm.sif": "a .sif file apptainer",
	} {
		archive.Image = image
		_, err := New().Wrap(client, archive)
		require.ErrorContains(t, err, want, image)
	}
}
