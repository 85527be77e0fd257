package dynamo

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// named is a test whose roles name hosts.
func named(prefill, decode string) string {
	return "[dynamo.prefill_worker]\nnodes = \"" + prefill + "\"\n[dynamo.decode_worker]\nnodes = \"" + decode + "\"\n"
}

// prepare is such a test as it is planned, with keys of the test itself.
func prepare(t *testing.T, args string, change func(*scenario.Test)) (scenario.Test, error) {
	t.Helper()
	s := test(t, args)
	if change != nil {
		change(&s)
	}
	return Prepared(s)
}

func nodesOfTest(s *scenario.Test, list ...string) {
	var items []*source.Value
	for _, x := range list {
		items = append(items, &source.Value{Any: x})
	}
	s.NodeLists = list
	s.Table.Set("nodes", &source.Value{Any: items})
}

// Roles can name their hosts. The job asks for them all, and each worker stands on the host that
// its role names, in whatever order the hosts are named.
//
// covers: P-7, U-12
func TestHostsOfRoles(t *testing.T) {
	for _, c := range []struct {
		args  string
		test  []string // nodes of the test
		hosts string
		want  string
	}{
		{named("n[3-4]", "n1"), nil, "n1 n3 n4", "decode 0 prefill 1,2"},
		{named("n1", "n10,n9"), nil, "n1 n9 n10", "decode 2,1 prefill 0"},
		{named("n1,n2", "n1,n2"), nil, "n1 n2", "decode 0,1 prefill 0,1"},
		{named("n2", "n1,n2"), nil, "n1 n2", "decode 0,1 prefill 1"},
		{"[dynamo.prefill_worker]\nnodes = \"n7\"", []string{"n[5-6]"}, "n5 n6 n7", "decode 0 prefill 2"},
		{"[dynamo.decode_worker]\nnodes = \"n5\"", []string{"n6"}, "n5 n6", "decode 0 prefill 1"},
		{"[dynamo.prefill_worker]\nnodes = \"n5\"", []string{"n6"}, "n5 n6", "decode 1 prefill 0"},
		{"[dynamo.prefill_worker]\nnodes = \"n5\"", nil, "n5", "decode 0 prefill 0"},
		{"[dynamo.prefill_worker]\nnum_nodes = 0\n[dynamo.decode_worker]\nnodes = \"n5,n6\"", nil, "n5 n6", "worker 0,1"},
	} {
		prepared, err := prepare(t, c.args, func(s *scenario.Test) {
			if c.test != nil {
				nodesOfTest(s, c.test...)
			}
		})
		require.NoError(t, err, c.args)
		require.Equal(t, c.hosts, strings.Join(prepared.NodeLists, " "), c.args)
		require.Nil(t, prepared.NumNodes)
		w, err := New(prepared, false)
		require.NoError(t, err)
		s, err := w.Serve(plan.Cluster{Nodes: len(prepared.NodeLists), GPUsPerNode: 4, Dir: "/run"})
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, workers(s), c.args)
		require.Equal(t, "hosts", s.Setup[0].Name, "Slurm's order is compared with the plan's")
	}
	for args, want := range map[string]string{
		"[dynamo.decode_worker]\nnum_nodes = 2\nnodes = \"n1\"": "decode_worker.num_nodes is 2, but its nodes (t.toml:3:1) are 1",
		named("n1", "n2,n2"): "decode_worker.nodes names n2 twice",
		named("n1", "n[2"):   "decode_worker.nodes:",
	} {
		_, err := prepare(t, args, nil)
		require.ErrorContains(t, err, want, args)
	}
	_, err := prepare(t, named("n1", "n2"), func(s *scenario.Test) { s.ClientNodes = 1 })
	require.ErrorContains(t, err, "client_nodes takes the last nodes")
	_, err = prepare(t, named("n1", "n2"), func(s *scenario.Test) { nodesOfTest(s, "batch:rack1:2") })
	require.ErrorContains(t, err, "names no host")
	_, err = prepare(t, named("n1", "n2"), func(s *scenario.Test) { s.NumNodes = &source.Value{Any: int64(4)} })
	require.ErrorContains(t, err, "num_nodes is 4, but the workers name 2 hosts")

	prepared, err := prepare(t, named("n1,n2", "n1,n2"), func(s *scenario.Test) { nodesOfTest(s, "n3") })
	require.NoError(t, err)
	w, err := New(prepared, false)
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 3, GPUsPerNode: 4})
	require.ErrorContains(t, err, "prefill and decode share hosts, and the job has 1 more")
}

// The step that compares the order of hosts ends the job where it is another.
func TestOrderOfHosts(t *testing.T) {
	for node, want := range map[string]bool{"n1": false, "n9": true, "n10": false} {
		cmd := exec.Command("bash", "-c", orderScript, "hosts", "n1", "n9", "n10")
		cmd.Env = []string{"SLURM_PROCID=1", "SLURMD_NODENAME=" + node}
		out, err := cmd.CombinedOutput()
		require.Equal(t, want, err == nil, "%s: %s", node, out)
		if !want {
			require.Equal(t, "node 1 of the job is "+node+", but the plan puts workers as if it were n9\n", string(out))
		}
	}
}

// A test without the variable in which CloudAI's files expand Slurm's list of nodes is planned like
// one with it.
//
// covers: P-6, U-11
func TestNodeListIsNotNeeded(t *testing.T) {
	with := test(t, sizes(2, 2))
	with.Env = source.NewTable(source.Pos{})
	with.Env.Set("DYNAMO_NODELIST", &source.Value{Any: "$(scontrol show hostname $SLURM_JOB_NODELIST)"})
	w, err := New(with, false)
	require.NoError(t, err)
	a, err := w.Serve(plan.Cluster{Nodes: 4, GPUsPerNode: 2, Dir: "/run", RunID: "exp_1"})
	require.NoError(t, err)
	b, err := serve(t, sizes(2, 2), plan.Cluster{Nodes: 4, GPUsPerNode: 2})
	require.NoError(t, err)
	require.Equal(t, "decode 0,1 prefill 2,3", workers(b))
	require.Equal(t, a.Roles, b.Roles)
}

// The frontend stands with the first worker of decode, or on a node that the test names, and
// LMCache's controller, whose workers look for it there, with it.
func TestFrontendNode(t *testing.T) {
	s, err := serve(t, "[dynamo]\nfrontend_node = 2\n"+strings.TrimPrefix(lmcache, "[dynamo]\n"),
		plan.Cluster{Nodes: 3, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "decode 0 prefill 1", workers(s))
	require.Equal(t, plan.Slice{Offset: 2, Count: 1}, roleOf(t, s, frontend).Step.Nodes)
	require.Equal(t, plan.Slice{Offset: 2, Count: 1}, roleOf(t, s, "lmcache_controller").Nodes)
	require.NotContains(t, strings.Join(s.Notes, "\n"), "no worker runs", "a node of its own")
	_, err = serve(t, "[dynamo]\nfrontend_node = 2", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "frontend_node is 2, but the job has 2 nodes")
}
