//go:build !linux

package sender

import (
	"context"
	"errors"
	"time"
)

// HaveLoop says whether this system has an event loop of ours.
const HaveLoop = false

func newLoops(context.Context, *Target) (Sender, error) {
	return nil, errors.New("no event loop on this system")
}

// CPUTime returns 0: unknown here.
func CPUTime() time.Duration { return 0 }
