package vllm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// The layouts of a server over several nodes.
const (
	onRay    = "ray"      // one server on a Ray cluster
	byNodes  = "mp"       // --nnodes: the workers of one engine on all nodes
	headless = "headless" // data-parallel engines on all nodes, one API server on the first
)

// A layout is how a server uses its nodes.
type layout struct {
	name string
	why  string
}

const (
	executorKey  = "distributed_executor_backend"
	dataKey      = "data_parallel_backend"
	dataLocalKey = "data_parallel_size_local"
	nodesKey     = "nnodes"
)

// layoutOf chooses a layout for a server over several nodes. The role's own keys decide; without
// them it is Ray, as in CloudAI.
func layoutOf(one serving.Instance) (layout, error) {
	executor, data := textOf(one, executorKey), textOf(one, dataKey)
	tp, pp, dp := one.Parallel()
	sets := func(key, value string) string { return fmt.Sprintf("the role sets %s = %q", key, value) }
	switch {
	case one.Option(nodesKey) != nil:
		return layout{byNodes, "the role sets nnodes"}, nil
	case executor == onRay:
		return layout{onRay, sets(executorKey, executor)}, nil
	case data == onRay && executor == "":
		return layout{onRay, sets(dataKey, data)}, nil
	case executor == "" && dp == 1 && data == "mp":
		return layout{onRay, fmt.Sprintf("the role has %d nodes, and %s = %q has no effect with data_parallel_size 1",
			one.Nodes.Count, dataKey, data)}, nil
	case executor == "" && data == "":
		return layout{onRay, fmt.Sprintf("the role has %d nodes and sets neither %s nor %s", one.Nodes.Count,
			executorKey, dataKey)}, nil
	case data == onRay || executor != "" && executor != "mp" && (executor != "uni" || dp == 1 || tp*pp > 1):
		return layout{}, oneNodeOnly(one)
	case dp == 1:
		return layout{byNodes, sets(executorKey, executor)}, nil
	case tp*pp > len(one.GPUs):
		return layout{byNodes, fmt.Sprintf("%s, and one rank needs more GPUs than a node has", backend(executor, data))}, nil
	}
	return layout{headless, backend(executor, data)}, nil
}

// backend says which of the two keys names a backend.
func backend(executor, data string) string {
	if data != "" {
		return fmt.Sprintf("the role sets %s = %q", dataKey, data)
	}
	return fmt.Sprintf("the role sets %s = %q", executorKey, executor)
}

