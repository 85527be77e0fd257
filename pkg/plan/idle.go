package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
)

// Allocated counts the GPUs that the job asks for; 0: it asks for none by name.
func (p *Plan) Allocated() int { return p.Job.Nodes * p.Job.GPUsPerNode }

// Steps are the points of a sweep that a run measures, from 1; none: it is no sweep.
func (p *Plan) Steps() []int {
	var list []int
	for _, l := range p.Loads {
		if l.Step > 0 && !slices.Contains(list, l.Step) {
			list = append(list, l.Step)
		}
	}
	return list
}

// Used counts the GPUs that roles make use of by their parallel sizes.
func (p *Plan) Used() int { return p.GPUs() - p.Idle() }

// IdleNotes say which nodes and GPUs of the job nothing uses, and what to change. A plan
// without roles has none: its command uses what it finds.
func (p *Plan) IdleNotes() []string {
	if len(p.Roles) == 0 {
		return nil
	}
	var notes []string
	idle := p.idleNodes()
	if len(idle) > 0 {
		notes = append(notes, fmt.Sprintf("%d of %s idle (%s): no server and no client runs there; lower num_nodes, or give a role more nodes",
			len(idle), quantity.Count(p.Job.Nodes, "node"), strings.Join(idle, ", ")))
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		held := len(r.GPUs) * r.Nodes.Count
		if left := held - r.World(); r.Engine && left > 0 {
			mend := "or leave them out of rates per GPU with gpu_ids"
			if r.World() <= len(r.GPUs)*(r.Nodes.Count-1) {
				mend = "or give the role fewer nodes"
			}
			name := r.Name
			if r.Kind != "" {
				name = "each " + r.Kind
			}
			note := fmt.Sprintf("%d of %s of %s idle: TP %d x PP %d x DP %d uses %d; raise TP, PP or DP, %s",
				left, quantity.Count(held, "GPU"), name, max(r.TP, 1), max(r.PP, 1), max(r.DP, 1), r.World(), mend)
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	if left := p.Allocated() - p.held() - len(idle)*p.Job.GPUsPerNode; p.Allocated() > 0 && left > 0 {
		notes = append(notes, fmt.Sprintf("%d of %s idle: no role has them; give them to a role with gpu_ids, or ask for fewer nodes", left, quantity.Count(p.Allocated(), "GPU")))
	}
	return notes
}

// idleNodes are the places in the allocation of nodes that have neither a role nor a
// client.
func (p *Plan) idleNodes() []string {
	used := make([]bool, p.Job.Nodes)
	mark := func(s Slice) {
		for i := s.Offset; i < min(s.End(), len(used)); i++ {
			used[i] = true
		}
	}
	for _, r := range p.Roles {
		mark(r.Nodes)
	}
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			mark(c.Nodes)
		}
	}
	var idle []string
	for i, is := range used {
		if !is {
			idle = append(idle, fmt.Sprintf("node %d", i))
		}
	}
	return idle
}

// held counts the GPUs that roles are given, one that several share once.
func (p *Plan) held() int {
	type gpu struct{ node, id int }
	seen := map[gpu]bool{}
	for _, r := range p.Roles {
		for node := r.Nodes.Offset; node < r.Nodes.End(); node++ {
			for _, id := range r.GPUs {
				seen[gpu{node, id}] = true
			}
		}
	}
	return len(seen)
}
