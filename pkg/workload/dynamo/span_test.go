package dynamo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

// spanning is an aggregated test whose workers go over several nodes.
func spanning(backend string, nodes, span, tp int) string {
	return fmt.Sprintf("[dynamo]\nbackend = %q\n[dynamo.prefill_worker]\nnum_nodes = 0\n[dynamo.decode_worker]\nnum_nodes = %d\n"+
		"nodes_per_worker = %d\n[dynamo.decode_worker.args]\ntensor_parallel_size = %d\n", backend, nodes, span, tp)
}

// extra is a test of vLLM over two nodes with extra_args.
func extra(args string) string {
	return strings.Replace(spanning("vllm", 2, 2, 16), "[dynamo.decode_worker.args]",
		"extra_args = \""+args+"\"\n[dynamo.decode_worker.args]", 1)
}

// num_nodes are replicas, one on each node, unless a worker is said to have several. One over
// several nodes is one step with a process on each, of which the first serves.
//
// covers: U-14
func TestWorkersOverNodes(t *testing.T) {
	s, err := serve(t, sizes(0, 2), plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, "worker 0,1", workers(s), "two replicas")

	s, err = serve(t, spanning("vllm", 4, 2, 16), plan.Cluster{Nodes: 4, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, "worker 0,2", workers(s))
	one := roleOf(t, s, "worker_1")
	require.Equal(t, plan.Slice{Offset: 2, Count: 2}, one.Step.Nodes)
	require.Equal(t, "0,1,2,3,4,5,6,7", env(one, "CUDA_VISIBLE_DEVICES"))
	require.Equal(t, "profllm job rank --option=--node-rank --others=--headless --address=VLLM_HOST_IP --address=VLLM_NIXL_SIDE_CHANNEL_HOST -- "+
		"python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --tensor-parallel-size 16 --distributed-executor-backend mp --nnodes 2 "+
		"--master-addr ${addr:worker_1} --master-port ${port:worker_1_meet}", argv(one))
	require.Equal(t, map[string]int{"backend": 2}, roleOf(t, s, frontend).Health.Instances, "each registers once")
	require.NotContains(t, strings.Join(s.Notes, "\n"), "no worker runs")

	s, err = serve(t, spanning("sglang", 2, 2, 16), plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, "profllm job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m dynamo.sglang --model-path "+
		"Qwen/Qwen3-0.6B --served-model-name Qwen/Qwen3-0.6B --tensor-parallel-size 16 --dist-init-addr "+
		"${addr:worker}:${port:worker_meet} --nnodes 2", argv(roleOf(t, s, "worker")))

	s, err = serve(t, extra("--distributed-executor-backend external_launcher"), plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(argv(roleOf(t, s, "worker")), "--distributed-executor-backend"))
	require.Equal(t, "external_launcher, as the test says", roleOf(t, s, "worker").Executor)
	for _, args := range []string{spanning("sglang", 2, 2, 16) + "dp_size = 2\nenable_dp_attention = true",
		strings.Replace(spanning("sglang", 2, 2, 16), "[dynamo.decode_worker.args]",
			"extra_args = \"--enable-dp-attention\"\n[dynamo.decode_worker.args]", 1) + "dp_size = 2"} {
		_, err = serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.NoError(t, err, args)
	}

	for args, want := range map[string]string{
		spanning("vllm", 3, 2, 16):                                            "decode_worker has 3 nodes, which workers of 2 nodes do not divide",
		spanning("vllm", 2, 2, 32):                                            "worker needs 16 GPUs on each node",
		spanning("vllm", 2, 2, 15):                                            "15 GPUs of a worker cannot be divided among 2 nodes",
		spanning("vllm", 2, 0, 16):                                            "decode_worker.nodes_per_worker is 0, must be 1",
		spanning("mocker", 2, 2, 16):                                          "a worker of the mocker is one process",
		spanning("vllm", 2, 2, 16) + "nnodes = 2":                             "profllm sets this option itself",
		spanning("vllm", 2, 2, 8) + "data_parallel_size = 2":                  "data parallelism in a worker over several nodes is not supported",
		spanning("vllm", 2, 2, 16) + "distributed_executor_backend = \"ray\"": `distributed_executor_backend is "ray", but vLLM`,
		extra("--distributed-executor-backend ray"):                           "t.toml:8:1: decode_worker: distributed_executor_backend is \"ray\"",
		extra("--distributed-executor-backend=mp") +
			"distributed-executor-backend = \"mp\"": "decode_worker says distributed_executor_backend 2 times",
		spanning("sglang", 2, 2, 8) + "dp_size = 2":                                                                  "data parallelism over several nodes with DP attention only",
		strings.Replace(spanning("sglang_dsr1", 2, 2, 8), "tensor_parallel_size = 8", "dp_size = 16", 1):             "data parallelism over several nodes with DP attention only",
		strings.Replace(spanning("vllm", 2, 2, 16), "[dynamo]\n", "[dynamo]\nversion = \"1.0.0\"\n", 1):              "it is not known how vLLM of Dynamo 1.0.0 runs over several nodes",
		strings.Replace(spanning("vllm", 2, 2, 16), "nodes_per_worker", "workers_per_node = 2\nnodes_per_worker", 1): "2 workers share nodes, but each has 2",
	} {
		_, err := serve(t, args, plan.Cluster{Nodes: 3, GPUsPerNode: 8})
		require.ErrorContains(t, err, want, args)
	}
}

// CloudAI's sglang_dsr1: a worker of each role over all of its nodes, with all of their GPUs.
// Without prefill it is aggregated, and no second size is written beside its own.
func TestDSR1(t *testing.T) {
	head := "[dynamo]\nbackend = \"sglang_dsr1\"\n"
	s, err := serve(t, head+sizes(1, 2), plan.Cluster{Nodes: 3, GPUsPerNode: 8})
	require.NoError(t, err)
	decode, p := roleOf(t, s, "decode"), roleOf(t, s, "prefill")
	require.Equal(t, plan.Slice{Count: 2}, decode.Nodes)
	require.Contains(t, argv(decode), " --tp-size 16 --dp-size 16 --enable-dp-attention --dist-init-addr ${addr:decode}:${port:decode_meet} --nnodes 2")
	require.NotContains(t, argv(decode), "tensor-parallel-size")
	require.Equal(t, plan.Slice{Offset: 2, Count: 1}, p.Nodes)
	require.Contains(t, argv(p), " --tp-size 8 --dp-size 8 ")
	require.NotContains(t, argv(p), "--nnodes")
	require.Equal(t, map[string]int{"prefill": 1, "backend": 1}, roleOf(t, s, frontend).Health.Instances)

	const off = "[dynamo.decode_worker.args]\nenable_dp_attention = false\n"
	s, err = serve(t, head+sizes(0, 2)+off, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "worker")), " --tp-size 16 --dist-init-addr ", "tensor parallelism only")
	require.NotContains(t, argv(roleOf(t, s, "worker")), "dp-")

	s, err = serve(t, head+sizes(0, 2)+"[dynamo.decode_worker.args]\ntp-size = 16\n",
		plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, "worker 0", workers(s))
	require.Equal(t, 1, strings.Count(argv(roleOf(t, s, "worker")), "--tp-size 16"))
	_, err = serve(t, head+"[dynamo.decode_worker]\nnum_nodes = 2\nnodes_per_worker = 1",
		plan.Cluster{Nodes: 3, GPUsPerNode: 8})
	require.ErrorContains(t, err, "a worker of sglang_dsr1 has all nodes of its role")
}

// A port that a test writes for all workers of SGLang is another for each that shares a node.
func TestOwnPorts(t *testing.T) {
	s, err := serve(t, "[dynamo]\nbackend = \"sglang\"\n[dynamo.prefill_worker]\nworkers_per_node = 2\n[dynamo.prefill_worker.args]\n"+
		"port = 40000\ndisaggregation-bootstrap-port = 12345\n", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	bases := map[string]int{}
	for _, p := range s.Ports {
		bases[p.Name] = p.Base
	}
	require.NotEqual(t, bases["prefill_0_own"], bases["prefill_1_own"])
	require.NotEqual(t, bases["prefill_0_bootstrap"], bases["prefill_1_bootstrap"])
	require.Contains(t, argv(roleOf(t, s, "prefill_1")), "--port ${port:prefill_1_own}")
	require.NotContains(t, argv(roleOf(t, s, "decode")), "--port ")
}
