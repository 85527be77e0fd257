package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/profllm/profllm/pkg/campaign"
)

// allow says what the runs may use, and refuses what is above the limit.
func (a *app) allow(limit float64, yes bool) func(campaign.Cost) error {
	return func(cost campaign.Cost) error {
		a.logf("%s", cost)
		if cost.NodeHours <= limit || yes {
			return nil
		}
		enough := math.Ceil(cost.NodeHours*10) / 10
		return fail(exitNotSubmit,
			fmt.Errorf("not submitted: above %g node-hours\n\thint: --yes, or --max-node-hours %g", limit, enough))
	}
}

// submit submits a scenario's directory, and waits for its jobs if it shall.
func (a *app) submit(ctx context.Context, root string, f submitFlags) error {
	client := a.client()
	dirs, err := client.Submit(ctx, root, f.Settle)
	if err != nil {
		return a.tellUnsent(ctx, f, filepath.Base(root), root, err)
	}
	return a.follow(ctx, client, root, dirs, f)
}

// follow waits for the jobs of runs if it shall, and tells how they ended.
func (a *app) follow(ctx context.Context, client *campaign.Client, root string, dirs []string, f submitFlags) error {
	if !f.Wait && !f.Watch {
		return nil
	}
	return a.tellEnd(ctx, f.notifyFlags, root, a.wait(ctx, client, dirs, f))
}
