package container_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/container"
	"github.com/profllm/profllm/pkg/plan"
)

// A secret goes inside by its name: the runtime takes the value from the environment
// that `profllm job exec` gave it, and no argument holds it.
//
// covers: CTR-8
func TestSecretsGoInsideByName(t *testing.T) {
	box := plan.Container{Image: "i", Env: []string{"A"}}
	s := plan.Step{Name: "serve", Argv: plan.Texts("vllm"),
		Secrets: []plan.Secret{{Name: "HF_TOKEN", Env: "MINE"}, {Name: "KEY", File: "/shared/key"}}}
	own, all := container.Names(s, box)
	require.Equal(t, []string{"HF_TOKEN", "KEY"}, own)
	require.Contains(t, all, "A")
	require.NotContains(t, all, "MINE")
	own, all = container.Names(plan.Step{}, box)
	require.NotContains(t, append(own, all...), "HF_TOKEN", "only where it is needed")
	wrapped, err := (container.OCI{Program: "docker"}).Wrap(s, box)
	require.NoError(t, err)
	require.Subset(t, wrapped.Argv, plan.Texts("--env=HF_TOKEN", "--env=KEY"))
	require.Equal(t, s.Secrets, wrapped.Secrets)
}
