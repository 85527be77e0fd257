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
	require.Equal(t, []string{"A"}, container.Names(box))
	wrapped, err := (container.OCI{Program: "docker"}).Wrap(s, box)
	require.NoError(t, err)
	require.Equal(t, append([]plan.Word{plan.Self()}, plan.Texts("job", "contain", "--runtime=docker", "--env=HF_TOKEN",
		"--env=KEY", "--step=serve", "--")...), wrapped.Argv[:8])
	require.NotContains(t, wrapped.Argv, plan.Text("--env=MINE"))
	require.Equal(t, s.Secrets, wrapped.Secrets)
	s.Secrets = nil
	wrapped, err = (container.OCI{Program: "docker"}).Wrap(s, box)
	require.NoError(t, err)
	require.NotContains(t, wrapped.Argv, plan.Text("--env=HF_TOKEN"), "only where it is needed")
}
