//go:build !linux

package engine

import (
	"context"
	"errors"
	"time"
)

// HaveLoop says whether this system has an event loop of ours.
const HaveLoop = false

func newLoops(context.Context, *Target) (Engine, error) {
	return nil, errors.New("no event loop on this system")
}

// CPUTime returns 0: unknown here.
func CPUTime() time.Duration { return 0 }
