package pyxis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// covers: PL-G1, IMG-9
func TestImage(t *testing.T) {
	for image, want := range map[string]string{
		"nvcr.io#nvidia/ai-dynamo/vllm-runtime:1.1.1":  "nvcr.io#nvidia/ai-dynamo/vllm-runtime:1.1.1",
		"nvcr.io/nvidia/vllm:latest":                   "nvcr.io#nvidia/vllm:latest",
		"localhost/x":                                  "localhost#x",
		"host:5000/a/b":                                "host:5000#a/b",
		"docker://nvcr.io/nvidia/vllm":                 "docker://nvcr.io#nvidia/vllm",
		"docker://vllm/vllm-openai":                    "docker://vllm/vllm-openai",
		"vllm/vllm-openai:v0.32.0":                     "vllm/vllm-openai:v0.32.0",
		"ubuntu:22.04":                                 "ubuntu:22.04",
		"user@nvcr.io#nvidia/x":                        "user@nvcr.io#nvidia/x",
		"/shared/images/vllm.sqsh":                     "/shared/images/vllm.sqsh",
		"./nvcr.io/vllm.sqsh":                          "./nvcr.io/vllm.sqsh",
		"/shared/registry.local/vllm '$(touch x).sqsh": "/shared/registry.local/vllm '$(touch x).sqsh",
	} {
		s, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: image, MountHome: true})
		require.NoError(t, err, image)
		require.Equal(t, plan.Text("--container-image="+want), s.Srun[0])
	}
	_, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{})
	require.EqualError(t, err, "no image")
	for _, wrong := range []string{"a b:c", "nvcr.io#nvidia/vllm:", "nvcr.io/nvidia/vllm:1 2", "Image\nX", "a//b",
		"nvcr.io#", "https://nvcr.io/vllm", "vllm@sha256"} {
		_, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: wrong})
		require.ErrorContains(t, err, "image ", wrong)
	}
	_, err = New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: "dockerd://vllm"})
	require.EqualError(t, err,
		`image "dockerd://vllm": pyxis imports from registries and .sqsh files only (NVIDIA/pyxis#70)`)
}

func TestWrap(t *testing.T) {
	box := plan.Container{Image: "i", Mounts: []string{"/a:/b", "/c:/c"}, Binary: "/bin/profllm"}
	engine := plan.Step{Name: "serve", Container: true, Argv: plan.Texts("vllm", "serve"),
		Srun: []plan.Word{plan.Text("--x")}}
	ours := plan.Step{Name: "ray", Container: true, Argv: append([]plan.Word{plan.Self()}, plan.Texts("job", "ray")...)}

	s, err := New().Wrap(engine, box)
	require.NoError(t, err)
	require.Equal(t, plan.Texts("--x", "--container-image=i", "--container-mounts=/a:/b,/c:/c",
		"--no-container-mount-home", "--container-writable"), s.Srun)
	require.Equal(t, engine.Argv, s.Argv, "srun does the rest")

	s, err = New().Wrap(ours, box)
	require.NoError(t, err)
	require.Equal(t, plan.Texts("--container-image=i", "--container-mounts=/a:/b,/c:/c,/bin/profllm:/bin/profllm:ro",
		"--no-container-mount-home", "--container-writable"), s.Srun,
		"a step that runs profllm has it mounted")
	require.Equal(t, []string{"/a:/b", "/c:/c"}, box.Mounts, "the caller's list is not changed")

	box.Env = []string{"A", "B"}
	for _, ends := range []bool{false, true} { // servers, clients
		tool := engine
		tool.Ends = ends
		s, err = New().Wrap(tool, box)
		require.NoError(t, err)
		require.Contains(t, s.Srun, plan.Text("--container-env=A,B"),
			"else the image's own values win (NVIDIA/pyxis#124)")
	}
	box.Env = nil

	box.MountHome = true
	s, err = New().Wrap(engine, box)
	require.NoError(t, err)
	require.Contains(t, s.Srun, plan.Text("--container-mount-home"))
	require.NotContains(t, s.Srun, plan.Text("--no-container-mount-home"))
}

// profllm reads secrets inside the container, where it is one of the user's processes
// and the only one that has them.
//
// covers: CTR-8
func TestSecretsAreMounted(t *testing.T) {
	box := plan.Container{Image: "i", Mounts: []string{"/run:/run"}, Binary: "/bin/profllm", Env: []string{"A"},
		MountHome: true}
	s := plan.Step{Name: "bench", Ends: true, Argv: plan.Texts("vllm"),
		Secrets: []plan.Secret{{Name: "HF_TOKEN", Env: "MINE"}, {Name: "KEY", File: "/shared/key"}}}
	s, err := New().Wrap(s, box)
	require.NoError(t, err)
	require.Equal(t, plan.Texts("--container-image=i",
		"--container-mounts=/run:/run,/bin/profllm:/bin/profllm:ro,/shared/key:/shared/key:ro", "--container-env=A", "--container-mount-home", "--container-writable"), s.Srun)
	s.Secrets[1].File = "/shared/a,b"
	_, err = New().Wrap(s, box)
	require.ErrorContains(t, err, `mount "/shared/a,b:/shared/a,b:ro" must be SRC:DST without a comma`)
}

// pyxis writes mounts into a line of bash.
func TestMountsThatAShellWouldRead(t *testing.T) {
	for _, mount := range []string{"/a$x:/b", "/a:/b`id`", `/a"b:/c`, "/a\nb:/c", "$PWD/a:/b", "a:/b", "/a:b",
		"/a:./b"} {
		_, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: "i", Mounts: []string{mount}})
		require.ErrorContains(t, err, "mount ", mount)
	}
	s, err := New().Wrap(plan.Step{Name: "serve"},
		plan.Container{Image: "i", Mounts: []string{"/a'b#;%:/c", "tmpfs:/x", "/a b:/c:ro+rprivate"}})
	require.NoError(t, err)
	require.Contains(t, s.Srun, plan.Text("--container-mounts=/a'b#;%:/c,tmpfs:/x,/a b:/c:ro+rprivate"))
}

func TestMountsAreRefused(t *testing.T) {
	for _, mount := range []string{"/a,b:/c", "/a:/b,/etc:/etc", "/a", ""} {
		_, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: "i", Mounts: []string{"/ok:/ok", mount}})
		require.ErrorContains(t, err, "must be SRC:DST without a comma", mount)
	}
	_, err := New().Wrap(plan.Step{Name: "ray", Argv: []plan.Word{plan.Self()}},
		plan.Container{Image: "i", Binary: "/a,b"})
	require.ErrorContains(t, err, "without a comma")
}

// An archive of docker save is refused before the job, with the command that converts it.
func TestArchivesAreRefused(t *testing.T) {
	for _, image := range []string{"/a/vllm.tar", "/a/vllm.tar.gz", "./vllm.tgz"} {
		_, err := New().Wrap(plan.Step{Name: "serve"}, plan.Container{Image: image})
		require.ErrorContains(t, err, "enroot import --output NAME.sqsh dockerd://NAME:TAG", image)
	}
}
