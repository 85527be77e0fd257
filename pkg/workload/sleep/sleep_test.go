package sleep

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

func load(t *testing.T, args, extra string) (plan.Workload, error) {
	t.Helper()
	var test scenario.Test
	var err error
	test.CmdArgs, err = source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	test.ExtraCmdArgs, err = source.Parse("e.toml", []byte(extra))
	require.NoError(t, err)
	return New(test, true)
}

func TestServe(t *testing.T) {
	for args, want := range map[string]plan.Step{
		"":                    {Argv: plan.Texts("sleep", "5")},
		"seconds = 10":        {Argv: plan.Texts("sleep", "10")},
		"seconds = \"0\"":     {Argv: plan.Texts("sleep", "0")},
		"docker_image_url=''": {Argv: plan.Texts("sleep", "5")},
		"docker_image_url='ubuntu:22.04'\nseconds=1": {Argv: plan.Texts("sleep", "1"), Container: true},
	} {
		w, err := load(t, args, "")
		require.NoError(t, err, args)
		s, err := w.Serve(plan.Cluster{Nodes: 3, TasksPerNode: 8, GPUsPerNode: 8, MPI: "pmix", Simulated: true})
		require.NoError(t, err)
		require.Empty(t, s.Roles)
		require.Len(t, s.Steps, 1)
		got := s.Steps[0]
		require.Equal(t, want.Argv, got.Argv, args)
		require.Equal(t, want.Container, got.Container, args)
		require.Equal(t, 3, got.Tasks(), "once on every node")
		require.Empty(t, got.Srun, "nobody looks for other ranks")
	}
}

func TestRefused(t *testing.T) {
	_, err := load(t, "seconds = -1\nsecond = 2\n", "a = \"b\"\n")
	require.ErrorContains(t, err, "t.toml:1:1: cmd_args.seconds is -1, must be 0 or more")
	require.ErrorContains(t, err, `t.toml:2:1: unknown key "second"`)
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.a: sleep takes no further arguments")
	_, err = load(t, "seconds = [1, 2]", "")
	require.ErrorContains(t, err, "t.toml:1:1: seconds must be an integer, not a list")
}
