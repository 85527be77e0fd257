package plan

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/source"
)

// Slots is the number of port slots. A job takes one; every port of the job
// moves with it, so that jobs on one node do not meet.
const Slots = 100

// PortRange is a range of ports with both ends.
type PortRange struct{ Low, High int }

// Has reports whether the range has a port.
func (r PortRange) Has(port int) bool { return port >= r.Low && port <= r.High }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.Low, r.High) }

var (
	// rayWorkers are the ports of Ray's worker processes (`ray start --min-worker-port`,
	// `--max-worker-port`, Ray 2.x).
	rayWorkers = PortRange{10002, 19999}

	// Ephemeral are the ports that Linux takes for outgoing connections, unless a node
	// has another net.ipv4.ip_local_port_range.
	Ephemeral = PortRange{32768, 60999}
)

// Port is Count consecutive ports that a role listens on. In slot s the first
// is Base + s*Step. On Kubernetes, where nobody else is on a pod's network, Step is 0.
type Port struct {
	Name  string `json:"name"`
	Base  int    `json:"base"`
	Step  int    `json:"step"`
	Count int    `json:"count"`
	Role  string `json:"role"` // on whose nodes it must be free

	Key string     `json:"-"` // the key that sets its base, "": cmd_args.port
	Pos source.Pos `json:"-"` // where that is written
}

// String is the first port number before the slot is known: 8300 + slot.
func (p Port) String() string {
	switch p.Step {
	case 0:
		return fmt.Sprint(p.Base)
	case 1:
		return fmt.Sprintf("%d + slot", p.Base)
	}
	return fmt.Sprintf("%d + %d x slot", p.Base, p.Step)
}

// PortNamed returns the port of a name.
func (p *Plan) PortNamed(name string) (Port, bool) {
	i := slices.IndexFunc(p.Ports, func(x Port) bool { return x.Name == name })
	if i < 0 {
		return Port{}, false
	}
	return p.Ports[i], true
}

// At returns the first port number in a slot.
func (p Port) At(slot int) int { return p.Base + slot*p.Step }

// FirstSlot is where a job begins to look for a free slot. Neighbouring job IDs
// land far apart: 7919 is a prime that is no divisor of Slots.
func FirstSlot(jobID int) int {
	return int((int64(jobID)%Slots + Slots) % Slots * 7919 % Slots)
}

// UsableSlot says why a slot cannot be used, or nil: a port outside 1024-65535,
// in Ray's worker range on a node of Ray's, or used twice on one node by the plan itself.
func (p *Plan) UsableSlot(slot int) error {
	_, err := p.badPorts(slot)
	return err
}

// badPorts says why a slot cannot be used, and which ports are in the way.
func (p *Plan) badPorts(slot int) ([]Port, error) {
	owners := map[int][]Port{}
	for _, port := range p.Ports {
		ray := p.besideRay(port)
		for n := port.At(slot); n < port.At(slot)+port.Count; n++ {
			switch {
			case n < 1024 || n > 65535:
				return []Port{port}, fmt.Errorf("port %q is %d, outside 1024-65535", port.Name, n)
			case ray != "" && rayWorkers.Has(n):
				return []Port{port}, fmt.Errorf("port %q is %d, in the range %s of Ray's workers, which run on the nodes of %q",
					port.Name, n, rayWorkers, ray)
			}
			for _, other := range owners[n] {
				if p.meet(other.Role, port.Role) {
					return []Port{other, port}, fmt.Errorf("ports %q and %q are both %d", other.Name, port.Name, n)
				}
			}
			owners[n] = append(owners[n], port)
		}
	}
	return nil, nil
}

// UsableSlots lists the usable slots from first on, in a ring. Those without a port in
// the range Ephemeral come before the others.
func (p *Plan) UsableSlots(first int) []int {
	var safe, risky []int
	for i := range Slots {
		slot := (first + i) % Slots
		switch {
		case p.UsableSlot(slot) != nil:
		case p.portIn(slot, Ephemeral) != nil:
			risky = append(risky, slot)
		default:
			safe = append(safe, slot)
		}
	}
	return append(safe, risky...)
}

// portIn is a port that lies in a range in a slot, or nil.
func (p *Plan) portIn(slot int, r PortRange) *Port {
	for i, port := range p.Ports {
		if low := port.At(slot); low <= r.High && low+port.Count-1 >= r.Low {
			return &p.Ports[i]
		}
	}
	return nil
}

// besideRay is the name of a role that runs Ray on a node of the port, or "".
func (p *Plan) besideRay(port Port) string {
	for _, r := range p.Roles {
		if r.Ray && p.meet(port.Role, r.Name) {
			return r.Name
		}
	}
	return ""
}

// meet reports whether two roles may share a node.
func (p *Plan) meet(a, b string) bool {
	x, y := p.Role(a), p.Role(b)
	return x == nil || y == nil || x.Nodes.Offset < y.Nodes.End() && y.Nodes.Offset < x.Nodes.End()
}

// checkPorts refuses a plan for which no slot is usable, with the ports that are in the way, and notes if every usable
// slot has a port that an outgoing connection may take.
func (p *Plan) checkPorts() ([]Port, error) {
	var risky *Port
	for slot := range Slots {
		if p.UsableSlot(slot) != nil {
			continue
		}
		in := p.portIn(slot, Ephemeral)
		if in == nil {
			return nil, nil
		}
		if risky == nil {
			risky = in
		}
	}
	if risky == nil {
		ports, err := p.badPorts(0)
		return ports, fmt.Errorf("none of the %d port slots is usable: %w", Slots, err)
	}
	p.Notes = append(p.Notes, fmt.Sprintf("port %q is %d plus the job's slot (0-%d), but Linux uses ports %s for outgoing connections by default, so one of these may take the port before the server starts",
		risky.Name, risky.Base, Slots-1, Ephemeral))
	return nil, nil
}
