package serving

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// Instance is one server of a role.
type Instance struct {
	Role
	Name    string // serve; prefill; with replicas prefill_0, prefill_1, ...
	Replica int
	Nodes   plan.Slice
	GPUs    []int // on each node
	Order   int   // 1 of decode behind prefill, else 0
	Place   int   // among the instances of its kind on its node
	First   int   // of its GPUs among those that its kind has on the node

	Balanced bool // one of several servers of a test without prefill, behind a proxy
}

// URL is where an instance answers.
func (i Instance) URL() plan.Word {
	return plan.Concat("http://", plan.Addr(i.Name), ":", plan.PortNumber(i.Name))
}

// Place puts every instance on its nodes and GPUs: prefill first, then decode; or
// the single server on all of them. all are the GPUs of a node.
func (s *Test) Place(cl plan.Cluster) (list []Instance, all []int, err error) {
	if all = cl.VisibleGPUs; all == nil {
		all = plan.CountGPUs(max(cl.GPUsPerNode, 1))
	}
	if cl.Shared {
		s, all = s.fitted(cl.Nodes, all)
	}
	if s.Disaggregated() {
		list, err = s.place(cl.Nodes, all)
		return list, all, err
	}
	one := Instance{Role: s.Decode, Name: single, Nodes: cl.All(), GPUs: all}
	if cl.VisibleGPUs == nil && one.IDs != nil {
		one.GPUs = one.IDs
	}
	return []Instance{one}, all, nil
}

// Pods are the instances of a test whose servers have a pod each, on a node of which nobody knows more
// than that it has the GPUs: as many as the parallel sizes of the instance need.
func (s *Test) Pods() (list []Instance) {
	roles := []*Role{&s.Decode}
	if s.Disaggregated() {
		roles = []*Role{&s.Prefill, &s.Decode}
	}
	for order, r := range roles {
		for i := range max(r.replicas, 1) {
			one := Instance{Role: *r, Name: r.Kind, Replica: i, Order: order, Nodes: plan.Slice{Count: max(r.nodes, 1)},
				GPUs: plan.CountGPUs(r.gpusOfInstance())}
			switch {
			case !s.Disaggregated():
				one.Name = single
			case r.replicas > 1:
				one.Name = fmt.Sprintf("%s_%d", r.Kind, i)
			}
			list = append(list, one)
		}
	}
	return list
}

// fitted is the test with as many GPUs for each role that names none as its instances need, and
// the GPUs that are left to it then. If there are too few, it stays as it is, and is refused.
func (s *Test) fitted(nodes int, all []int) (*Test, []int) {
	need := (s.Decode.gpusOfInstance() + nodes - 1) / nodes
	if !s.Disaggregated() {
		return s, all[:min(need, len(all))]
	}
	fit, next := *s, 0
	for _, r := range []*Role{&fit.Prefill, &fit.Decode} {
		need := r.gpusOfInstance() * max(r.replicas, 1)
		if nodes > 1 || r.IDs != nil || next+need > len(all) {
			return s, all
		}
		r.IDs, next = all[next:next+need], next+need
	}
	return &fit, all
}

func (s *Test) place(nodes int, all []int) ([]Instance, error) {
	if s.Prefill.replicas > 1 || s.Decode.replicas > 1 {
		return s.placeReplicas(nodes, all)
	}
	p, d, err := s.slices(nodes)
	if err != nil {
		return nil, err
	}
	pg, dg := all, all
	switch {
	case s.Prefill.IDs != nil:
		pg, dg = s.Prefill.IDs, s.Decode.IDs
	case nodes == 1:
		pg, dg = plan.SplitGPUs(all)
		if len(pg) == 0 {
			return nil, source.Errorf(s.NodesPos(), "1 node with %s cannot serve prefill and decode",
				quantity.Count(len(all), "GPU")).
				Hintf("set num_nodes = 2, or use a node with 2 or more GPUs (gpus_per_node in the system file)")
		}
	}
	return []Instance{{Role: s.Prefill, Name: Prefill, Nodes: p, GPUs: pg},
		{Role: s.Decode, Name: Decode, Nodes: d, GPUs: dg, Order: 1}}, nil
}

