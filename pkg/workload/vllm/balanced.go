package vllm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// The layouts of data-parallel engines that have several API servers, with profllm's proxy before
// them.
const (
	hybrid   = "hybrid"   // one API server on each node, for the ranks of that node
	external = "external" // one API server for each rank
)

const (
	hybridKey   = "data_parallel_hybrid_lb"
	externalKey = "data_parallel_external_lb"
)

// balanced is the layout with several API servers that the role asks for, "" for none. A hybrid
// server that has all ranks is one server to vLLM as well (engine/arg_utils.py, 0.32).
func balanced(one serving.Instance) string {
	switch {
	case one.Flag(externalKey):
		return external
	case one.Flag(hybridKey) && (one.Nodes.Count != 1 || one.Option(dataLocalKey) == nil):
		return hybrid
	}
	return ""
}

// checkBalanced refuses what goes not with several API servers.
func (w *Workload) checkBalanced(one serving.Instance, c *source.Complaints) {
	key, name := hybridKey, balanced(one)
	if name == external {
		key = externalKey
	}
	at := one.Option(key).Pos
	if w.Disaggregated() {
		c.Add(source.Errorf(at, "%s.%s goes with a test without [cmd_args.prefill] only", one.Kind, key).
			Hintf("set replicas for servers that know nothing of each other, or %s = \"mp\" for engines behind one "+
				"API server", dataKey))
		return
	}
	w.checkPlanned(one, name, c, nodesKey, "node_rank", "master_addr", "master_port")
	for _, key := range []string{executorKey, dataKey} {
		if v := one.Option(key); v != nil && textOf(one, key) == onRay {
			c.Add(source.Errorf(v.Pos, "%s.%s is %q, but servers with %s load balancing start without Ray", one.Kind, key,
				onRay, name).Hintf("remove it"))
		}
	}
	if w.cfg.ProxyScript != nil {
		c.Add(source.Errorf(at, "%s.%s has profllm's own proxy before its servers, not proxy_script", one.Kind, key).
			Hintf("remove proxy_script"))
	}
	w.checkRanks(one, key, c)
}

// checkRanks refuses ranks that do not fit the nodes: each node has the same number of them.
func (w *Workload) checkRanks(one serving.Instance, key string, c *source.Complaints) {
	nodes := one.Nodes.Count
	_, _, dp := one.Parallel()
	local := one.Option(dataLocalKey)
	switch {
	case key == hybridKey && nodes == 1:
		c.Add(source.Errorf(one.Option(key).Pos, "%s.%s has one API server on each node, but the role has 1 node",
			one.Kind, key).Hintf("remove it, or set num_nodes = 2 or more"))
	case dp == 1:
		c.Add(source.Errorf(one.Option(key).Pos, "%s.%s needs a data_parallel_size above 1", one.Kind, key).
			Hintf("set a multiple of the number of nodes (%d)", nodes))
	case key == hybridKey && local != nil:
		if n, ok := local.Int(); ok && int(n)*nodes != dp {
			c.Add(localRanks(one, local, int(n)))
			return
		}
		c.Add(spread(one))
	default:
		c.Add(spread(one))
	}
}

// addBalanced adds the servers of a test with hybrid or external load balancing, each a role of its
// own with its place among all ranks, and the proxy before them.
func (w *Workload) addBalanced(s *plan.Service, whole serving.Instance) {
	name := balanced(whole)
	servers, ranks := servers(whole)
	s.Ports = append(s.Ports, w.ProxyPort(servers[0]))
	rpc := plan.Word{}
	for i, one := range servers {
		s.Ports = append(s.Ports, w.PortOf(one))
		if i == 0 {
			rpc = portFor(s, one, "rpc", rpcPort)
		}
		argv := append(w.serveFixed(), serving.Options(one.Options, serving.Negatable)...)
		if one.Option(executorKey) == nil {
			argv = append(argv, plan.Texts("--"+strings.ReplaceAll(executorKey, "_", "-"), "mp")...)
		}
		argv = append(argv, plan.Text("--data-parallel-address"), plan.Word{plan.Addr(servers[0].Name)},
			plan.Text("--data-parallel-rpc-port"), rpc)
		if name == hybrid {
			if one.Option(dataLocalKey) == nil {
				argv = append(argv, plan.Texts("--data-parallel-size-local", strconv.Itoa(ranks))...)
			}
			argv = append(argv, plan.Texts("--data-parallel-start-rank", strconv.Itoa(i*ranks))...)
		} else {
			argv = append(argv, plan.Texts("--data-parallel-rank", strconv.Itoa(i))...)
		}
		argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber(one.Name)})
		w.AddServer(s, one, argv, 0)
		r := &s.Roles[len(s.Roles)-1]
		r.DP, r.EP, r.Group = ranks, experts(whole), true
		r.Executor = fmt.Sprintf("%s, because the role sets data_parallel_%s_lb", name, name)
	}
	w.addBalancer(s, servers)
	s.Notes = append(s.Notes, fmt.Sprintf("%s: requests go through profllm's proxy to the %d API servers, so the "+
		"proxy is part of what is measured; results.proxy.overhead_ms in the record is its own mean time for a request "+
		"before the first token",
		whole.Option("data_parallel_"+name+"_lb").Pos, len(servers)))
	if name == external {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: vLLM 0.32 has external load balancing for mixtures of experts "+
			"only; a dense model does not start", whole.Option(externalKey).Pos))
	}
}

// servers are the API servers of a role, in the order of their ranks, and how many ranks each has:
// with external load balancing one, which has its share of the GPUs of a node.
func servers(whole serving.Instance) (list []serving.Instance, ranks int) {
	_, _, dp := whole.Parallel()
	each, ranks := 1, dp/whole.Nodes.Count // servers on a node, ranks of a server
	if balanced(whole) == external {
		each, ranks = ranks, 1
	}
	share := len(whole.GPUs) / each
	for i := range whole.Nodes.Count * each {
		one, place := whole, i%each
		one.Name, one.Replica, one.Balanced = fmt.Sprintf("%s_%d", whole.Name, i), i, true
		one.Nodes = plan.Slice{Offset: whole.Nodes.Offset + i/each, Count: 1}
		one.Place, one.First = place, place*share
		one.GPUs = whole.GPUs[place*share : (place+1)*share]
		list = append(list, one)
	}
	return list, ranks
}

// addBalancer adds profllm's proxy before servers that are alike.
func (w *Workload) addBalancer(s *plan.Service, servers []serving.Instance) {
	argv := append([]plan.Word{plan.Self(), plan.Text("proxy")}, plan.Texts("--host", w.Host, "--port")...)
	argv = append(argv, plan.Word{plan.PortNumber("proxy")})
	for _, one := range servers {
		argv = append(argv, plan.Text("--server"), one.URL())
	}
	w.AddProxy(s, servers[0], w.proxyHealth(), argv, false)
}
