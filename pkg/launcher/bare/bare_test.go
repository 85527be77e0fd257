package bare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// covers: IMG-10
func TestWrap(t *testing.T) {
	s := plan.Step{Name: "serve", Container: true, Argv: plan.Texts("vllm"), Srun: plan.Texts("--x"),
		Log: "logs/serve-%t.log"}
	got, err := New().Wrap(s, plan.Container{Image: "ignored", Mounts: []string{"a,b"}})
	require.NoError(t, err)
	require.True(t, s.Container)
	s.Container = false
	require.Equal(t, s, got, "the command as it is, outside of a container")
}
