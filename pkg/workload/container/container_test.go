package container

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

func load(t *testing.T, args, extra string, needImage bool) (plan.Workload, error) {
	t.Helper()
	var test scenario.Test
	var err error
	test.CmdArgs, err = source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	test.ExtraCmdArgs, err = source.Parse("e.toml", []byte(extra))
	require.NoError(t, err)
	return New(test, needImage)
}

func TestServe(t *testing.T) {
	w, err := load(t, "docker_image_url = 'i'\ncmd = 'alltoall_perf_mpi --ngpus 1'\n", "", true)
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 2, TasksPerNode: 8, MPI: "pmix"})
	require.NoError(t, err)
	require.Equal(t, plan.Service{Image: "i", Steps: []plan.Step{{
		Name: "container", Nodes: plan.Slice{Count: 2}, TasksPerNode: 8, Container: true,
		Argv: plan.Texts("bash", "-c", "alltoall_perf_mpi --ngpus 1"),
		Srun: plan.Texts("--mpi=pmix"), Log: "logs/container-%t.log",
	}}}, s)

	s, err = w.Serve(plan.Cluster{Nodes: 1})
	require.NoError(t, err)
	require.Empty(t, s.Steps[0].Srun, "--mpi only where the site says it")
	require.Equal(t, 1, s.Steps[0].Tasks())

	s, err = w.Serve(plan.Cluster{Nodes: 1, Simulated: true})
	require.NoError(t, err)
	require.Equal(t, append([]plan.Word{plan.Self()},
		plan.Texts("sim", "bash", "-c", "alltoall_perf_mpi --ngpus 1")...), s.Steps[0].Argv,
		"there is no image to run it in")
}

// Extra arguments follow the text, each as the word that it is.
func TestExtraArgumentsAreNoShellText(t *testing.T) {
	w, err := load(t, "cmd = '''for x in 1; do :; done; printf '<%s>' '''\n",
		"\"--a\" = \"$(id) ' x\"\n\"--b\" = \"\"\n", false)
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 1})
	require.NoError(t, err)
	var argv []string
	for _, word := range s.Steps[0].Argv {
		argv = append(argv, word.String())
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "<--a><$(id) ' x><--b>", string(out))
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"docker_image_url = 'i'":                       "cmd is required",
		"docker_image_url = 'i'\ncmd = ''":             "t.toml:2:1: cmd_args.cmd is empty",
		"cmd = 'a'":                                    "cmd_args.docker_image_url is required\n\thint: name the image",
		"docker_image_url = 'i'\ncmd = 'a'\nimage = 1": `t.toml:3:1: unknown key "image"`,
	} {
		_, err := load(t, args, "", true)
		require.ErrorContains(t, err, want, args)
	}
	_, err := load(t, "cmd = 'a'", "x = 1", false)
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.x must be a string")
}
