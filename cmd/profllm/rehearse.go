package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/terminal"
)

type rehearseCmd struct {
	planFlags
	outputFlag
	Scenario    string `arg:"" meant:"test-scenario" optional:"" default:"demo" help:"Scenario file, lock file, or demo (the built-in demonstration); default: demo."`
	Speed       *int   `placeholder:"N" help:"Let simulated time pass N times faster; default: such that the rehearsal takes about a minute, at least 1."`
	GPUsPerNode *int   `name:"gpus-per-node" placeholder:"N" help:"Give each simulated node N GPUs; default: gpus_per_node of the system, 4 without one."`
	Nodes       *int   `placeholder:"N" help:"Refuse tests that need more than N nodes; default: no limit."`
}

// Validate refuses numbers that mean nothing.
func (c rehearseCmd) Validate() error {
	return cmp.Or(atMost("speed", c.Speed, knobs.MaxSpeed), atMost("gpus-per-node", c.GPUsPerNode, knobs.MaxGPUs),
		atMost("nodes", c.Nodes, maxNodes))
}

// atMost refuses a number of a flag that is not from 1 to most.
func atMost(name string, n *int, most int) error {
	if n != nil && (*n < 1 || *n > most) {
		return fmt.Errorf("--%s is %d, must be from 1 to %d", name, *n, most)
	}
	return nil
}

// maxNodes is how many addresses 127.0.1.1 and the following have.
const maxNodes = 60000

// Run plans a scenario with the simulated engine and runs each job on this machine.
func (c rehearseCmd) Run(ctx context.Context, a *app) error {
	o, err := c.options(true)
	if err != nil {
		return err
	}
	o.GPUsPerNode, o.Nodes = given(c.GPUsPerNode), given(c.Nodes)
	p, err := a.client().Plan(ctx, c.Scenario, o)
	if err != nil {
		return err
	}
	doc := document.NewJobs("rehearse")
	a.answers(doc)
	err = a.rehearse(ctx, p, given(c.Speed))
	doc.Root = p.Root // the name may have been taken since it was planned
	return err
}

// given is the number of a flag; 0 if it was not given.
func given(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// rehearse runs what was planned here, and shows what came of it.
func (a *app) rehearse(ctx context.Context, p *campaign.Planned, speed int) error {
	return a.local(ctx, func(c *campaign.Client, tell func(campaign.LocalProgress)) ([]string, map[string]run.State, error) {
		return c.Rehearse(ctx, p, campaign.Rehearsal{Speed: speed, Progress: tell})
	}, func() string { return p.Root })
}

// next says what to type after runs on this machine.
func (a *app) next(root string, dirs []string, states map[string]run.State) {
	if len(dirs) == 0 {
		return
	}
	a.logf("report: profllm report %s", relative(root))
	fine := []string{run.Succeeded, run.Cancelled}
	failed := slices.IndexFunc(dirs, func(dir string) bool {
		return !slices.Contains(fine, states[dir].State) && !states[dir].JudgedInvalid()
	})
	invalid := slices.IndexFunc(dirs, func(dir string) bool { return states[dir].JudgedInvalid() })
	switch {
	case failed >= 0:
		a.logf("failed run: profllm why %s", relative(dirs[failed]))
	case invalid >= 0:
		a.logf("invalid run: profllm why %s", relative(dirs[invalid]))
	}
}

// ended is the word for what became of a run, in agreement with the exit code.
func ended(s run.State) string {
	if s.JudgedInvalid() {
		return string(result.VerdictInvalid)
	}
	return s.State
}

// progressLine says how far runs on this machine are: on a terminal in a line at its bottom, elsewhere in
// a line for each run that is over.
type progressLine struct {
	*terminal.StatusLine
	terminal bool
	now      func() time.Time
}

func (l progressLine) show(p campaign.LocalProgress) {
	for _, e := range p.Ended {
		if !l.terminal || e.State.State != run.Succeeded {
			fmt.Fprintf(l, "%s: %s (%s)\n", relative(e.Dir), ended(e.State), p)
		}
	}
	if l.terminal {
		l.Set(p.String() + l.doing(p.Running))
	}
}
