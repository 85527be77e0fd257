package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/lease"
)

// alone acts while no other command, on any host, does so with the same folder of a lease. what is
// what both would write. The folder stays.
func (a *app) alone(ctx context.Context, dir, what string, act func(context.Context) error) error {
	ctx, release, err := lease.Hold(ctx, dir, what, lease.Options{Now: a.now})
	var held *lease.HeldError
	if errors.As(err, &held) {
		return fail(exitUsage, fmt.Errorf("%s is in use: %w\n\thint: wait for that command, or end it", what, held))
	}
	if err != nil {
		return err
	}
	return errors.Join(act(ctx), release())
}
