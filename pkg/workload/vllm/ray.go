package vllm

import (
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// rayOptions writes a table as options of `ray start`: --opt=value, a bare flag
// for true, nothing for false.
func rayOptions(t *source.Table) []string {
	var options []string
	for _, key := range t.Keys() {
		name := "--" + strings.ReplaceAll(key, "_", "-")
		switch x := t.Get(key).Any.(type) {
		case bool:
			if x {
				options = append(options, name)
			}
		default:
			options = append(options, name+"="+serving.Scalar(t.Get(key)))
		}
	}
	return options
}

// spansData refuses a data-parallel size whose ranks cannot be spread evenly: vLLM puts
// data_parallel_size_local ranks on each node, each of them whole.
func spansData(one serving.Instance) error {
	if one.Option("data_parallel_size_local") != nil {
		return nil
	}
	return spread(one)
}

// spread refuses ranks of which not every node can have the same number.
func spread(one serving.Instance) error {
	tp, pp, dp := one.Parallel()
	nodes := one.Nodes.Count
	if dp == 1 {
		return nil
	}
	pos := one.Option("data_parallel_size").Pos
	if dp%nodes != 0 {
		return source.Errorf(pos, "%s.data_parallel_size %d cannot be spread evenly over %d nodes", one.Kind, dp,
			nodes).
			Hintf("set a multiple of %d, or set data_parallel_size_local, the number of ranks on each node", nodes)
	}
	if need := dp / nodes * tp * pp; need > len(one.GPUs) {
		return source.Errorf(pos,
			"%s.data_parallel_size %d puts %s of %s each (TP %d x PP %d) on every node, but a node has %s",
			one.Kind, dp,
			quantity.Count(dp/nodes, "rank"), quantity.Count(tp*pp, "GPU"), tp, pp,
			quantity.Count(len(one.GPUs), "GPU")).
			Hintf("make each rank small enough for one node, or on Ray a multiple of a node, or set data_parallel_size_local and VLLM_RAY_DP_PACK_STRATEGY yourself")
	}
	return nil
}

// packStrategy tells vLLM how Ray places data-parallel ranks.
const packStrategy = "VLLM_RAY_DP_PACK_STRATEGY"

// spansNodes reports whether each data-parallel rank on Ray needs several whole nodes. vLLM then
// demands all GPUs of them (v1/engine/utils.py, 0.32).
func spansNodes(one serving.Instance) bool {
	tp, pp, dp := one.Parallel()
	return dp > 1 && tp*pp > len(one.GPUs) && tp*pp%len(one.GPUs) == 0 && one.Option("data_parallel_size_local") == nil
}

// rayOverNodes are the options with which a server uses the nodes of its Ray cluster.
// vLLM's own default would place data-parallel ranks on the first node only.
func rayOverNodes(one serving.Instance) []plan.Word {
	var argv []plan.Word
	if one.Option("distributed_executor_backend") == nil {
		argv = plan.Texts("--distributed-executor-backend", "ray")
	}
	_, _, dp := one.Parallel()
	if dp == 1 {
		return argv
	}
	if one.Option("data_parallel_backend") == nil {
		argv = append(argv, plan.Texts("--data-parallel-backend", "ray")...)
	}
	if one.Option("data_parallel_size_local") == nil && !spansNodes(one) {
		argv = append(argv, plan.Texts("--data-parallel-size-local", strconv.Itoa(dp/one.Nodes.Count))...)
	}
	return argv
}
