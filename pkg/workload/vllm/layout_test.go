package vllm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// The role's keys choose how a server uses two nodes of four GPUs, and the plan says why.
//
// covers: SRV-1, SRV-2, PAR-4, PAR-5
func TestLayouts(t *testing.T) {
	for _, c := range []struct{ args, executor, tail, err string }{
		{"tensor_parallel_size=8", "ray, because the role has 2 nodes and sets neither distributed_executor_backend nor data_parallel_backend", "--distributed-executor-backend ray", ""},
		{"data_parallel_size=2", "ray, because the role has 2 nodes and sets neither", "--data-parallel-size-local 1", ""},
		{"tensor_parallel_size=8\ndata_parallel_backend='mp'", "ray, because the role has 2 nodes", "--distributed-executor-backend ray", ""},
		{"distributed_executor_backend='ray'\ndata_parallel_size=2", `ray, because the role sets distributed_executor_backend = "ray"`, "--data-parallel-backend ray --data-parallel-size-local 1", ""},
		{"data_parallel_backend='ray'\ndata_parallel_size=2", `ray, because the role sets data_parallel_backend = "ray"`, "--distributed-executor-backend ray --data-parallel-size-local 1", ""},

		{"data_parallel_size=4\ndata_parallel_backend='mp'", `headless, because the role sets data_parallel_backend = "mp"`,
			"--distributed-executor-backend mp --data-parallel-address ${addr:serve} --data-parallel-rpc-port ${port:serve_rpc} --data-parallel-size-local 2", ""},
		{"data_parallel_size=2\ndistributed_executor_backend='uni'", `headless, because the role sets distributed_executor_backend = "uni"`,
			"--data-parallel-address ${addr:serve} --data-parallel-rpc-port ${port:serve_rpc} --data-parallel-size-local 1", ""},
		{"data_parallel_size=2\ntensor_parallel_size=2\ndistributed_executor_backend='mp'\ndata_parallel_size_local=1", "headless, because", "--data-parallel-rpc-port ${port:serve_rpc}", ""},
		{"data_parallel_size=3\ndata_parallel_backend='mp'", "", "", "t.toml:2:1: decode.data_parallel_size 3 cannot be spread evenly over 2 nodes"},
		{"data_parallel_size=4\ndata_parallel_backend='mp'\ndata_parallel_size_local=1", "", "", "t.toml:4:1: decode.data_parallel_size_local 1 on 2 nodes are 2 ranks, but data_parallel_size is 4"},
		{"data_parallel_size=6\ntensor_parallel_size=2\ndata_parallel_backend='mp'", "", "", "3 ranks of 2 GPUs each (TP 2 x PP 1) on every node, but a node has 4 GPUs"},
		{"data_parallel_size=2\ndata_parallel_backend='mp'\ndata_parallel_start_rank=1", "", "", "t.toml:4:1: decode.data_parallel_start_rank: profllm sets what differs between the nodes of a role itself (executor headless)"},
		{"data_parallel_size=2\ndata_parallel_backend='mp'\ndata_parallel_multi_port_external_lb=true", "", "", "t.toml:4:1: decode.data_parallel_multi_port_external_lb gives each of the 2 nodes API servers of its own, whose ports vLLM chooses, and the client asks one"},

		{"tensor_parallel_size=8\ndistributed_executor_backend='mp'", `mp, because the role sets distributed_executor_backend = "mp"`,
			"--nnodes 2 --master-addr ${addr:serve} --master-port ${port:serve_master}", ""},
		{"tensor_parallel_size=4\npipeline_parallel_size=2\nnnodes=2", "mp, because the role sets nnodes",
			"--distributed-executor-backend mp --master-addr ${addr:serve} --master-port ${port:serve_master}", ""},
		{"tensor_parallel_size=4\ndata_parallel_size=2\nnnodes=2", "mp, because the role sets nnodes",
			"--data-parallel-address ${addr:serve} --data-parallel-rpc-port ${port:serve_rpc} --master-addr ${addr:serve} --master-port ${port:serve_master}", ""},
		{"tensor_parallel_size=3\ndistributed_executor_backend='mp'", "", "", "t.toml:3:1: decode needs 3 GPUs (TP 3 x PP 1 x DP 1), which cannot be divided among 2 nodes\n\thint: choose sizes whose product is a multiple of 2; 8 use every GPU; tensor_parallel_size can be 2, 4, 8"},
		{"tensor_parallel_size=6\nnnodes=3", "", "", "t.toml:3:1: decode.nnodes is 3, but the role has 2 nodes"},
		{"tensor_parallel_size=8\nnnodes=2\nnode_rank=1", "", "", "decode.node_rank: profllm sets what differs"},
		{"tensor_parallel_size=8\nnnodes=2\ndistributed_executor_backend='ray'", "", "", "nnodes above 1 does not go with distributed_executor_backend"},
	} {
		t.Run(c.args, func(t *testing.T) {
			s, err := serve(t, "[decode]\n"+c.args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			r := roleOf(s, "serve")
			require.Contains(t, r.Executor, c.executor)
			require.True(t, strings.HasSuffix(argv(r), c.tail), argv(r))
			require.Equal(t, strings.HasPrefix(r.Executor, "ray"), r.Ray)
		})
	}
	_, err := serve(t, "[decode]\nnnodes=2\ntensor_parallel_size=2", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.ErrorContains(t, err, "decode.nnodes is 2, but the role has 1 node", "no second node would join")
	s, err := serve(t, "[decode]\ntensor_parallel_size=4", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Empty(t, roleOf(s, "serve").Executor)
}

// vLLM has --nnodes since 0.11.1.
func TestLayoutOfARelease(t *testing.T) {
	const args = "engine_version='0.10.2'\n[decode]\ntensor_parallel_size=8\ndistributed_executor_backend='mp'"
	_, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.ErrorContains(t, err, "t.toml:4:1: decode over 2 nodes without Ray needs --nnodes, and vLLM 0.10.2 says: "+
		"unrecognized arguments: --nnodes 2\n\thint: vLLM has it since 0.11.1, or remove the key for a server on Ray")
	_, err = serve(t, strings.Replace(args, "0.10.2", "0.11.1", 1), plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.NoError(t, err)
}

// What each node runs is accepted by the parser of every release that the layout is for.
//
// covers: SRV-3, SRV-4
func TestCommandsOfNodes(t *testing.T) {
	for _, c := range []struct {
		args, lead, since string
		rank              []string // what `profllm job rank` adds on the second node
	}{
		{"data_parallel_size=4\ndata_parallel_backend='mp'\napi_server_count=2",
			"profllm job rank --others=--headless --others=--api-server-count=0 --option=--data-parallel-start-rank --each=2 --only-others --address=VLLM_HOST_IP --", "0.11.0",
			[]string{"--headless", "--api-server-count=0", "--data-parallel-start-rank", "2"}},
		{"tensor_parallel_size=8\ndistributed_executor_backend='mp'",
			"profllm job rank --others=--headless --option=--node-rank --address=VLLM_HOST_IP --", "0.11.1",
			[]string{"--headless", "--node-rank", "1"}},
	} {
		s, err := serve(t, "[decode]\n"+c.args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err)
		lead, command, found := strings.Cut(argv(roleOf(s, "serve")), " vllm serve ")
		require.True(t, found)
		require.Equal(t, c.lead, lead)
		words := strings.Fields(strings.NewReplacer("${addr:serve}", "10.0.0.1").Replace(command))
		for i, word := range words {
			if strings.HasPrefix(word, "${port:") {
				words[i] = "29550"
			}
		}
		for _, at := range []string{c.since, arguments.Serve.Newest().Version} {
			release, err := arguments.Serve.One(at)
			require.NoError(t, err)
			for _, node := range [][]string{nil, c.rank} {
				_, err := release.Check(append(slices.Clone(words), node...))
				require.NoError(t, err, "vLLM %s", at)
			}
		}
	}
}

// Prefill and decode may each span nodes; every engine hands out its KV blocks at its own address.
func TestLayoutsOfPrefillAndDecode(t *testing.T) {
	s, err := serve(t, "[prefill]\nnum_nodes=2\ndata_parallel_size=2\ndata_parallel_backend='mp'\n"+
		"[decode]\nnum_nodes=2\ntensor_parallel_size=8\ndistributed_executor_backend='mp'", plan.Cluster{Nodes: 4, GPUsPerNode: 4})
	require.NoError(t, err)
	for _, name := range []string{"prefill", "decode"} {
		require.Contains(t, argv(roleOf(s, name)), "--address=VLLM_HOST_IP --address=VLLM_NIXL_SIDE_CHANNEL_HOST -- vllm serve")
	}
	p := plan.Plan{Roles: s.Roles, Ports: s.Ports}
	for slot := range plan.Slots {
		require.NoError(t, p.UsableSlot(slot))
	}
}
