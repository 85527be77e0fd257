package plan

import "fmt"

// Slots is the number of port slots. A job takes one; every port of the job
// moves with it, so that jobs on one node do not meet.
const Slots = 100

// rayWorkers is the range from which Ray takes ports for its worker processes
// (`ray start --min-worker-port`, `--max-worker-port`, Ray 2.x).
var rayWorkers = struct{ lo, hi int }{10002, 19999}

// Port is Count consecutive ports that a role listens on. In slot s the first
// is Base + s*Step.
type Port struct {
	Name  string `json:"name"`
	Base  int    `json:"base"`
	Step  int    `json:"step"`
	Count int    `json:"count"`
	Role  string `json:"role"` // on whose nodes it must be free
}

// At returns the first port number in a slot.
func (p Port) At(slot int) int { return p.Base + slot*p.Step }

// FirstSlot is where a job begins to look for a free slot. Neighbouring job IDs
// land far apart: 7919 is a prime that is no divisor of Slots.
func FirstSlot(jobID int) int {
	return int((int64(jobID)%Slots + Slots) % Slots * 7919 % Slots)
}

// UsableSlot says why a slot cannot be used, or nil: a port outside 1024-65535,
// in Ray's worker range, or used twice on one node by the plan itself.
func (p *Plan) UsableSlot(slot int) error {
	owners := map[int][]Port{}
	for _, port := range p.Ports {
		for n := port.At(slot); n < port.At(slot)+port.Count; n++ {
			switch {
			case n < 1024 || n > 65535:
				return fmt.Errorf("port %q is %d, outside 1024-65535", port.Name, n)
			case n >= rayWorkers.lo && n <= rayWorkers.hi:
				return fmt.Errorf("port %q is %d, inside Ray's worker range %d-%d", port.Name, n, rayWorkers.lo, rayWorkers.hi)
			}
			for _, other := range owners[n] {
				if p.meet(other, port) {
					return fmt.Errorf("ports %q and %q are both %d", other.Name, port.Name, n)
				}
			}
			owners[n] = append(owners[n], port)
		}
	}
	return nil
}

// meet reports whether two ports may be opened on one node.
func (p *Plan) meet(a, b Port) bool {
	x, y := p.Role(a.Role), p.Role(b.Role)
	return x == nil || y == nil || x.Nodes.Offset < y.Nodes.End() && y.Nodes.Offset < x.Nodes.End()
}

// checkPorts refuses a plan for which no slot is usable.
func (p *Plan) checkPorts() error {
	var first error
	for slot := range Slots {
		err := p.UsableSlot(slot)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("none of the %d port slots can be used: %w", Slots, first)
}
