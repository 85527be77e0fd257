package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// An outage holds the tokens of all sequences back for a moment, counted from the first
// of them. It is safe for concurrent use.
type outage struct {
	knobs.Moment
	begun atomic.Pointer[time.Time]
}

func (o *outage) begin() {
	now := time.Now()
	o.begun.CompareAndSwap(nil, &now)
}

// hold waits for the end of the outage and returns how long that was; ok is false if
// ctx ended before.
func (o *outage) hold(ctx context.Context) (held time.Duration, ok bool) {
	left := o.Within(time.Since(*o.begun.Load()))
	return left, left == 0 || program.Wait(ctx, left)
}
