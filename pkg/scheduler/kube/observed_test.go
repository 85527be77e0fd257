package kube

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// What Dynamo's operator wrote on a real API server, read in place where it lies beside the checkout.
func TestObserved(t *testing.T) {
	dir := "../../../../shared/data/dynamo-crds/observed"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no objects of a real operator beside the checkout")
	}
	graph := func(name string) *object {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		o, err := parseObject(data)
		require.NoError(t, err)
		if o.Kind == "" { // its status alone
			o.Kind, o.Metadata.Generation = kindGraph, 1
		}
		return &o
	}
	for name, want := range map[string]bool{"dgd-ready.json": true, "dgd-v1alpha1-ready.json": true, "dgd-pending.json": false,
		"dgd-imagepull.json": false, "dgd-failed.json": false} {
		ok, why := graphReady(graph(name))
		require.Equal(t, want, ok, name)
		require.Equal(t, want, why == "", name)
	}
	failed := graphTrouble(graph("dgd-failed.json"), time.Now())
	require.Contains(t, failed.why, `cluster role "planner-role" does not exist`)
	require.True(t, failed.never)
	require.Empty(t, graphTrouble(graph("dgd-pending.json"), time.Now()).why, "the cause is in its pods")

	data, err := os.ReadFile(filepath.Join(dir, "children-ready.json"))
	require.NoError(t, err)
	children, err := parseList(data)
	require.NoError(t, err)
	p := &plan.Plan{Roles: []plan.Role{{Name: "frontend"}, {Name: "prefill"}, {Name: "decode"}}}
	var roles []string
	for _, pod := range ofKind(children, kindPod) {
		roles = append(roles, roleOf(pod, p))
	}
	require.ElementsMatch(t, []string{"frontend", "prefill", "decode"}, roles)
}
