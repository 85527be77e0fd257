package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/lease"
)

// renewEvery is how often a lease is renewed for commands on other hosts.
const renewEvery = time.Minute

// alone acts while no other command, on any host, does so with the same folder of a lease. what is
// what both would write. The folder stays.
func (a *app) alone(ctx context.Context, dir, what string, act func(context.Context) error) error {
	l, err := lease.Acquire(dir, lease.Options{Now: a.now})
	var held *lease.HeldError
	if errors.As(err, &held) {
		return fail(exitUsage, fmt.Errorf("%s is in use: %w\n\thint: wait for that command, or end it", what, held))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := l.KeepRenewed(ctx, renewEvery, func(err error) {
		if errors.Is(err, lease.ErrLost) {
			cancel(fmt.Errorf("%s: %w", what, err))
		} // else the disk may be back before the lease counts as abandoned
	})
	err = act(ctx)
	stop()
	cancel(nil)
	return errors.Join(err, l.Release())
}
