package dynamo

import (
	"github.com/profllm/profllm/pkg/source"
)

// constraints is [constraints] of a test.
type constraints struct {
	Order *bool `toml:"prefill_tp_le_decode_tp"` // Prefill has no larger tensor parallel size than decode; default true.
	// Read, without effect: what does not fit is always refused.
	Fits *bool `toml:"tp_times_pp_le_gpus_per_node"`
}

// checkConstraints refuses what the constraints forbid, in every run and not in sweeps alone. That
// a worker fits its node, and both roles the nodes that they share, placing them shows.
func (w *Workload) checkConstraints(t *source.Table, c *source.Complaints) {
	var x constraints
	if t != nil {
		c.Add(source.Decode(t, &x))
	}
	if x.Fits != nil && !*x.Fits {
		const key = "tp_times_pp_le_gpus_per_node"
		w.note(t.PosOf(key), "%s has no effect: a worker must fit its nodes", key)
	}
	w.anyOrder = x.Order != nil && !*x.Order
	if !w.prefill.whole && !w.decode.whole {
		c.Add(w.checkOrder())
	}
}

// checkOrder compares the tensor parallel sizes of the roles. Those of sglang_dsr1 are known once
// the nodes are.
func (w *Workload) checkOrder() error {
	p, d := &w.prefill, &w.decode
	if p.nodes == 0 || p.tp <= d.tp {
		return nil
	}
	if w.anyOrder {
		w.note(p.sizePos(), "prefill has a larger tensor parallel size (%d) than decode (%d)", p.tp, d.tp)
		return nil
	}
	return source.Errorf(p.sizePos(), "prefill has a larger tensor parallel size (%d) than decode (%d)", p.tp, d.tp).
		Hintf("lower it, or set constraints.prefill_tp_le_decode_tp = false")
}
