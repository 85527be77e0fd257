package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
)

type rehearseCmd struct {
	planFlags
	Scenario string `arg:"" optional:"" default:"demo" help:"Scenario file; default: the built-in demonstration."`
}

// Run plans a scenario with the simulated engine and runs each job on this
// machine, one after the other: the real script, and stand-ins for srun.
func (c rehearseCmd) Run(a *app) error {
	p, err := a.plan(c.Scenario, c.planFlags, true)
	if err != nil {
		return err
	}
	if err := a.create(p); err != nil {
		return fail(exitNotSubmit, err)
	}
	base := filepath.Join(os.TempDir(), fmt.Sprintf("profllm-local-%d", os.Getuid()))
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	binary, err := executable()
	if err != nil {
		return err
	}
	sched := local.New(base, binary, a.environ, a.now)
	submitter := a.submitter(sched, 0)
	states := map[string]run.State{}
	var dirs []string
	for _, pl := range p.Plans {
		a.logf("%s: %d simulated nodes, %s", pl.Test, pl.Job.Nodes, relative(pl.Dir))
		o := submitter.Submit(a.ctx, pl.Dir)
		if o.Err != nil {
			return fail(exitNotSubmit, o.Err)
		}
		st, err := sched.Wait(a.ctx, o.Submission.JobID)
		if err != nil {
			return err
		}
		states[pl.Dir] = a.settle(pl.Dir, st)
		dirs = append(dirs, pl.Dir)
		if a.ctx.Err() != nil {
			break
		}
	}
	return a.report(dirs, states, "text")
}
