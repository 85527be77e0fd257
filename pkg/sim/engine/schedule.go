package engine

import (
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

// A schedule holds the due times of one request's tokens.
type schedule struct {
	first  time.Duration // due time of token 0, after admission
	itl    time.Duration
	jitter float64
	seed   uint64 // of this request
}

// request returns the schedule of the request with this seed. With resumed the prompt's KV
// cache came from elsewhere, and the first token takes one step.
func request(t knobs.Timing, seed uint64, resumed bool) schedule {
	first := t.TTFT
	if resumed {
		first = t.ITL
	}
	late := 1 + t.Jitter*(2*knobs.Unit(seed, 0)-1)
	return schedule{first: time.Duration(float64(first) * late), itl: t.ITL, jitter: t.Jitter, seed: seed}
}

// due returns when token i is due, counted from admission. It does not depend on when earlier
// tokens went out, so a late token delays no other, and it never decreases: with jitter j a
// token is at most j/2 steps early or late.
func (s schedule) due(i int) time.Duration {
	d := s.first + time.Duration(i)*s.itl
	if i > 0 && s.jitter > 0 {
		d += time.Duration(float64(s.itl) * s.jitter * (knobs.Unit(s.seed, uint64(i)) - 0.5))
	}
	return d
}
