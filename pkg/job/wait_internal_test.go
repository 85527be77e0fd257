package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// A helper of every node is waited for on each; a server over several nodes answers on its first.
func TestEndpoints(t *testing.T) {
	place := &run.Placement{Nodes: []run.Node{{Addr: "a"}, {Addr: "b"}, {Addr: "c"}}, Ports: map[string]int{"p": 80}}
	role := &plan.Role{Name: "store", Helper: true, Nodes: plan.Slice{Offset: 1, Count: 2}, Health: plan.Endpoint{Port: "p"}}
	urls, err := endpoints(nil, place, role)
	require.NoError(t, err)
	require.Equal(t, []string{"http://b:80", "http://c:80"}, urls)
	role.Helper = false
	urls, err = endpoints(nil, place, role)
	require.NoError(t, err)
	require.Equal(t, []string{"http://b:80"}, urls)
	role.Helper, role.Nodes.Count = true, 3
	_, err = endpoints(nil, place, role)
	require.ErrorContains(t, err, "starts at node 3 of 3")
}

// The options that a simulated engine has stand in shell text: whatever is no name of an option does
// not.
func TestSimulatedFlags(t *testing.T) {
	require.Equal(t, "0.32.0,a_b,c.d", simulatedFlags(&plan.Config{Release: "0.32.0",
		OwnOptions: []string{"a_b", "$(reboot)", "}", "c.d", "a b", "'"}}))
	require.Empty(t, simulatedFlags(&plan.Config{}))
}
