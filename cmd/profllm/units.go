package main

import (
	"context"
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/quantity"
)

// allow says what the runs may use, and refuses what is above the limit.
func (a *app) allow(limit float64, yes bool) func(campaign.Cost) error {
	return func(cost campaign.Cost) error {
		a.logf("%s", costText(cost))
		if cost.NodeHours <= limit || yes {
			return nil
		}
		enough := math.Ceil(cost.NodeHours*10) / 10
		return fail(exitNotSubmit, fmt.Errorf("not submitted: above %g node-hours\n\thint: --yes, or --max-node-hours %g", limit, enough))
	}
}

// costText says what the jobs may use by their time limits. Jobs without one are counted
// as often as they run.
func costText(cost campaign.Cost) string {
	text := quantity.Count(cost.Jobs, "job")
	if cost.Jobs != cost.Runs {
		text = quantity.Count(cost.Runs, "run") + " in " + text
	}
	if cost.NodeHours > 0 {
		text += ", at most " + quantity.NodeHours(cost.NodeHours)
	}
	switch {
	case cost.Unlimited == 0:
	case cost.NodeHours == 0:
		text += ", without a time limit"
	default:
		text += fmt.Sprintf(" and %d without a time limit", cost.Unlimited)
	}
	return text
}

// submit submits a scenario's directory, and waits for its jobs if it shall.
func (a *app) submit(ctx context.Context, root string, f submitFlags) error {
	client := a.client()
	dirs, err := client.Submit(ctx, root, f.Settle)
	if err != nil {
		return err
	}
	return a.follow(ctx, client, root, dirs, f)
}

// follow waits for the jobs of runs if it shall, and tells how they ended.
func (a *app) follow(ctx context.Context, client *campaign.Client, root string, dirs []string, f submitFlags) error {
	if !f.Wait && !f.Watch {
		return nil
	}
	return a.tellEnd(ctx, f.notifyFlags, root, a.wait(ctx, client, dirs, f.Watch))
}
