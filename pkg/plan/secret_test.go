package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// Every role and client gets a secret, or only those that it is for.
func TestSecretsOfSteps(t *testing.T) {
	in := input(t, "[global_env_vars]\nALL = { file = \"rel/all\" }\n", `num_nodes = 2
[Tests.extra_env_vars]
DECODE = { env = "D", for = ["decode"] }
SECOND = { file = "/second", for = ["decode_1", "bench"] }
PROXY = { env = "P", for = ["proxy"] }
`)
	replica := func(name string, n int) plan.Role {
		r := role(name, plan.Slice{Offset: n, Count: 1}, 0)
		r.Kind, r.Replica = "decode", n
		return r
	}
	in = serving(in, nil, replica("decode_0", 0), replica("decode_1", 1), role("proxy", plan.Slice{Count: 1}, 1))
	w := in.Workload.(service)
	w.EndpointRole, w.Ports = "proxy", []plan.Port{{Name: "http", Base: 8300, Step: 1, Count: 1, Role: "proxy"}}
	in.Workload = w
	p, err := plan.Make(in)
	require.NoError(t, err)
	all, decode, second, proxy := plan.Secret{Name: "ALL", File: "/home/u/rel/all"}, plan.Secret{Name: "DECODE",
		Env: "D"}, plan.Secret{Name: "SECOND", File: "/second"}, plan.Secret{Name: "PROXY", Env: "P"}
	require.Equal(t, []plan.Secret{all, decode}, p.Roles[0].Step.Secrets)
	require.Equal(t, []plan.Secret{all, decode, second}, p.Roles[1].Step.Secrets)
	require.Equal(t, []plan.Secret{all, proxy}, p.Roles[2].Step.Secrets)
	require.Equal(t, []plan.Secret{all, second}, p.Loads[0].Clients[0].Secrets)
	require.Equal(t, []plan.Secret{all, decode, proxy, second}, p.Secrets())
	require.Equal(t, []string{"D", "P"}, p.SecretEnv())
	require.Empty(t, p.Env)
}

// A secret that was written down works, and is noted without its value.
//
// covers: PL-D10
func TestWrittenSecretsAreNoted(t *testing.T) {
	in := input(t, "[global_env_vars]\nHF_TOKEN = \"hf_AbCdEfGhIjKlMnOp\"\n",
		"[Tests.extra_env_vars]\nMY_PASSWORD = \"correct horse\"\nFROM_SHELL = { shell = \"$NGC_API_KEY\" }\nHF_HOME = \"/hf/token\"\nMAX_TOKENS = \"4096\"\n")
	w := in.Workload.(service)
	w.Roles[0].Step.Argv = plan.Texts("serve", "--api-key", "hunter2")
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Len(t, p.Notes, 4, "%v", p.Notes)
	require.Contains(t, p.Notes[0], "the value of HF_TOKEN looks like a secret")
	require.Contains(t, p.Notes[1], "the value of MY_PASSWORD looks like a secret")
	require.Contains(t, p.Notes[2], "shell text puts the value into the environment of the whole job")
	require.Contains(t, p.Notes[3], "the command of serve seems to contain a secret")
	for _, note := range p.Notes {
		require.NotRegexp(t, "hf_Ab|horse|hunter", note)
	}
}

func TestPrologueHasNoSecrets(t *testing.T) {
	for prologue, notes := range map[string]int{"login ${TOKEN}": 1, "login \"$TOKEN\"": 1, "echo $TOKENS TOKEN": 0,
		"": 0} {
		p, err := plan.Make(input(t, "prologue = '"+prologue+"'\n",
			"[Tests.extra_env_vars]\nTOKEN = { env = \"T\" }\n"))
		require.NoError(t, err)
		require.Len(t, p.Notes, notes, prologue)
	}
}

// What a job gets of the submitting shell is asked for by the site and the test, and
// a batch gets what its runs ask for.
func TestExport(t *testing.T) {
	p, err := plan.Make(input(t, "export = [\"A\", \"B\"]\n", "[Tests.slurm]\nexport = [\"B\", \"C\"]\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"A", "B", "C"}, p.Job.Export)
	q, err := plan.Make(input(t, "", "[Tests.slurm]\nexport = \"ALL\"\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"ALL"}, q.Job.Export)
	var names []string
	in := input(t, "export = [\"A\", \"B\"]\n[global_env_vars]\nB = \"1\"\n", "[Tests.slurm]\nexport = \"ALL\"\n")
	in.Launcher = told{&names}
	_, err = plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, []string{"B", "HF_HOME", "HF_HUB_CACHE", "A"}, names, "a container gets what is named")
	for _, kind := range []string{plan.Array, plan.Sequence} {
		b, err := plan.NewBatch(kind, "/b", "exp_1_b", []*plan.Plan{p, q})
		require.NoError(t, err)
		require.Equal(t, []string{"A", "B", "C", "ALL"}, b.Job.Export)
		require.Equal(t, []string{"A", "B", "C"}, p.Job.Export)
	}
}