// slices sizes the roles: prefill takes the first nodes, decode the next. On
// one node both share it.
func (s *Test) slices(nodes int) (p, d plan.Slice, err error) {
	pn, dn := s.Prefill.nodes, s.Decode.nodes
	shared := plan.Slice{Offset: 0, Count: 1}
	switch {
	case pn == 0 && dn == 0 && nodes == 1, pn == 1 && dn == 1 && nodes == 1:
		return shared, shared, nil
	case pn == 0 && dn == 0 && nodes == 2:
		return shared, plan.Slice{Offset: 1, Count: 1}, nil
	case pn == 0 && dn == 0:
		return p, d, source.Errorf(s.NodesPos(),
			"the test has %s, but neither prefill.num_nodes nor decode.num_nodes is set",
			quantity.Count(nodes, "node")).
			Hintf("set both; their sum must be %d", nodes)
	case pn == 0 || dn == 0:
		has, lacks := s.Prefill, s.Decode
		if has.nodes == 0 {
			has, lacks = lacks, has
		}
		return p, d, source.Errorf(has.table.PosOf("num_nodes"), "%s.num_nodes is set, but %s.num_nodes is not",
			has.Kind, lacks.Kind).
			Hintf("set both; their sum must be %d, the number of nodes of the test", nodes)
	case pn+dn != nodes:
		return p, d, source.Errorf(s.PrefillArgs.PosOf("num_nodes"),
			"prefill has %s and decode %s, together %d, but the test has %s", quantity.Count(pn, "node"),
			quantity.Count(dn, "node"), pn+dn, quantity.Count(nodes, "node")).
			Hintf("%s, or change prefill.num_nodes or decode.num_nodes", s.setNodes(pn+dn))
	}
	return plan.Slice{Offset: 0, Count: pn}, plan.Slice{Offset: pn, Count: dn}, nil
}

// placeReplicas places several instances of a role by three rules, tried in
// this order: on one node they split its GPUs evenly; each has nodes of its own;
// as many as the parallel sizes leave room for share a node, its GPUs split
// evenly. What fits none of them, or two, is refused.
func (s *Test) placeReplicas(nodes int, all []int) ([]Instance, error) {
	p, d := &s.Prefill, &s.Decode
	if nodes == 1 {
		return s.oneNode(all)
	}
	whole := [2]int{p.replicas * max(p.nodes, 1), d.replicas * max(d.nodes, 1)}
	packed := [2]int{p.replicas * max(p.nodes, 1) / p.perNode(all), d.replicas * max(d.nodes, 1) / d.perNode(all)}
	var fits [][2]int
	for _, try := range [][2]int{whole, packed, {packed[0], whole[1]}, {whole[0], packed[1]}} {
		if try[0]+try[1] == nodes && !slices.Contains(fits, try) {
			fits = append(fits, try)
		}
	}
	need := fmt.Sprintf("%d x prefill on %s and %d x decode on %s", p.replicas, p.nodesEach(), d.replicas,
		d.nodesEach())
	switch {
	case len(fits) == 0:
		hint := s.setNodes(whole[0] + whole[1])
		if packed != whole {
			hint += fmt.Sprintf(", or %d with several instances on a node", packed[0]+packed[1])
		}
		return nil, source.Errorf(s.replicasPos(), "%s need %d nodes, but the test has %s", need, whole[0]+whole[1],
			quantity.Count(nodes, "node")).Hintf("%s", hint)
	case len(fits) > 1 && fits[0] != whole:
		return nil, source.Errorf(s.replicasPos(), "%s fit on %d nodes in two ways: %d + %d or %d + %d nodes", need,
			nodes,
			fits[0][0], fits[0][1], fits[1][0], fits[1][1]).
			Hintf("set num_nodes = %d for one instance on each node, or %d for as many as fit", whole[0]+whole[1],
				packed[0]+packed[1])
	}
	list := p.spread(0, fits[0][0], all)
	return append(list, d.spread(fits[0][0], fits[0][1], all)...), nil
}