func textOf(one serving.Instance, key string) string {
	v := one.Option(key)
	if v == nil {
		return ""
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return fmt.Sprint(v.Plain())
}

// oneNodeOnly refuses a backend with which a role over several nodes would use the first only.
func oneNodeOnly(one serving.Instance) error {
	key := executorKey
	if v := one.Option(executorKey); v == nil || textOf(one, executorKey) == "mp" {
		key = dataKey
	}
	v := one.Option(key)
	return source.Errorf(v.Pos, "%s.%s is %q, with which vLLM uses one node only, but the role has %d nodes",
		one.Kind, key, v.Plain(), one.Nodes.Count).
		Hintf("remove the key for a server on Ray, or set %s = \"mp\" for one without Ray", executorKey)
}

// checkLayouts refuses options with which a server over several nodes would use the first node
// only, or would not start.
func (w *Workload) checkLayouts(list []serving.Instance) error {
	var c source.Complaints
	for _, one := range list {
		if one.Replica > 0 {
			continue
		}
		c.Add(severalServers(one))
		if balanced(one) != "" {
			w.checkBalanced(one, &c)
			continue
		}
		if v := one.Option(nodesKey); v != nil {
			if n, ok := v.Int(); !ok || int(n) != one.Nodes.Count {
				c.Add(source.Errorf(v.Pos, "%s.%s is %v, but the role has %s", one.Kind, nodesKey, v.Plain(),
					quantity.Count(one.Nodes.Count, "node")).Hintf("remove it: set num_nodes instead"))
				continue
			}
		}
		if one.Nodes.Count == 1 {
			continue
		}
		l, err := layoutOf(one)
		c.Add(err)
		switch l.name {
		case onRay:
			if !spansNodes(one) {
				c.Add(spansData(one))
			}
		case headless:
			w.checkHeadless(one, &c)
		case byNodes:
			w.checkByNodes(one, &c)
		}
	}
	return c.Err()
}

// severalServers refuses a server that is itself several, on several nodes: the client asks one.
func severalServers(one serving.Instance) error {
	const key = "data_parallel_multi_port_external_lb"
	if !one.Flag(key) || one.Nodes.Count == 1 {
		return nil
	}
	return source.Errorf(one.Option(key).Pos, "%s.%s gives each of the %d nodes API servers of its own, whose ports "+
		"vLLM chooses, and the client asks one: the engines of the others would not be measured", one.Kind, key,
		one.Nodes.Count).
		Hintf("set %s = true instead: profllm starts one server for each rank, and balances over them", externalKey)
}

// checkPlanned refuses options that the layout sets on each node, and a release that lacks one.
func (w *Workload) checkPlanned(one serving.Instance, name string, c *source.Complaints, keys ...string) {
	for _, key := range append(keys, "headless", "data_parallel_rank", "data_parallel_address",
		"data_parallel_rpc_port", "data_parallel_start_rank") {
		if v := one.Option(key); v != nil {
			c.Add(source.Errorf(v.Pos, "%s.%s: profllm sets what differs between the nodes of a role itself (executor %s)",
				one.Kind, key, name).Hintf("remove it"))
		}
	}
}

// needs refuses a release without an option that the layout is made of.
func (w *Workload) needs(one serving.Instance, option string, values ...string) error {
	_, refusal := w.server.Check(w.release(), option, values...)
	if refusal == nil {
		return nil
	}
	at := one.Option(nodesKey, executorKey, dataKey)
	return source.Errorf(at.Pos, "%s over %s without Ray needs %s, and vLLM %s says: %s", one.Kind,
		quantity.Count(one.Nodes.Count, "node"), option, refusal.Release, refusal.Words).
		Hintf("%s, or remove the key for a server on Ray", refusal.Hint)
}

// checkHeadless refuses data-parallel ranks that do not fit the nodes: each node runs the same
// number of them, each rank whole.
func (w *Workload) checkHeadless(one serving.Instance, c *source.Complaints) {
	w.checkPlanned(one, headless, c, "node_rank", "master_addr", "master_port")
	c.Add(w.needs(one, "--headless"))
	_, _, dp := one.Parallel()
	nodes := one.Nodes.Count
	v := one.Option(dataLocalKey)
	if v == nil {
		c.Add(spansData(one))
		return
	}
	if n, ok := v.Int(); ok && int(n)*nodes != dp {
		c.Add(localRanks(one, v, int(n)))
	}
}

// localRanks refuses a number of ranks on each node that do not add up.
func localRanks(one serving.Instance, v *source.Value, n int) error {
	_, _, dp := one.Parallel()
	nodes := one.Nodes.Count
	return source.Errorf(v.Pos, "%s.%s %d on %d nodes are %d ranks, but data_parallel_size is %d", one.Kind,
		dataLocalKey, n, nodes, n*nodes, dp).
		Hintf("remove it: every node runs data_parallel_size / %d ranks", nodes)
}

// checkByNodes refuses sizes that cannot be divided among the nodes: vLLM starts as many workers on
// each (engine/arg_utils.py, 0.32).
func (w *Workload) checkByNodes(one serving.Instance, c *source.Complaints) {
	w.checkPlanned(one, byNodes, c, "node_rank", "master_addr", "master_port")
	c.Add(w.needs(one, "--nnodes", strconv.Itoa(one.Nodes.Count)))
	tp, pp, dp := one.Parallel()
	nodes, world := one.Nodes.Count, tp*pp*dp
	at := one.Option(nodesKey, executorKey, dataKey).Pos
	switch {
	case world%nodes != 0:
		c.Add(source.Errorf(at, "%s needs %s (TP %d x PP %d x DP %d), which cannot be divided among %d nodes", one.Kind,
			quantity.Count(world, "GPU"), tp, pp, dp, nodes).
			Hintf("choose sizes whose product is a multiple of %d; %d use every GPU%s", nodes, nodes*len(one.GPUs),
				fitting(nodes, nodes*len(one.GPUs)/(pp*dp), pp*dp)))
	case dp > 1 && dp%nodes != 0 && nodes%dp != 0:
		c.Add(source.Errorf(at, "%s.data_parallel_size %d cannot be spread evenly over %d nodes", one.Kind, dp, nodes).
			Hintf("set a multiple or a divisor of %d", nodes))
	}
}

// fitting lists the tensor-parallel sizes with which an engine can be divided among nodes beside its
// other sizes, up to most; "" for none.
func fitting(nodes, most, others int) string {
	var list []string
	for tp := 1; tp <= most; tp++ {
		if tp*others%nodes == 0 && most%tp == 0 {
			list = append(list, strconv.Itoa(tp))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "; tensor_parallel_size can be " + strings.Join(list, ", ")
}

// Bases of ports. The slots of a job move them; they lie apart, so that jobs of different layouts
// on one node do not meet.
const (
	rpcPort    = 29550 // vLLM's default of --data-parallel-rpc-port
	masterPort = 29300 // vLLM's default of --master-port, 29501, is too near to the other
)

// overNodes is the command of a server over several nodes without Ray: every node runs it, and
// `profllm job rank` adds what differs.
func (w *Workload) overNodes(s *plan.Service, one serving.Instance, l layout, argv []plan.Word,
	env []plan.Var) []plan.Word {
	rank := plan.Texts("job", "rank", "--others=--headless")
	if one.Option("api_server_count") != nil {
		rank = append(rank, plan.Text("--others=--api-server-count=0")) // vLLM refuses more without an API server
	}
	if one.Option(executorKey) == nil {
		argv = append(argv, plan.Texts("--"+strings.ReplaceAll(executorKey, "_", "-"), "mp")...)
	}
	_, _, dp := one.Parallel()
	if dp > 1 {
		argv = append(argv, plan.Text("--data-parallel-address"), plan.Word{plan.Addr(one.Name)},
			plan.Text("--data-parallel-rpc-port"), portFor(s, one, "rpc", rpcPort))
	}
	switch l.name {
	case headless:
		local := dp / one.Nodes.Count
		rank = append(rank, plan.Texts("--option=--data-parallel-start-rank", "--each="+strconv.Itoa(local),
			"--only-others")...)
		if one.Option(dataLocalKey) == nil {
			argv = append(argv, plan.Texts("--data-parallel-size-local", strconv.Itoa(local))...)
		}
	case byNodes:
		rank = append(rank, plan.Text("--option=--node-rank"))
		if one.Option(nodesKey) == nil {
			argv = append(argv, plan.Texts("--nnodes", strconv.Itoa(one.Nodes.Count))...)
		}
		argv = append(argv, plan.Text("--master-addr"), plan.Word{plan.Addr(one.Name)},
			plan.Text("--master-port"), portFor(s, one, "master", masterPort))
	}
	rank = append(rank, plan.Text("--address="+engine.HostIP))
	if i := slices.IndexFunc(env, func(v plan.Var) bool { return v.Name == sideChannelHost }); i >= 0 {
		rank = append(rank, plan.Text("--address="+sideChannelHost)) // each engine hands out its own KV blocks
	}
	return slices.Concat([]plan.Word{plan.Self()}, rank, plan.Texts("--"), argv)
}

// portFor adds a port of an instance and returns it as a word.
func portFor(s *plan.Service, one serving.Instance, name string, base int) plan.Word {
	port := plan.Port{Name: one.Name + "_" + name, Base: base + one.Order*1000, Step: 1, Count: 1, Role: one.Name}
	s.Ports = append(s.Ports, port)
	return plan.Word{plan.PortNumber(port.Name)}
}
