package dynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// maxWorkers bounds the workers of a node, whose ports lie apart.
const maxWorkers = 16

// instance is one worker.
type instance struct {
	role  *role
	name  string // prefill; where there are several prefill_0, prefill_1, ...
	index int    // among those of its role
	place int    // among all workers of its node
	nodes plan.Slice
	gpus  []int
}

// Nodes is how many nodes a test needs that names none: each role has nodes of its own.
func (w *Workload) Nodes() int { return w.prefill.nodes + w.decode.nodes }

// place puts the workers on nodes: decode on the first, prefill on the next, or from the first on
// where there are too few for both. This is CloudAI's order.
func (w *Workload) place(cl plan.Cluster) ([]instance, error) {
	p, d := &w.prefill, &w.decode
	decode, prefill, err := w.roleNodes(cl.Nodes)
	if err != nil {
		return nil, err
	}
	all := cl.VisibleGPUs
	if all == nil {
		all = plan.CountGPUs(max(cl.GPUsPerNode, 1))
	}
	w.frugal, w.noCount = cl.Shared, cl.VisibleGPUs == nil && cl.GPUsPerNode == 0
	if w.backend.noGPU {
		all = nil
	}
	p.wide(len(all))
	d.wide(len(all))
	if err := w.checkOrder(); err != nil {
		return nil, err
	}
	shared := slices.ContainsFunc(prefill, func(n int) bool { return slices.Contains(decode, n) })
	list, err := w.onNodes(d, decode, all, 0, shared)
	if err == nil && p.nodes > 0 {
		taken := 0
		if shared {
			taken = d.each() * max(d.perNode, 1)
		}
		var more []instance
		more, err = w.onNodes(p, prefill, all, taken, shared)
		list = append(list, more...)
	}
	number(list)
	return list, err
}

// fits refuses a number of nodes that the roles cannot have.
func (w *Workload) fits(nodes int) error {
	p, d := w.prefill.nodes, w.decode.nodes
	switch pos := w.nodesPos(); {
	case d == 0:
		return source.Errorf(w.decode.pos("num_nodes"), "decode_worker.num_nodes is 0: nobody would answer").
			Hintf("set 1 or more; for aggregated serving set prefill_worker.num-nodes = 0")
	case p == 0 && d > nodes, nodes < max(p, d):
		return source.Errorf(pos, "%s cannot hold %s of decode and %s of prefill", quantity.Count(nodes, "node"),
			quantity.Count(d, "node"), quantity.Count(p, "node")).
			Hintf("set num_nodes = %d for nodes of their own%s", p+d, sharing(p, d))
	}
	return nil
}

// sharing says how many nodes suffice if prefill and decode share them.
func sharing(p, d int) string {
	if p == 0 {
		return ""
	}
	return fmt.Sprintf(", or %d for shared ones", max(p, d))
}

// onNodes are the workers of a role on its nodes. Each takes the next of a node's GPUs, behind
// those that another role has; the only one of a node that it has to itself takes them all. One
// over several nodes has the same on each.
func (w *Workload) onNodes(r *role, nodes, all []int, taken int, shared bool) ([]instance, error) {
	if err := w.checkSpan(r, nodes); err != nil {
		return nil, err
	}
	g := r.each()
	each := r.perNode
	switch {
	case each > 0:
	case shared || !r.multi || w.backend.noGPU || r.span > 1:
		each = 1
	default:
		each = len(all) / max(g, 1)
	}
	if free := len(all) - taken; !w.backend.noGPU && each*g > free || each == 0 {
		return nil, w.tooLarge(r, max(each, 1), max(free, 0), len(all), shared)
	}
	var list []instance
	for node := 0; node < len(nodes); node += r.span {
		for i := range each {
			one := instance{role: r, index: len(list), nodes: plan.Slice{Offset: nodes[node], Count: r.span}}
			switch {
			case w.backend.noGPU:
			case each == 1 && !shared && !w.frugal:
				one.gpus = all
			default:
				one.gpus = all[taken+i*g : taken+(i+1)*g]
			}
			list = append(list, one)
		}
	}
	for i := range list {
		if list[i].name = r.kind; len(list) > 1 {
			list[i].name = fmt.Sprintf("%s_%d", r.kind, i)
		}
	}
	return list, nil
}

