package main

import (
	"context"
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/quantity"
)

type resumeCmd struct {
	submitFlags
	Failed    bool   `help:"Also submit runs again that failed, ran out of memory or reached their time limit."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in ones."`
	Root      string `arg:"" type:"existingdir" help:"Directory of a scenario execution, or of one of its runs: then only that, and what it waits for."`
}

// Run submits exactly what is missing.
func (c resumeCmd) Run(ctx context.Context, a *app) error {
	client := a.client()
	rest, err := client.Rest(ctx, c.Root, campaign.ResumeOptions{Failed: c.Failed, Templates: c.Templates})
	if err != nil {
		return err
	}
	for _, why := range slices.Sorted(maps.Keys(rest.Reasons)) {
		a.logf("%s %s", quantity.Count(rest.Reasons[why], "run"), why)
	}
	dirs, err := client.SubmitRest(ctx, rest, c.Settle)
	if err != nil {
		return err
	}
	return a.follow(ctx, client, rest.Root, dirs, c.submitFlags)
}
