package plan

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// Sized is a key that sizes a role, for complaints that point at it.
type Sized struct {
	Key   string // as a user writes it: decode.tensor_parallel_size
	Value int
	Pos   source.Pos
}

// name is the key without the table that it stands in.
func (s Sized) name() string { return s.Key[strings.LastIndexByte(s.Key, '.')+1:] }

// check refuses a plan that cannot work, with the numbers.
func (p *Plan) check(in Input) error {
	var c source.Complaints
	type use struct{ node, gpu int }
	taken := map[use]*Role{}
	for i := range p.Roles {
		r := &p.Roles[i]
		if r.Nodes.Count < 1 || r.Nodes.Offset < 0 || r.Nodes.End() > p.Job.Nodes {
			c.Addf(in.nodesPos(), "role %q needs nodes %s, but the job has %s", r.Name, r.Nodes,
				quantity.Count(p.Job.Nodes, "node"))
			continue
		}
		c.Add(p.large(in, r))
		for _, gpu := range r.GPUs {
			if most := in.System.GPUsPerNode; most > 0 && gpu >= most {
				c.Add(noGPU(in, r, gpu, most))
			}
			for node := r.Nodes.Offset; node < r.Nodes.End(); node++ {
				if other := taken[use{node, gpu}]; other != nil {
					c.Add(source.Errorf(in.gpusPos(r), "roles %q and %q both use GPU %d of node %d", other.Name, r.Name,
						gpu, node).
						Hintf("give them different gpu_ids, or more nodes"))
				}
				taken[use{node, gpu}] = r
			}
		}
	}
	if ports, err := p.checkPorts(); err != nil {
		c.Add(noSlot(in, ports, err))
	}
	return c.Err()
}

// noSlot refuses ports that no slot makes usable, where the last of them that a test can move is
// written.
func noSlot(in Input, ports []Port, err error) error {
	key, pos := "cmd_args.port", in.Test.CmdArgs.PosOf("port")
	for _, port := range ports {
		if port.Key != "" {
			key, pos = port.Key, port.Pos
		}
	}
	return source.Errorf(pos, "%s: %v", key, err).Hintf("set another %s", key)
}

// large refuses a role whose parallel sizes need more GPUs than it has. The complaint
// points at the largest of them.
func (p *Plan) large(in Input, r *Role) error {
	has, world := len(r.GPUs)*r.Nodes.Count, r.World()
	if !r.Engine || p.SimulatedEngine || world <= has {
		return nil
	}
	largest, sizes := Sized{Pos: in.Test.Pos}, []string(nil)
	for _, s := range r.Sizes {
		if s.Value > 1 {
			sizes = append(sizes, fmt.Sprintf("%s %d", s.name(), s.Value))
		}
		if s.Value > largest.Value {
			largest = s
		}
	}
	what := ""
	if len(r.Sizes) == 0 && world > 1 {
		sizes = []string{fmt.Sprintf("TP %d", max(r.TP, 1)), fmt.Sprintf("PP %d", max(r.PP, 1)),
			fmt.Sprintf("DP %d", max(r.DP, 1))}
	}
	if len(sizes) > 0 {
		what = " (" + strings.Join(sizes, " x ") + ")"
	}
	place := quantity.Count(r.Nodes.Count, "node") + " with " + quantity.Count(len(r.GPUs), "GPU")
	if r.Nodes.Count > 1 {
		place += " each"
	}
	err := source.Errorf(largest.Pos, "role %s needs %s%s, but has %d (%s)", p.instances(r),
		quantity.Count(world, "GPU"), what, has, place)
	switch rest := world / max(largest.Value, 1); {
	case in.System.GPUsPerNode == 0 && r.IDs.Key == "" && in.System.Standalone():
		return err.Hintf("this machine has no NVIDIA GPU that nvidia-smi or NVML sees")
	case in.System.GPUsPerNode == 0 && r.IDs.Key == "":
		return err.Hintf("set gpus_per_node in the system file (%s)", in.System.Pos.File)
	case largest.Key != "" && has >= rest:
		return err.Hintf("write %s = %d or less, or give the role more GPUs or nodes", largest.name(), has/rest)
	}
	return err.Hintf("lower the parallel sizes, or give the role more GPUs or nodes")
}

// instances is a role for messages that hold for all of its instances, which complaints and
// notes therefore say once: "prefill" (each of 4 instances).
func (p *Plan) instances(r *Role) string {
	n := 0
	for i := range p.Roles {
		if p.Roles[i].KindName() == r.KindName() {
			n++
		}
	}
	if n == 1 {
		return fmt.Sprintf("%q", r.Name)
	}
	return fmt.Sprintf("%q (each of %d instances)", r.KindName(), n)
}

// noGPU is the complaint about a GPU that nodes do not have.
func noGPU(in Input, r *Role, gpu, most int) error {
	key := r.IDs.Key
	if key == "" {
		key = "CUDA_VISIBLE_DEVICES"
	}
	return source.Errorf(in.gpusPos(r), "%s names GPU %d, but a node has %s (0-%d)", key, gpu,
		quantity.Count(most, "GPU"), most-1).
		Hintf("name GPUs from 0 to %d, or correct gpus_per_node in the system file (%s)", most-1, in.System.Pos.File)
}

// gpusPos is where the GPUs of a role are named.
func (in Input) gpusPos(r *Role) source.Pos {
	const visible = "CUDA_VISIBLE_DEVICES"
	switch {
	case r.IDs.Key != "":
		return r.IDs.Pos
	case in.Test.Env.Has(visible):
		return in.Test.Env.PosOf(visible)
	case in.System.GlobalEnvVars.Has(visible):
		return in.System.GlobalEnvVars.PosOf(visible)
	}
	return in.Test.Pos
}

// nodesPos is where the number of the test's nodes is said.
func (in Input) nodesPos() source.Pos {
	if in.Test.Table.Has("nodes") {
		return in.Test.PosOf("nodes")
	}
	return in.Test.PosOf("num_nodes")
}