// tooLarge refuses workers that their nodes have too few GPUs for. The complaint stands at what is
// said of their number if one of them would fit, else at their largest size.
func (w *Workload) tooLarge(r *role, each, free, all int, shared bool) error {
	pos, mends := r.sizePos(), []string{"lower the sizes"}
	if each > 1 && r.each() <= free {
		pos, mends = r.pos("workers_per_node"), []string{fmt.Sprintf("set workers_per_node = %d or fewer", free/r.each()),
			"lower the sizes"}
	}
	if shared {
		mends = append(mends, "give each role nodes of its own")
	}
	if r.each() > all && r.span == 1 {
		mends = append(mends, "set nodes_per_worker for workers over several nodes")
	}
	if w.noCount {
		mends = append(mends, "set gpus_per_node in the system file, without which a node counts as one GPU")
	}
	over := ""
	if r.span > 1 {
		over = fmt.Sprintf(", over %d nodes", r.span)
	}
	return source.Errorf(pos, "%s needs %s on each node (%s with TP %d x PP %d x DP %d%s), but %d of %d are free", r.kind,
		quantity.Count(each*r.each(), "GPU"), quantity.Count(each, "worker"), r.tp, r.pp, r.dp, over, free, all).
		Hintf("%s", strings.Join(mends, ", or "))
}

// number says which worker of its nodes each is.
func number(list []instance) {
	seen := map[int]int{}
	for i := range list {
		one := &list[i]
		for n := one.nodes.Offset; n < one.nodes.End(); n++ {
			one.place = max(one.place, seen[n])
		}
		for n := one.nodes.Offset; n < one.nodes.End(); n++ {
			seen[n] = one.place + 1
		}
	}
}

// placeFrontend chooses the node of the frontend.
func (w *Workload) placeFrontend(nodes int, list []instance) error {
	w.front = plan.Slice{Offset: list[0].nodes.Offset, Count: 1}
	if n := w.service.FrontendNode; n != nil {
		if *n < 0 || *n >= nodes {
			return source.Errorf(w.table.PosOf("frontend_node"), "frontend_node is %d, but the job has %s", *n,
				quantity.Count(nodes, "node")).Hintf("nodes count from 0; set num_nodes for one more than the workers have")
		}
		w.front.Offset = *n
	}
	return nil
}

// nodesPos is where the number of the test's nodes is said.
func (w *Workload) nodesPos() source.Pos {
	for _, key := range []string{"nodes", "num_nodes"} {
		if w.written.Has(key) {
			return w.written.PosOf(key)
		}
	}
	return w.decode.pos("num_nodes")
}

