package vllm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Every node, or every rank, has an API server of its own, and the clients ask the proxy before
// them. All servers meet at the first.
//
// covers: SRV-20
func TestBalancedServers(t *testing.T) {
	const meet = "--distributed-executor-backend mp --data-parallel-address ${addr:serve_0} --data-parallel-rpc-port ${port:serve_0_rpc} "
	for _, c := range []struct {
		args    string
		cluster plan.Cluster
		since   string // the first release that has it
		servers []string
		gpus    [][]int
		nodes   []int
		dp      int
	}{
		{"tensor_parallel_size=2\ndata_parallel_size=4\ndata_parallel_hybrid_lb=true\napi_server_count=2", plan.Cluster{Nodes: 2, GPUsPerNode: 4}, "0.10.0",
			[]string{
				"--data-parallel-size 4 --data-parallel-hybrid-lb --api-server-count 2 " + meet + "--data-parallel-size-local 2 --data-parallel-start-rank 0",
				"--data-parallel-size 4 --data-parallel-hybrid-lb --api-server-count 2 " + meet + "--data-parallel-size-local 2 --data-parallel-start-rank 2",
			}, [][]int{{0, 1, 2, 3}, {0, 1, 2, 3}}, []int{0, 1}, 2},
		{"tensor_parallel_size=2\ndata_parallel_size=4\ndata_parallel_external_lb=true", plan.Cluster{Nodes: 2, GPUsPerNode: 4}, "0.11.1",
			[]string{
				"--data-parallel-external-lb " + meet + "--data-parallel-rank 0", "--data-parallel-external-lb " + meet + "--data-parallel-rank 1",
				"--data-parallel-external-lb " + meet + "--data-parallel-rank 2", "--data-parallel-external-lb " + meet + "--data-parallel-rank 3",
			}, [][]int{{0, 1}, {2, 3}, {0, 1}, {2, 3}}, []int{0, 0, 1, 1}, 1},
		{"data_parallel_size=2\ndata_parallel_external_lb=true", plan.Cluster{Nodes: 1, GPUsPerNode: 4}, "0.11.1",
			[]string{meet + "--data-parallel-rank 0", meet + "--data-parallel-rank 1"}, [][]int{{0, 1}, {2, 3}}, []int{0, 0}, 1},
		{"data_parallel_size=2\ndata_parallel_hybrid_lb=true\ndata_parallel_size_local=1", plan.Cluster{Nodes: 2, GPUsPerNode: 1}, "0.10.0",
			[]string{"--data-parallel-size-local 1 " + meet + "--data-parallel-start-rank 0", "--data-parallel-size-local 1 " + meet + "--data-parallel-start-rank 1"},
			[][]int{{0}, {0}}, []int{0, 1}, 1},
	} {
		s, err := serve(t, "[decode]\n"+c.args, c.cluster)
		require.NoError(t, err, c.args)
		require.Len(t, s.Roles, len(c.servers)+1)
		var urls []string
		for i, want := range c.servers {
			r := &s.Roles[i]
			require.Equal(t, fmt.Sprintf("serve_%d", i), r.Name)
			require.Equal(t, "serve", r.KindName())
			require.True(t, r.Group)
			require.Equal(t, []int{i, c.dp}, []int{r.Replica, r.DP})
			require.Equal(t, plan.Slice{Offset: c.nodes[i], Count: 1}, r.Nodes)
			require.Equal(t, c.gpus[i], r.GPUs)
			require.Contains(t, argv(*r), want+" --port ${port:"+r.Name+"}")
			require.Equal(t, plan.Endpoint{Port: r.Name, Path: "/health"}, r.Health, "the job waits for each")
			requireParsed(t, r, c.since)
			urls = append(urls, "--server http://${addr:"+r.Name+"}:${port:"+r.Name+"}")
		}
		proxy := &s.Roles[len(c.servers)]
		require.Equal(t, "profllm proxy --host 0.0.0.0 --port ${port:proxy} "+strings.Join(urls, " "), argv(*proxy))
		require.Equal(t, "proxy", s.EndpointRole)
		require.Contains(t, strings.Join(s.Notes, "\n"), "requests go through profllm's proxy to the")
		p := plan.Plan{Roles: s.Roles, Ports: s.Ports}
		for slot := range plan.Slots {
			require.NoError(t, p.UsableSlot(slot))
		}
	}
}

