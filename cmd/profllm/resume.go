package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
)

type resumeCmd struct {
	submitFlags
	placeFlags
	outputFlag
	Failed    bool   `help:"Also resubmit runs that failed, ran out of memory or reached their time limit."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in templates."`
	Root      string `arg:"" optional:"" help:"Directory of a scenario execution, or of one run (then only that run and those that it waits for); default: the only execution in the results folder."`
}

// Run submits exactly what is missing.
func (c resumeCmd) Run(ctx context.Context, a *app) error {
	root, err := c.scenario(ctx, a, c.Root)
	if err != nil {
		return err
	}
	client := a.client()
	rest, err := client.Rest(ctx, root, campaign.ResumeOptions{Failed: c.Failed, Templates: c.Templates})
	if err != nil {
		return a.tellUnsent(ctx, c.submitFlags, filepath.Base(root), root, err)
	}
	doc := document.NewJobs("resume")
	doc.Root = rest.Root
	a.answers(doc)
	for _, why := range slices.Sorted(maps.Keys(rest.Reasons)) {
		doc.Left = append(doc.Left, document.LeftEntry{Runs: rest.Reasons[why], Why: why})
		a.logf("%s %s", quantity.Count(rest.Reasons[why], "run"), why)
	}
	dirs, err := client.SubmitRest(ctx, rest, c.Settle)
	if err != nil {
		return a.tellUnsent(ctx, c.submitFlags, filepath.Base(rest.Root), rest.Root, err)
	}
	return a.follow(ctx, client, rest.Root, dirs, c.submitFlags)
}
