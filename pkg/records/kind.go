package records

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Kind tells numbers that are no measurements of an engine: runs of such a kind are
// compared with their like only.
type Kind string

// The kinds. A rehearsal whose simulated time passed 20 times faster is of the kind
// "simulated 20x".
const (
	Measured  Kind = ""
	Simulated Kind = "simulated"
	Profiled  Kind = "profiled"
)

// KindOf is the kind of a record's numbers.
func KindOf(r *result.Result) Kind {
	switch {
	case r.Simulated && r.SimulatedSpeed > 1:
		return Simulated + Kind(fmt.Sprintf(" %dx", r.SimulatedSpeed))
	case r.Simulated:
		return Simulated
	case r.Profiling != nil && r.Profiling.Enabled:
		return Profiled
	}
	return Measured
}

// Simulated reports whether the engine was simulated, at whatever speed.
func (k Kind) Simulated() bool {
	return k == Simulated || strings.HasPrefix(string(k), string(Simulated)+" ")
}

// Speed is how many times faster simulated time passed.
func (k Kind) Speed() int {
	n := 1
	fmt.Sscanf(string(k), string(Simulated)+" %dx", &n) // 1 stays where none is named
	return n
}

// Alike reports whether both are simulated, or of one kind.
func (k Kind) Alike(other Kind) bool { return k == other || k.Simulated() && other.Simulated() }

// Word is the kind in a word, also that of measurements.
func (k Kind) Word() string {
	if k == Measured {
		return "measured"
	}
	return string(k)
}

// Suffix is the kind in parentheses, to follow a name; "" for measurements.
func (k Kind) Suffix() string {
	if k == Measured {
		return ""
	}
	return fmt.Sprintf(" (%s)", k)
}
