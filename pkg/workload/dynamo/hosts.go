package dynamo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// readHosts reads nodes of a role: hosts by name, whose number num_nodes must not contradict.
func (r *role) readHosts(c *source.Complaints) {
	if r.Hosts == nil || *r.Hosts == "" {
		return
	}
	pos := r.pos("nodes")
	hosts, err := hostlist.Expand(*r.Hosts)
	if err != nil {
		c.Add(source.Errorf(pos, "%s.nodes: %v", r.label(), err).Hintf(`write hosts as Slurm does: "node[01-04]"`))
		return
	}
	if twice := firstTwice(hosts); twice != "" {
		c.Add(source.Errorf(pos, "%s.nodes names %s twice", r.label(), twice).Hintf("remove one"))
	}
	if r.Nodes != nil && r.nodes != len(hosts) {
		c.Add(source.Errorf(r.pos("num_nodes"), "%s.num_nodes is %d, but its nodes (%s) are %d", r.label(), r.nodes, pos,
			len(hosts)).Hintf("remove num_nodes: the hosts say it"))
	}
	r.hosts, r.nodes = hosts, len(hosts)
}

func firstTwice(hosts []string) string {
	for i, h := range hosts {
		if slices.Contains(hosts[:i], h) {
			return h
		}
	}
	return ""
}

// hosted reports whether a role names its hosts.
func (w *Workload) hosted() bool { return len(w.prefill.hosts)+len(w.decode.hosts) > 0 }

// hosts are those of the job where roles name theirs: all of them and those of the test, in the
// order in which Slurm is expected to give them.
func (w *Workload) hosts() []string {
	list := slices.Concat(w.prefill.hosts, w.decode.hosts)
	if v := w.written.Get("nodes"); v != nil {
		items, _ := v.Any.([]*source.Value)
		for _, item := range items {
			text, _ := item.Text()
			more, _ := hostlist.Expand(text) // what names the hosts of the job complains
			list = append(list, more...)
		}
	}
	slices.SortFunc(list, byNumber)
	return slices.Compact(list)
}

// byNumber compares hosts by the text before the number at their end, then by the number.
func byNumber(a, b string) int {
	textA, numberA := cut(a)
	textB, numberB := cut(b)
	return cmp.Or(cmp.Compare(textA, textB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}

func cut(host string) (text string, number uint64) {
	text = strings.TrimRight(host, "0123456789")
	number, _ = strconv.ParseUint(host[len(text):], 10, 64)
	return text, number
}

// askHosts has the job ask for the hosts that roles name.
func (w *Workload) askHosts(t *scenario.Test, c *source.Complaints) {
	for _, item := range t.NodeLists {
		if strings.Contains(item, ":") {
			c.Add(source.Errorf(t.PosOf("nodes"), "test %q: nodes %q names no host, but the workers name theirs", t.ID, item).
				Hintf("name hosts in both, or in neither"))
		}
	}
	if t.ClientNodes > 0 {
		c.Add(source.Errorf(t.PosOf("client_nodes"),
			"test %q: client_nodes takes the last nodes, but the workers name theirs", t.ID).Hintf("remove one of the two"))
	}
	for _, r := range []*role{&w.prefill, &w.decode} {
		for i, item := range t.ExcludeNodes {
			out, _ := hostlist.Expand(item) // what names the hosts of the job complains
			for _, host := range out {
				if slices.Contains(r.hosts, host) {
					c.Add(source.Errorf(r.pos("nodes"), "%s.nodes names %s, which exclude_nodes (%s) leaves out", r.label(), host,
						t.Table.ElementPos("exclude_nodes", i)).Hintf("remove it from one of the two"))
				}
			}
		}
	}
	hosts := w.hosts()
	if n := t.NumNodes; n != nil && len(t.NodeLists) == 0 {
		if x, ok := intOf(n); ok && x != len(hosts) {
			c.Add(source.Errorf(n.Pos, "test %q: num_nodes is %d, but the workers name %d hosts", t.ID, x, len(hosts)).
				Hintf("remove num_nodes"))
		}
	}
	t.NodeLists, t.NumNodes = hosts, nil
}

// roleNodes are the nodes of decode and of prefill, from 0 on.
func (w *Workload) roleNodes(nodes int) (decode, prefill []int, err error) {
	if err := w.fits(nodes); err != nil {
		return nil, nil, err
	}
	p, d := w.prefill.nodes, w.decode.nodes
	if !w.hosted() {
		if decode, prefill = upTo(0, d), upTo(d, p); nodes < p+d {
			prefill = upTo(0, p)
		}
		return decode, prefill, nil
	}
	hosts := w.hosts()
	if len(hosts) != nodes {
		return nil, nil, source.Errorf(w.nodesPos(), "the workers name %d hosts, but the job has %d nodes", len(hosts),
			nodes).Hintf("remove num_nodes, and name the hosts of the job in nodes of the workers only")
	}
	decode, prefill = indices(hosts, w.decode.hosts), indices(hosts, w.prefill.hosts)
	rest := func(count int, others []int) []int { // the nodes that the other role leaves, where there are enough for both
		free := slices.DeleteFunc(upTo(0, nodes), func(n int) bool { return nodes >= p+d && slices.Contains(others, n) })
		return free[:min(count, len(free))]
	}
	if len(decode) == 0 {
		decode = rest(d, prefill)
	}
	if len(prefill) == 0 {
		prefill = rest(p, decode)
	}
	if len(prefill) < p || len(decode) < d {
		return nil, nil, source.Errorf(w.nodesPos(), "%d nodes are left for %d of prefill, and %d for %d of decode",
			len(prefill), p, len(decode), d).Hintf("name the hosts of both roles")
	}
	used := slices.Concat(decode, prefill)
	slices.Sort(used)
	unique := slices.Compact(slices.Clone(used))
	if len(unique) < len(used) && len(unique) < nodes {
		return nil, nil, source.Errorf(w.nodesPos(), "prefill and decode share hosts, and the job has %d more",
			nodes-len(unique)).Hintf("name no other nodes in the test")
	}
	return decode, prefill, nil
}

func upTo(first, count int) (list []int) {
	for n := range count {
		list = append(list, first+n)
	}
	return list
}

// indices are the places of some hosts among those of the job.
func indices(all, some []string) (list []int) {
	for _, h := range some {
		list = append(list, slices.Index(all, h))
	}
	return list
}

// orderScript ends the job if Slurm gives its hosts in another order than the plan has, by which
// workers stand on nodes.
const orderScript = `[ "${@:SLURM_PROCID+1:1}" = "$SLURMD_NODENAME" ] || ` +
	`{ echo "node $SLURM_PROCID of the job is $SLURMD_NODENAME, ` +
	`but the plan puts workers as if it were ${*:SLURM_PROCID+1:1}"; exit 1; }`

// addOrder checks on the nodes that the hosts that roles name are where the plan has them.
func (w *Workload) addOrder(s *plan.Service, cl plan.Cluster) {
	if !w.hosted() || cl.Simulated { // simulated nodes have no names of their own
		return
	}
	argv := slices.Concat([]string{"bash", "-c", orderScript, "hosts"}, w.hosts())
	s.Setup = append(s.Setup, plan.Step{Name: "hosts", Nodes: cl.All(), Argv: plan.Texts(argv...),
		Log: "logs/hosts-%t.log"})
}
