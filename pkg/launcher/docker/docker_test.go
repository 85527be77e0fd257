package docker

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
	ours   = plan.Step{Name: "ray", Container: true,
		Argv: append([]plan.Word{plan.Self()}, plan.Texts("job", "ray")...)}
)

// A server gets every GPU and is told by CUDA_VISIBLE_DEVICES which are its own; it has the host's
// network, IPC and name, and the limits that RDMA and deep stacks need. A client gets no GPU.
//
// covers: PL-G14, PL-G15, PL-G16, CTR-1, CTR-2, CTR-3, CTR-11
func TestWrap(t *testing.T) {
	s, err := New().Wrap(engine, box)
	require.NoError(t, err)
	require.Equal(t, slices.Concat([]plan.Word{plan.Self()},
		plan.Texts("job", "contain", "--runtime=docker", "--step=serve", "CUDA_VISIBLE_DEVICES=0,1"),
		[]plan.Word{plan.Concat("VLLM_HOST_IP=", plan.Addr("serve"))},
		plan.Texts("--", "--gpus=all", "--rm", "--init", "--network=host", "--ipc=host", "--uts=host", "--entrypoint=", "--ulimit=memlock=-1", "--ulimit=stack=67108864",
			"--workdir=/out/run",
			"--env=HF_TOKEN", "--env=NCCL_DEBUG",
			"--mount=type=bind,source=/out/run,target=/out/run", "--mount=type=bind,source=/data,target=/input,readonly",
			"--site", "a b", "nvcr.io/nvidia/vllm:26.01", "vllm", "serve", "m")), s.Argv)
	require.Empty(t, s.Env, "job contain sets them for the client, and hands the names in")
	require.Empty(t, s.Srun)

	s, err = New().Wrap(client, box)
	require.NoError(t, err)
	require.NotContains(t, s.Argv, plan.Text("--gpus=all"), "no GPUs, no GPU option")

	home := box
	home.MountHome = true
	s, err = New().Wrap(ours, home)
	require.NoError(t, err)
	require.Equal(t, plan.Texts("--mount-home", "--step=ray", "--"), s.Argv[4:7])
	require.Contains(t, s.Argv, plan.Text("--mount=type=bind,source=/bin/profllm,target=/bin/profllm,readonly"))
	require.Equal(t, ours.Argv, s.Argv[len(s.Argv)-3:])
	require.Len(t, box.Mounts, 2, "the caller's list is not changed")
}

// The host's name is shared unless the site chooses one: docker refuses both.
//
// covers: CTR-2
func TestHostNames(t *testing.T) {
	for _, args := range [][]string{
		{"--hostname", "x"}, {"--hostname=x"}, {"-h", "x"}, {"-hx"}, {"-h=x"}, {"--uts=private"}, {"--uts", "private"},
	} {
		site := box
		site.Args = args
		s, err := New().Wrap(engine, site)
		require.NoError(t, err)
		require.NotContains(t, s.Argv, plan.Text("--uts=host"), args)
		site.Args = []string{"--host=x", "--no-healthcheck"}
		s, err = New().Wrap(engine, site)
		require.NoError(t, err)
		require.Contains(t, s.Argv, plan.Text("--uts=host"))
	}
}

func TestImages(t *testing.T) {
	archive := box
	archive.Image = "/cache/vllm.tar"
	s, err := New().Wrap(client, archive)
	require.NoError(t, err)
	require.Equal(t, plan.Text("--load=/cache/vllm.tar"), s.Argv[4])
	require.Equal(t, plan.Texts("/cache/vllm.tar", "vllm", "bench", "serve"), s.Argv[len(s.Argv)-4:])
	for _, name := range []string{"/cache/vllm.tar.gz", "./vllm.tgz", "/cache/vllm.tar.zst"} {
		archive.Image = name
		s, err := New().Wrap(client, archive)
		require.NoError(t, err)
		require.Equal(t, plan.Text("--load="+name), s.Argv[4])
	}
	for image, want := range map[string]string{
		"":                 "no image",
		"/cache/vllm.sqsh": "a .sqsh file needs pyxis or enroot",
		"dockerd://vllm":   "dockerd:// is not a registry",
		"a b":              `its name cannot be "a b"`,
	} {
		archive.Image = image
		_, err := New().Wrap(client, archive)
		require.ErrorContains(t, err, want, image)
	}
}

// What a server's container may do beyond the usual is the site's choice; clients never get it.
//
// covers: CTR-4
func TestSecurity(t *testing.T) {
	for value, want := range map[string][]string{
		"": nil, "unconfined": {"--security-opt=seccomp=unconfined"}, "privileged": {"--privileged"},
	} {
		site := box
		site.Security = value
		s, err := New().Wrap(engine, site)
		require.NoError(t, err)
		gpus := slices.IndexFunc(s.Argv, func(w plan.Word) bool { return w.String() == "--gpus=all" })
		require.Equal(t, append(plan.Texts(want...), plan.Text("--rm")), s.Argv[gpus+1:gpus+2+len(want)])
		s, err = New().Wrap(client, site)
		require.NoError(t, err)
		for _, option := range want {
			require.NotContains(t, s.Argv, plan.Text(option))
		}
	}
}

// Servers get the node's devices of RDMA, unless the site does without. An image of Amazon's
// registry wants a login; no other does.
func TestNodeSide(t *testing.T) {
	site := box
	site.RDMA = true
	s, err := New().Wrap(engine, site)
	require.NoError(t, err)
	require.Equal(t, plan.Text("--rdma"), s.Argv[5])
	s, err = New().Wrap(client, site)
	require.NoError(t, err)
	require.Equal(t, plan.Text("--"), s.Argv[5])

	const ecr = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/vllm:1"
	site = box
	site.Image = ecr
	s, err = New().Wrap(client, site)
	require.NoError(t, err)
	require.Equal(t, plan.Texts("--login="+ecr, "--step=bench", "--"), s.Argv[4:7])
}
