package main

import "github.com/profllm/profllm/pkg/campaign"

type rehearseCmd struct {
	planFlags
	Scenario string `arg:"" optional:"" default:"demo" help:"Scenario file or lock; default: the built-in demonstration."`
}

// Run plans a scenario with the simulated engine and runs each job on this machine.
func (c rehearseCmd) Run(a *app) error {
	p, err := a.plan(c.Scenario, c.planFlags, true)
	if err != nil {
		return err
	}
	return a.rehearse(p)
}

// rehearse runs what was planned here, and shows what came of it.
func (a *app) rehearse(p *campaign.Planned) error {
	dirs, states, err := a.client().Rehearse(a.ctx, p)
	if err != nil {
		return err
	}
	return a.report(a.remember(dirs), dirs, states, "text")
}