// requireParsed shows that the command of a role is accepted by the release that first has its
// options, and by the newest.
func requireParsed(t *testing.T, r *plan.Role, since string) {
	t.Helper()
	_, command, found := strings.Cut(argv(*r), "vllm serve ")
	require.True(t, found)
	words := strings.Fields(command)
	for i, word := range words {
		if strings.HasPrefix(word, "${port:") {
			words[i] = "29550"
		}
	}
	for _, at := range []string{since, arguments.Serve.Newest().Version} {
		release, err := arguments.Serve.One(at)
		require.NoError(t, err)
		_, err = release.Check(words)
		require.NoError(t, err, "vLLM %s", at)
	}
}

func TestBalancedRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"[decode]\ndata_parallel_size=4\ndata_parallel_hybrid_lb=true\ndata_parallel_size_local=1",
			"t.toml:4:1: decode.data_parallel_size_local 1 on 2 nodes are 2 ranks, but data_parallel_size is 4"},
		{"[decode]\ndata_parallel_hybrid_lb=true", "t.toml:2:1: decode.data_parallel_hybrid_lb needs a data_parallel_size above 1"},
		{"[decode]\ndata_parallel_size=3\ndata_parallel_external_lb=true", "t.toml:2:1: decode.data_parallel_size 3 cannot be spread evenly over 2 nodes"},
		{"[decode]\ndata_parallel_size=2\ndata_parallel_external_lb=true\ndata_parallel_rank=0", "decode.data_parallel_rank: profllm sets what differs between the nodes of a role itself (executor external)"},
		{"[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true\nnnodes=2", "decode.nnodes: profllm sets"},
		{"[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true\ndata_parallel_backend='ray'", "decode.data_parallel_backend is \"ray\", but servers with hybrid load balancing start without Ray"},
		{"[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true\ndata_parallel_external_lb=true", "exclude each other"},
		{"proxy_script='p.py'\n[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true", "has profllm's own proxy before its servers, not proxy_script"},
		{"[prefill]\n[decode]\ndata_parallel_size=2\ndata_parallel_external_lb=true", "decode.data_parallel_external_lb goes with a test without [cmd_args.prefill] only"},
		{"engine_version='0.9.2'\n[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true", "vLLM has it since 0.10.0"},
		{"engine_version='0.11.0'\n[decode]\ndata_parallel_size=2\ndata_parallel_external_lb=true", "vLLM has it since 0.11.1"},
	} {
		_, err := serve(t, c.args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.ErrorContains(t, err, c.want)
	}
	// data_parallel_size_local of external load balancing is 1, and says nothing of the nodes.
	for args, nodes := range map[string]int{"data_parallel_size=2": 4, "data_parallel_size=3": 2, "data_parallel_size=16": 2} {
		_, err := serve(t, "[decode]\n"+args+"\ndata_parallel_external_lb=true\ndata_parallel_size_local=1", plan.Cluster{Nodes: nodes, GPUsPerNode: 4})
		require.ErrorContains(t, err, "t.toml:2:1: decode.data_parallel_size ", args)
	}
	_, err := serve(t, "[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.ErrorContains(t, err, "has one API server on each node, but the role has 1 node")
	s, err := serve(t, "[decode]\ndata_parallel_size=2\ndata_parallel_hybrid_lb=true\ndata_parallel_size_local=2", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Len(t, s.Roles, 1, "one server has all ranks")
}
