package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
)

// localJobs is where this machine keeps what it knows of its rehearsals.
func localJobs() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("profllm-local-%d", os.Getuid()))
}

// schedulers asks Slurm about Slurm's jobs, and this machine about those of its
// rehearsals.
type schedulers struct {
	*slurm.Slurm
	local *local.Local
}

func (a *app) schedulers() schedulers {
	return schedulers{a.slurm(), local.New(localJobs(), "", a.environ, a.now)} // which submits nothing
}

// States implements run.Scheduler.
func (s schedulers) States(ctx context.Context, ids []string) (map[string]run.State, error) {
	foreign, own := apart(ids)
	states, err := s.Slurm.States(ctx, foreign)
	if err != nil {
		return nil, err
	}
	rehearsed, err := s.local.States(ctx, own)
	maps.Copy(states, rehearsed)
	return states, err
}

// Show implements run.Shower.
func (s schedulers) Show(ctx context.Context, ids []string) (map[string]run.State, error) {
	foreign, _ := apart(ids)
	if len(foreign) == 0 {
		return nil, nil
	}
	return s.Slurm.Show(ctx, foreign)
}

// Cancel implements run.Scheduler.
func (s schedulers) Cancel(ctx context.Context, id string) error {
	if strings.HasPrefix(id, run.LocalPrefix) {
		return s.local.Cancel(ctx, id)
	}
	return s.Slurm.Cancel(ctx, id)
}

// apart tells the ids of rehearsals from those of Slurm's jobs.
func apart(ids []string) (foreign, own []string) {
	for _, id := range ids {
		if strings.HasPrefix(id, run.LocalPrefix) {
			own = append(own, id)
		} else {
			foreign = append(foreign, id)
		}
	}
	return foreign, own
}

// finder looks for the job of an interrupted submission where it was submitted.
func (s schedulers) finder(unit string) run.Finder {
	if sc, err := run.ReadScenario(run.Root(unit)); err == nil && sc.Local {
		return s.local
	}
	return s.Slurm
}

type rehearseCmd struct {
	planFlags
	Scenario string `arg:"" optional:"" default:"demo" help:"Scenario file or lock; default: the built-in demonstration."`
}

// Run plans a scenario with the simulated engine and runs each job on this
// machine, one after the other but for what ends with another: the real script, and
// stand-ins for srun.
func (c rehearseCmd) Run(a *app) error {
	p, err := a.plan(c.Scenario, c.planFlags, true)
	if err != nil {
		return err
	}
	return a.rehearse(p)
}

// rehearse creates what was planned and runs it here.
func (a *app) rehearse(p *planned) error {
	p.Local = true
	if err := a.plannedSecrets(p); err != nil {
		return err
	}
	if err := a.create(p); err != nil {
		return fail(exitNotSubmit, err)
	}
	if err := os.MkdirAll(localJobs(), 0o700); err != nil {
		return err
	}
	binary, err := executable()
	if err != nil {
		return err
	}
	sched := local.New(localJobs(), binary, a.environ, a.now)
	scenario, err := run.ReadScenario(p.Root)
	if err != nil {
		return err
	}
	r := rehearsal{app: a, sched: sched, submitter: a.submitter(sched, 0), ended: map[string]run.State{}}
	var late []string // what waits for the company's end
	for _, rel := range scenario.InOrder() {
		unit, err := run.ReadUnit(filepath.Join(p.Root, rel))
		if err != nil {
			return err
		}
		if r.waits(unit) {
			late = append(late, unit.Dir)
		} else if err := r.start(unit.Dir); err != nil {
			return err
		}
	}
	if err := r.disband(); err != nil {
		return err
	}
	for _, dir := range late {
		if err := r.start(dir); err != nil {
			return err
		}
	}
	if err := r.disband(); err != nil {
		return err
	}
	return a.report(a.remember(r.dirs), r.dirs, r.ended, "text")
}

// rehearsal runs units one after the other. The company are those that end when
// others are over, and go on beside them.
type rehearsal struct {
	*app
	sched     *local.Local
	submitter *run.Submitter
	company   []run.Outcome
	late      []string             // runs that are kept back until the company is over
	dirs      []string             // of what has run
	ended     map[string]run.State // by run
}

// waits reports whether a unit begins only when the company is over, and keeps
// its runs back.
func (r *rehearsal) waits(unit *run.Unit) bool {
	for _, a := range unit.Job().After {
		kept := slices.Contains(r.late, a.Dir)
		for _, o := range r.company {
			kept = kept || a.Type != "after" && slices.Contains(o.Unit.Runs(), a.Dir)
		}
		if kept {
			r.late = append(r.late, unit.Runs()...)
			return true
		}
	}
	return false
}

// start runs a unit to its end, unless it joins the company; after an interrupt
// it does nothing.
func (r *rehearsal) start(dir string) error {
	if r.ctx.Err() != nil {
		return nil
	}
	o := r.submitter.Submit(r.ctx, dir)
	var refused *run.RefusedError
	switch {
	case errors.As(o.Err, &refused) && len(o.Unit.Job().After) > 0:
		r.logf("%s: %v", relative(o.Dir), o.Err)
		return nil
	case o.Err != nil:
		return fail(exitNotSubmit, o.Err)
	}
	r.logf("%s: %s%s", relative(o.Dir), several(o.Unit.Job().Nodes, "simulated node"), prefixed(", ", carries(o.Unit)))
	if len(o.Unit.Job().Until) > 0 {
		r.company = append(r.company, o)
		return nil
	}
	return r.finish(o)
}

// disband waits for the end of the company.
func (r *rehearsal) disband() error {
	for _, o := range r.company {
		if err := r.finish(o); err != nil {
			return err
		}
	}
	r.company = nil
	return nil
}

// finish waits for the end of a unit.
func (r *rehearsal) finish(o run.Outcome) error {
	if _, err := r.sched.Wait(r.ctx, o.Submission.JobID); err != nil {
		return err
	}
	ended, err := r.states(r.sched, o.Unit.Runs(), r.read(o.Unit.Runs()))
	maps.Copy(r.ended, ended)
	r.dirs = append(r.dirs, o.Unit.Runs()...)
	return err
}
