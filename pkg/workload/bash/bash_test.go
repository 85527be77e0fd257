package bash

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

// The text is one argument, as it stands; it runs on the nodes of the test and
// has logs, in no container and by no other shell.
//
// covers: CD-40
func TestServe(t *testing.T) {
	const text = "a='$(touch x)'; echo \"$a\" | grep -v \\\n# end\n"
	w, err := load(t, "cmd = '''"+text+"'''", "")
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 2, TasksPerNode: 8, VisibleGPUs: []int{0, 3}, MPI: "pmix"})
	require.NoError(t, err)
	require.Equal(t, plan.Service{Steps: []plan.Step{{
		Name: "bash", Nodes: plan.Slice{Count: 2}, Argv: plan.Texts("bash", "-c", text), Log: "logs/bash-%t.log",
		Env: []plan.Var{{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text("0,3")}},
	}}}, s)
}

// A rehearsal runs the text for real, and says so before it does.
func TestSimulated(t *testing.T) {
	w, err := load(t, "cmd = 'true'", "")
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 1, Simulated: true})
	require.NoError(t, err)
	require.Equal(t, plan.Texts("bash", "-c", "true"), s.Steps[0].Argv)
	require.Equal(t, []string{"t.toml:1:1: cmd runs unchanged, also in a simulated run"}, s.Notes)
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "cmd is required",
		"cmd = ' '":                  "t.toml:1:1: cmd_args.cmd is empty",
		"cmd = ['a', 'b']":           "t.toml:1:1: cmd must be a string, not a list",
		"cmd = 'a'\ncommand = 'b'\n": `t.toml:2:1: unknown key "command"`,
	} {
		_, err := load(t, args, "")
		require.ErrorContains(t, err, want, args)
	}
	_, err := load(t, "cmd = 'a'", "x = \"1\"")
	require.ErrorContains(t, err, "e.toml:1:1: extra_cmd_args.x has no effect on a BashCmd test")
}
