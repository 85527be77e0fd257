package apptainer

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

var (
	box = plan.Container{
		Image: "/cache/vllm.sif", Mounts: []string{"/out/run:/out/run", "/data:/input:ro"}, Binary: "/bin/profllm",
		Dir: "/out/run",
		Env: []string{"NCCL_DEBUG", "HF_TOKEN"}, Args: []string{"--site", "a b"},
	}
	engine = plan.Step{Name: "serve", Container: true, Log: "logs/serve-%t.log", Argv: plan.Texts("vllm", "serve", "m"),
		Env: []plan.Var{
			{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,1")}, {Name: "VLLM_HOST_IP", Value: plan.Word{plan.Addr("serve")}},
		}}
	client = plan.Step{Name: "bench", Container: true, Argv: plan.Texts("vllm", "bench", "serve")}
)

// covers: PL-G6
func TestWrap(t *testing.T) {
	s, err := New().Wrap(engine, box)
	require.NoError(t, err)
	require.Equal(t, slices.Concat([]plan.Word{plan.Self()},
		plan.Texts("job", "contain", "--runtime=apptainer", "--env=HF_TOKEN", "--env=NCCL_DEBUG", "--step=serve",
			"CUDA_VISIBLE_DEVICES=0,1"), []plan.Word{plan.Concat("VLLM_HOST_IP=", plan.Addr("serve"))},
		plan.Texts("--", "--nv", "--contain", "--cleanenv", "--writable-tmpfs", "--bind=/dev/shm", "--pwd=/out/run", "--bind=/out/run:/out/run", "--bind=/data:/input:ro",
			"--site", "a b", "/cache/vllm.sif", "vllm", "serve", "m")), s.Argv)

	s, err = New().Wrap(client, box)
	require.NoError(t, err)
	require.NotContains(t, s.Argv, plan.Text("--nv"))
}

func TestImages(t *testing.T) {
	b := box
	for image, want := range map[string]string{
		"nvcr.io#nvidia/vllm:26.01": "docker://nvcr.io/nvidia/vllm:26.01", "vllm/vllm-openai": "docker://vllm/vllm-openai",
		"/cache/vllm.sqsh": "/cache/vllm.sqsh", "/cache/sandbox": "/cache/sandbox",
	} {
		b.Image = image
		s, err := New().Wrap(client, b)
		require.NoError(t, err)
		require.Equal(t, plan.Text(want), s.Argv[len(s.Argv)-4])
	}
	b.Image = "/cache/vllm.tar"
	_, err := New().Wrap(client, b)
	require.ErrorContains(t, err, "apptainer build NAME.sif docker-archive:/cache/vllm.tar")
	for _, mount := range []string{"/a,b:/c", "/a:/b:rslave", "/a:/b:z", "relative:/b"} {
		b := box
		b.Mounts = []string{mount}
		_, err := New().Wrap(client, b)
		require.ErrorContains(t, err, "mount", mount)
	}
}
