package dynamo

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// dsr1 is CloudAI's name of SGLang with one worker of each role over all of the role's nodes.
const dsr1 = "sglang_dsr1"

// headlessSince is the oldest version of whose vLLM worker it is known that others than the first
// run without serving (its package, dynamo/vllm/backend_args.py).
const headlessSince = "1.1.1"

// readSpan reads over how many nodes a worker of the role goes.
func (r *role) readSpan(backend string, c *source.Complaints) {
	if backend == dsr1 {
		r.span = max(r.nodes, 1)
	}
	n := r.Span
	if n == nil {
		return
	}
	pos := r.pos("nodes_per_worker")
	switch {
	case *n < 1 || *n > maxSize:
		c.Add(source.Errorf(pos, "%s.nodes_per_worker is %d, must be 1 to %d", r.label(), *n, maxSize).
			Hintf("leave it out for 1"))
	case backend == dsr1 && *n != r.span:
		c.Add(source.Errorf(pos, "%s.nodes_per_worker is %d, but a worker of %s has all nodes of its role", r.label(), *n,
			dsr1).Hintf("remove it, or set backend = \"sglang\""))
	default:
		r.span = *n
	}
}

// wide fills in the sizes that a worker of sglang_dsr1 has if the test names none: all GPUs of its
// nodes.
func (r *role) wide(gpus int) {
	if !r.whole {
		return
	}
	if all := gpus * r.span; all > 0 {
		r.tp, r.all = all, all
	}
}

// each is how many GPUs a worker needs on each of its nodes.
func (r *role) each() int { return (r.world() + r.span - 1) / r.span }

// checkSpan refuses workers over several nodes that cannot be.
func (w *Workload) checkSpan(r *role, nodes []int) error {
	if r.span == 1 {
		return nil
	}
	pos := r.pos("nodes_per_worker")
	switch {
	case w.backend.noGPU:
		return source.Errorf(pos, "%s.nodes_per_worker: a worker of the mocker is one process", r.label()).Hintf("remove it")
	case w.service.Backend == "vllm" && w.service.before(headlessSince):
		return source.Errorf(pos, "%s.nodes_per_worker: it is not known how vLLM of Dynamo %s runs over several nodes",
			r.label(), w.service.Version).Hintf("use %s or later", headlessSince)
	case w.service.Backend == "vllm" && r.dp > 1:
		return source.Errorf(pos, "%s: data parallelism in a worker over several nodes is not supported", r.label()).
			Hintf("remove data_parallel_size, and start more workers")
	case w.backend.module == sglang.module && r.dp > 1:
		return source.Errorf(r.sizePos(), "%s: SGLang has data parallelism over several nodes with DP attention only",
			r.label()).Hintf("set enable_dp_attention = true, with the tensor parallel size of the whole worker, " +
			"or start more workers")
	case len(nodes)%r.span != 0:
		return source.Errorf(pos, "%s has %d nodes, which workers of %d nodes do not divide", r.label(), len(nodes), r.span).
			Hintf("set num_nodes to a multiple of nodes_per_worker")
	case r.world()%r.span != 0:
		return source.Errorf(r.sizePos(), "%s: %d GPUs of a worker cannot be divided among %d nodes", r.label(),
			r.world(), r.span).Hintf("choose sizes whose product is a multiple of %d", r.span)
	case r.perNode > 1:
		return source.Errorf(r.pos("workers_per_node"), "%s: %d workers share nodes, but each has %d", r.label(),
			r.perNode, r.span).Hintf("remove workers_per_node")
	}
	if err := w.checkExecutor(r); err != nil {
		return err
	}
	for i := 0; i < len(nodes); i += r.span {
		if nodes[i+r.span-1] != nodes[i]+r.span-1 {
			return source.Errorf(r.pos("nodes"), "%s.nodes: the nodes of one worker do not follow each other", r.label()).
				Hintf("name hosts in the order of their numbers")
		}
	}
	return nil
}

// executors are those by which vLLM goes over several nodes without Ray (its ParallelConfig).
var executors = []string{"mp", "uni", "external_launcher"}

const executorOption = "distributed_executor_backend"

// checkExecutor refuses an executor with which vLLM takes no --nnodes above 1.
func (w *Workload) checkExecutor(r *role) error {
	name, pos, times := w.said(r, executorOption)
	switch {
	case w.service.Backend != "vllm" || times == 0:
		return nil
	case times > 1:
		return source.Errorf(pos, "%s says %s %d times", r.label(), executorOption, times).Hintf("keep it in args only")
	case !slices.Contains(executors, name):
		return source.Errorf(pos, "%s: %s is %q, but vLLM over several nodes needs one of %s", r.label(), executorOption,
			name, strings.Join(executors, ", ")).Hintf("remove it: profllm sets mp")
	}
	return nil
}

// executor says in the record how a worker over several nodes runs.
func (w *Workload) executor(r *role) string {
	if name, _, times := w.said(r, executorOption); w.service.Backend == "vllm" && times > 0 {
		return name + ", as the test says"
	}
	return "mp, because a worker has several nodes"
}

// overNodes is the command of a worker, which every node runs: `profllm job rank` adds what
// differs.
func (w *Workload) overNodes(s *plan.Service, one instance, argv []plan.Word) []plan.Word {
	n := one.nodes.Count
	if n == 1 {
		return argv
	}
	port := one.port(one.name+"_meet", w.bases.Meet, 1)
	s.Ports = append(s.Ports, port)
	meet := plan.Word{plan.PortNumber(port.Name)}
	count := plan.Texts("--nnodes", strconv.Itoa(n))
	rank := plan.Texts("job", "rank", "--option=--node-rank")
	if w.service.Backend == "vllm" {
		if _, _, times := w.said(one.role, executorOption); times == 0 {
			argv = append(argv, plan.Texts("--distributed-executor-backend", "mp")...)
		}
		argv = slices.Concat(argv, count,
			[]plan.Word{plan.Text("--master-addr"), {plan.Addr(one.name)}, plan.Text("--master-port"), meet})
		rank = append(rank, plan.Texts("--others=--headless", "--address=VLLM_HOST_IP",
			"--address=VLLM_NIXL_SIDE_CHANNEL_HOST")...)
	} else {
		argv = slices.Concat(argv, []plan.Word{plan.Text("--dist-init-addr"),
			plan.Concat(plan.Addr(one.name), ":", plan.PortNumber(port.Name))}, count)
		rank = append(rank, plan.Text("--address=SGLANG_HOST_IP"))
	}
	return slices.Concat([]plan.Word{plan.Self()}, rank, plan.Texts("--"), argv)
}

// wideOptions are the sizes of a worker of sglang_dsr1 that the test leaves open.
func (w *Workload) wideOptions(r *role) []plan.Word {
	if !r.whole || r.all == 0 {
		return nil
	}
	words := plan.Texts("--tp-size", strconv.Itoa(r.tp))
	if v := r.args.Get(w.backend.attention); v != nil && !isOn(v) {
		return words
	}
	words = append(words, plan.Texts("--dp-size", strconv.Itoa(r.all))...)
	attention := "--" + strings.ReplaceAll(w.backend.attention, "_", "-")
	if !isOn(r.args.Get(w.backend.attention)) && !hasOption(r.extra, attention) {
		words = append(words, plan.Text(attention))
	}
	return words
}
