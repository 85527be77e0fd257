package main

import (
	"errors"
	"fmt"
	"maps"
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
	scenario, err := run.ReadScenario(p.Root)
	if err != nil {
		return err
	}
	submitter := a.submitter(sched, 0)
	states := map[string]run.State{}
	var dirs []string
	for _, rel := range scenario.InOrder() {
		o := submitter.Submit(a.ctx, filepath.Join(p.Root, rel))
		var refused *run.RefusedError
		switch {
		case errors.As(o.Err, &refused) && len(o.Unit.Job().After) > 0:
			a.logf("%s: %v", relative(o.Dir), o.Err)
			continue
		case o.Err != nil:
			return fail(exitNotSubmit, o.Err)
		}
		a.logf("%s: %d simulated nodes%s", relative(o.Dir), o.Unit.Job().Nodes, prefixed(", ", carries(o.Unit)))
		if _, err := sched.Wait(a.ctx, o.Submission.JobID); err != nil {
			return err
		}
		ended, err := a.states(sched, o.Unit.Runs(), a.read(o.Unit.Runs()))
		if err != nil {
			return err
		}
		maps.Copy(states, ended)
		dirs = append(dirs, o.Unit.Runs()...)
		if a.ctx.Err() != nil {
			break
		}
	}
	return a.report(dirs, states, "text")
}