// NodesPos is where the number of the test's nodes is said, else where prefill begins.
func (s *Test) NodesPos() source.Pos {
	for _, key := range []string{"nodes", "num_nodes"} {
		if s.written.Has(key) {
			return s.written.PosOf(key)
		}
	}
	return s.PrefillArgs.Pos
}

// setNodes says how the test gets so many nodes.
func (s *Test) setNodes(n int) string {
	if s.written.Has("nodes") {
		return fmt.Sprintf("name %s in nodes", quantity.Count(n, "node"))
	}
	return fmt.Sprintf("set num_nodes = %d", n)
}

// nodesEach says how many nodes an instance takes.
func (r *Role) nodesEach() string { return quantity.Count(max(r.nodes, 1), "node") + " each" }

func (s *Test) replicasPos() source.Pos {
	if s.Prefill.replicas > 1 {
		return s.Prefill.table.PosOf("replicas")
	}
	return s.Decode.table.PosOf("replicas")
}

// oneNode splits the GPUs of a single node: each role's gpu_ids among its
// instances, or else all among all.
func (s *Test) oneNode(all []int) ([]Instance, error) {
	p, d := &s.Prefill, &s.Decode
	if p.nodes > 1 || d.nodes > 1 {
		return nil, source.Errorf(s.replicasPos(),
			"an instance of prefill needs %s and one of decode %s, but the test has 1 node",
			p.nodesEach(), d.nodesEach()).Hintf("%s", s.setNodes(p.replicas*max(p.nodes, 1)+d.replicas*max(d.nodes, 1)))
	}
	pg, dg := p.IDs, d.IDs
	if pg == nil {
		n := p.replicas + d.replicas
		if len(all) < n || len(all)%n != 0 {
			return nil, source.Errorf(s.replicasPos(),
				"the %d GPUs of the node cannot be split evenly among %d x prefill and %d x decode", len(all),
				p.replicas, d.replicas).
				Hintf("set gpu_ids of both roles, or %s", s.setNodes(n))
		}
		share := len(all) / n
		pg, dg = all[:p.replicas*share], all[p.replicas*share:]
	}
	for _, k := range []struct {
		r    *Role
		gpus []int
	}{{p, pg}, {d, dg}} {
		if len(k.gpus)%k.r.replicas != 0 {
			return nil, source.Errorf(k.r.table.PosOf("gpu_ids"),
				"%s.gpu_ids names %d GPUs, which cannot be split evenly among %d instances", k.r.Kind, len(k.gpus),
				k.r.replicas).
				Hintf("name a multiple of %d GPUs", k.r.replicas)
		}
	}
	return append(p.spread(0, 1, pg), d.spread(0, 1, dg)...), nil
}

// perNode is how many instances of the role can share a node: the largest number
// that divides both its GPUs and the instances, and leaves each the GPUs it needs.
func (r *Role) perNode(all []int) int {
	if r.nodes > 1 {
		return 1
	}
	gpus := len(all)
	if r.IDs != nil {
		gpus = len(r.IDs)
	}
	for n := min(r.replicas, gpus/r.gpusOfInstance()); n > 1; n-- {
		if gpus%n == 0 && r.replicas%n == 0 {
			return n
		}
	}
	return 1
}

// spread puts the role's instances evenly on count nodes from offset on.
func (r *Role) spread(offset, count int, all []int) []Instance {
	gpus := all
	if r.IDs != nil {
		gpus = r.IDs
	}
	size, per := max(count/r.replicas, 1), max(r.replicas/count, 1)
	share := len(gpus) / per
	list := make([]Instance, r.replicas)
	for i := range list {
		place := i % per
		list[i] = Instance{
			Role: *r, Name: r.Kind, Replica: i, Place: place, First: place * share,
			GPUs:  gpus[place*share : (place+1)*share],
			Nodes: plan.Slice{Offset: offset + i/per*size, Count: size},
		}
		if r.Kind == Decode {
			list[i].Order = 1
		}
		if r.replicas > 1 {
			list[i].Name = fmt.Sprintf("%s_%d", r.Kind, i)
		}
	}
	return list
}
