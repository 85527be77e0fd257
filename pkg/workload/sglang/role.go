package sglang

import (
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// role holds the keys of [cmd_args.prefill] and [cmd_args.decode] that are not
// options of the engine as they stand.
type role struct {
	GPUIDs          *source.Value `toml:"gpu_ids"`                         // Local GPU ids on each node: "0,1" or "0-3".
	NumNodes        *source.Value `toml:"num_nodes"`                       // Size of the role in nodes.
	TransferBackend *string       `toml:"disaggregation_transfer_backend"` // How KV blocks move; default nixl.
	BootstrapPort   *int          `toml:"disaggregation_bootstrap_port"`   // Base of prefill's bootstrap port; default 8998.

	name   string
	table  *source.Table
	engine *source.Table // options of the server
	gpus   []int         // explicit ids, nil if absent
	size   int           // explicit size in nodes, 0 if absent
	nodes  plan.Slice    // set by Serve
}

func decodeRole(name string, t *source.Table, c *source.Complaints) role {
	r := role{name: name, table: t, engine: source.NewTable(source.Pos{})}
	if t == nil {
		return r
	}
	own := source.Fields(role{})
	known := source.NewTable(t.Pos)
	for _, k := range own {
		v := t.Get(k)
		if v == nil {
			continue
		}
		if _, list := v.Any.([]*source.Value); list {
			c.Add(source.Errorf(v.Pos, "a list makes a sweep, but here one value must stand").Hintf("write one value"))
			continue
		}
		known.Set(k, v)
	}
	c.Add(source.Decode(known, &r))
	r.engine = t.Without(own...)
	r.readGPUs(c)
	if v := r.NumNodes; v != nil {
		n, ok := v.Int()
		if !ok || n < 1 {
			c.Addf(v.Pos, "%s.num_nodes must be a number of nodes, not %v", name, v.Plain())
		}
		r.size = int(max(n, 0))
	}
	if p := r.BootstrapPort; p != nil && (*p < 1024 || *p > 65535-plan.Slots) {
		c.Addf(t.PosOf("disaggregation_bootstrap_port"), "%s.disaggregation_bootstrap_port is %d, must be 1024-%d: the job's slot is added", name, *p, 65535-plan.Slots)
	}
	return r
}

func (r *role) readGPUs(c *source.Complaints) {
	v := r.GPUIDs
	if v == nil {
		return
	}
	s, ok := v.Any.(string)
	if !ok {
		c.Addf(v.Pos, "%s.gpu_ids must be a string such as \"0,1\", not the %s %v", r.name, v.Kind(), v.Plain())
		return
	}
	if s == "" {
		return
	}
	ids, err := plan.ParseGPUs(s)
	if err != nil {
		c.Addf(v.Pos, "%s.gpu_ids: %v", r.name, err)
	}
	r.gpus = ids
}

// parallel reads the sizes under every name that SGLang gives them. With DP
// attention the replicas share the TP ranks, and cost no further GPU.
func (r *role) parallel() (tp, pp, dp int) {
	size := func(keys ...string) int {
		for _, k := range keys {
			if v := r.engine.Get(k); v != nil {
				if n, ok := v.Int(); ok {
					return int(n)
				}
			}
		}
		return 1
	}
	tp = size("tensor_parallel_size", "tensor-parallel-size", "tp_size", "tp-size", "tp")
	pp = size("pipeline_parallel_size", "pipeline-parallel-size", "pp_size", "pp-size", "pp")
	dp = size("data_parallel_size", "data-parallel-size", "dp_size", "dp-size", "dp")
	for _, k := range []string{"enable_dp_attention", "enable-dp-attention"} {
		if v := r.engine.Get(k); v != nil && v.Any != false {
			dp = 1
		}
	}
	return tp, pp, dp
}

// slices sizes the roles: prefill takes the first nodes, decode the next. On
// one node both share it.
func (w *Workload) slices(nodes int) (p, d plan.Slice, err error) {
	pn, dn := w.prefill.size, w.decode.size
	shared := plan.Slice{Offset: 0, Count: 1}
	switch {
	case nodes == 1 && (pn == 0 && dn == 0 || pn == 1 && dn == 1):
		return shared, shared, nil
	case pn == 0 && dn == 0 && nodes == 2:
		return shared, plan.Slice{Offset: 1, Count: 1}, nil
	case pn == 0 && dn == 0:
		return p, d, source.Errorf(w.cfg.Prefill.Pos, "%d nodes, and neither prefill.num_nodes nor decode.num_nodes is set", nodes).
			Hintf("set both, so that they sum to %d", nodes)
	case pn == 0 || dn == 0:
		has, lacks := oneOf(w.prefill, w.decode, pn != 0)
		return p, d, source.Errorf(has.table.PosOf("num_nodes"), "%s.num_nodes is set and %s.num_nodes is not", has.name, lacks.name).
			Hintf("set both, so that they sum to %d", nodes)
	case pn+dn != nodes:
		return p, d, source.Errorf(w.cfg.Prefill.PosOf("num_nodes"), "prefill has %d nodes and decode %d, together %d, but the test has %d", pn, dn, pn+dn, nodes).
			Hintf("set num_nodes = %d, or change a role's num_nodes", pn+dn)
	}
	return plan.Slice{Offset: 0, Count: pn}, plan.Slice{Offset: pn, Count: dn}, nil
}