// idle says which nodes have no worker.
func (w *Workload) idle(nodes int, list []instance) string {
	used := map[int]bool{w.front.Offset: true}
	for _, one := range list {
		for n := one.nodes.Offset; n < one.nodes.End(); n++ {
			used[n] = true
		}
	}
	var names []string
	for n := range nodes {
		if !used[n] {
			names = append(names, fmt.Sprint(n))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no worker runs on %s", w.nodesPos(), quantity.Count(len(names), "node"))
}

// a role is the workers of one kind.
type role struct {
	worker
	kind  string // prefill, decode, or worker
	table *source.Table
	args  *source.Table // options, with underscores
	extra []plan.Word

	extraWords []string // the same, as the test says them
	nodes      int
	hosts      []string // that it names, none: it takes the next
	span       int      // nodes of one worker
	perNode    int      // 0: not said
	multi      bool
	tp, pp     int
	dp         int
	whole      bool // sglang_dsr1 without sizes: all GPUs of its nodes
	all        int  // GPUs of the nodes of such a worker; 0: not known

	connectors  []string
	connectorAt source.Pos // where they are named
}

// world is how many GPUs one worker needs.
func (r *role) world() int { return r.tp * r.pp * r.dp }

// label is the table of the role as a user writes it.
func (r *role) label() string {
	if r.kind == prefill {
		return "prefill_worker"
	}
	return "decode_worker"
}

// pos is where a key of the role stands.
func (r *role) pos(key string) source.Pos { return r.table.PosOf(key) }

// sizePos is where the largest parallel size stands.
func (r *role) sizePos() source.Pos {
	for _, name := range []string{"tensor_parallel_size", "tp_size", "tp", "pipeline_parallel_size", "pp_size", "pp",
		"data_parallel_size", "dp_size", "dp"} {
		if r.args.Has(name) {
			return r.args.PosOf(name)
		}
	}
	return r.table.Pos
}

// readRole decodes one table of workers.
func (w *Workload) readRole(kind string, t *source.Table, c *source.Complaints) role {
	r := role{kind: kind, nodes: 1, span: 1, table: source.NewTable(source.Pos{})}
	if t != nil {
		r.table = decode(t, &r.worker, c)
	}
	r.args, r.multi = spelled(r.Args, c), r.Multi
	if v := r.Nodes; v != nil {
		n, ok := intOf(v)
		if r.nodes = n; !ok || n < 0 || n > maxSize {
			c.Add(source.Errorf(v.Pos, "%s.num_nodes must be a number of nodes, 0 to %d, not %s", r.label(), maxSize,
				v.Shown()).Hintf("write a whole number: num_nodes = 1"))
			r.nodes = 1
		}
	}
	if n := r.PerNode; n != nil {
		if r.perNode = *n; *n < 1 || *n > maxWorkers {
			c.Add(source.Errorf(r.pos("workers_per_node"), "%s.workers_per_node is %d, must be 1 to %d", r.label(), *n,
				maxWorkers).Hintf("leave it out for 1"))
			r.perNode = 1
		}
	}
	r.readHosts(c)
	r.readSpan(w.service.Backend, c)
	r.extra = w.extraArgs(&r, c)
	r.checkJSON(c)
	w.readConnectors(&r, c)
	r.tp, r.pp, r.dp = r.size(w.backend.tp, c), r.size(w.backend.pp, c), r.size(w.backend.dp, c)
	attention := "--" + strings.ReplaceAll(w.backend.attention, "_", "-")
	if w.backend.attention != "" && (isOn(r.args.Get(w.backend.attention)) || hasOption(r.extra, attention)) {
		r.dp = 1
	}
	r.whole = w.service.Backend == dsr1 && r.sizePos() == r.table.Pos
	for _, key := range names(w.backend.planned) {
		if v := r.args.Get(key); v != nil && !r.agrees(key, v) {
			c.Add(source.Errorf(v.Pos, "%s.args.%s: profllm sets this option itself", r.label(), key).
				Hintf("%s", w.backend.planned[key]))
		}
	}
	return r
}

// agrees reports whether an option that profllm sets is written, and says the same. What a worker
// of an aggregated service is told of prefill and decode is left out.
func (r *role) agrees(key string, v *source.Value) bool {
	text, _ := v.Text()
	on, isBool := v.Bool()
	switch key {
	case "disaggregation_mode":
		return text == r.kind || r.kind == aggregated && text == decodeRole
	case "is_prefill_worker", "is_decode_worker":
		return isBool && on == (key == "is_"+r.kind+"_worker")
	}
	return false
}

// options are those of a role as words, less what profllm writes itself.
func (w *Workload) options(r *role) []plan.Word {
	drop := append([]string{"connector", w.backend.bootstrap, w.backend.port}, modelKeys...)
	for key := range w.backend.planned {
		drop = append(drop, key)
	}
	var words []plan.Word
	for _, key := range r.args.Keys() {
		if !slices.Contains(drop, key) {
			words = append(words, serving.Option(w.backend.spelt(key), r.args.Get(key), w.backend.booleans)...)
		}
	}
	return words
}

// isOn reports whether a flag is there and set.
func isOn(v *source.Value) bool {
	if v == nil {
		return false
	}
	on, isBool := v.Bool()
	return v.Any == "" || isBool && on
}
