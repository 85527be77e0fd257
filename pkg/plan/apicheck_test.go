package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// The checks of the API run on the client's node, outside of a container, with the client's
// address, model and secrets.
//
// covers: TST-6, HLT-4
func TestAPICheck(t *testing.T) {
	in := input(t, "gpus_per_node = 4\n", "num_nodes = 2\nextra_env_vars = { OPENAI_API_KEY = { env = \"KEY\" } }\n")
	w := in.Workload.(service)
	w.ClientNodes = plan.Slice{Offset: 1, Count: 1}
	in.Workload = w
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Nil(t, p.APICheck)

	in.APICheck = []string{"models", "chat"}
	in.Loads[0].Clients = []plan.Client{named{}}
	p, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, "profllm job api --run /out/s/a/0 --url http://${addr:serve}:${port:http} --model served --only models,chat",
		joined(p.APICheck.Argv))
	require.Equal(t, plan.Slice{Offset: 1, Count: 1}, p.APICheck.Nodes)
	require.False(t, p.APICheck.Container)
	require.Equal(t, []plan.Secret{{Name: "OPENAI_API_KEY", Env: "KEY"}}, p.APICheck.Secrets)

	w.ClientHost = "gateway"
	in.Workload, in.Loads[0].Clients = w, []plan.Client{client{}}
	p, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, "profllm job api --run /out/s/a/0 --url http://gateway:${port:http} --only models,chat",
		joined(p.APICheck.Argv), "a client that names no model asks for the first")

	w.Roles, w.Ports, in.Loads[0].Clients = nil, nil, nil
	w.Steps = []plan.Step{{Name: "step", Nodes: plan.Slice{Count: 1}, Argv: plan.Texts("true")}}
	in.Workload = w
	_, err = plan.Make(in)
	require.ErrorContains(t, err, "serves nothing, so api_check has no effect")
}

// named is a client whose model has a name of its own.
type named struct{}

func (named) Command(t plan.Target) (plan.Step, error) {
	s, err := client{}.Command(t)
	s.Argv = append(s.Argv, plan.Texts("--model", "path", "--served-model-name=served")...)
	return s, err
}
