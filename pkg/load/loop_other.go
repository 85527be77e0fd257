//go:build !linux

package load

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// haveLoop says whether this system has an event loop of ours.
const haveLoop = false

func newLoops(context.Context, *Options, *url.URL, int) (engine, error) {
	return nil, errors.New("no event loop on this system")
}

// cpuTime returns 0: unknown here.
func cpuTime() time.Duration { return 0 }
