package dryrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/terminal"
)

// GPUs that a server is given and cannot use are seen before it is submitted: they
// stay in the rates per GPU.
//
// covers: PAR-6, PAR-7
func TestIdleGPUsAreTold(t *testing.T) {
	role := plan.Role{Name: "serve", Nodes: plan.Slice{Count: 2}, GPUs: []int{0, 1, 2, 3}, TP: 4, PP: 2, Engine: true}
	p := &plan.Plan{Test: "a", Job: plan.Job{Nodes: 2},
		Roles: []plan.Role{role, {Name: "proxy", Nodes: plan.Slice{Count: 1}}}}
	require.Equal(t, 8, p.GPUs())
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs used, launcher")
	p.Job.GPUsPerNode = 4
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 8 used, launcher")
	require.Empty(t, p.IdleNotes())
	p.Roles[0].PP = 1
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 4 used, launcher")
	p.Roles[0].GPUs = []int{0, 1}
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 2 nodes, 8 GPUs allocated, 4 used, launcher")
	p.Roles[0].EP, p.Roles[0].Executor = 8, "headless, because"
	require.Contains(t, planTable(p, terminal.Screen{}), "executor of serve: headless, because\nexperts of serve: EP 8, which the engine computes of TP and DP\n")
	p.Job, p.Roles = plan.Job{Nodes: 1}, []plan.Role{{Name: "serve", Nodes: plan.Slice{Count: 1}, GPUs: []int{0}, TP: 1,
		PP: 1, Engine: true}}
	require.Contains(t, planTable(p, terminal.Screen{}), "# a: 1 node, 1 GPU used, launcher")
}
