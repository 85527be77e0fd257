package main

import (
	"context"

	"github.com/profllm/profllm/pkg/campaign"
)

type rehearseCmd struct {
	planFlags
	outputFlag
	Scenario string `arg:"" optional:"" default:"demo" help:"Scenario file or lock file; default: the built-in demonstration."`
}

// Run plans a scenario with the simulated engine and runs each job on this machine.
func (c rehearseCmd) Run(ctx context.Context, a *app) error {
	p, err := a.plan(ctx, c.Scenario, c.planFlags, true)
	if err != nil {
		return err
	}
	doc := newJobs("rehearse")
	doc.Root = p.Root
	a.answers(doc)
	return a.rehearse(ctx, p)
}

// rehearse runs what was planned here, and shows what came of it.
func (a *app) rehearse(ctx context.Context, p *campaign.Planned) error {
	dirs, states, err := a.client().Rehearse(ctx, p)
	if err != nil {
		return err
	}
	return a.report(ctx, a.remember(dirs), dirs, states)
}
