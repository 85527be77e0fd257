package campaign

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
)

// Rehearse runs what was planned on this machine, one job after the other but for what ends
// with another: the real script, and stand-ins for srun. It returns the runs and how their
// jobs ended.
func (c *Client) Rehearse(ctx context.Context, p *Planned) (dirs []string, states map[string]run.State, err error) {
	p.Local = true
	if err := c.plannedSecrets(p); err != nil {
		return nil, nil, err
	}
	if err := c.create(p); err != nil {
		return nil, nil, as(NotSubmitted, err)
	}
	if err := os.MkdirAll(localJobs(), 0o700); err != nil {
		return nil, nil, err
	}
	scenario, err := run.ReadScenario(p.Root)
	if err != nil {
		return nil, nil, err
	}
	sched := local.New(localJobs(), c.Executable, c.Environ, c.Now)
	r := rehearsal{Client: c, sched: sched, submitter: c.submitter(sched, 0), ended: map[string]run.State{}}
	var late []string // what waits for the company's end
	for _, rel := range scenario.InOrder() {
		unit, err := run.ReadUnit(filepath.Join(p.Root, rel))
		if err != nil {
			return nil, nil, err
		}
		if r.waits(unit) {
			late = append(late, unit.Dir)
		} else if err := r.start(ctx, unit.Dir); err != nil {
			return nil, nil, err
		}
	}
	if err := r.disband(ctx); err != nil {
		return nil, nil, err
	}
	for _, dir := range late {
		if err := r.start(ctx, dir); err != nil {
			return nil, nil, err
		}
	}
	err = r.disband(ctx)
	return r.dirs, r.ended, err
}

// rehearsal runs units one after the other. The company are those that end when
// others are over, and go on beside them.
type rehearsal struct {
	*Client
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
func (r *rehearsal) start(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return nil
	}
	o := r.submitter.Submit(ctx, dir)
	var refused *run.RefusedError
	switch {
	case errors.As(o.Err, &refused) && len(o.Unit.Job().After) > 0:
		r.progress("%s: %v", r.relative(o.Dir), o.Err)
		return nil
	case o.Err != nil:
		return as(NotSubmitted, o.Err)
	}
	r.Events.Submitted(o)
	if len(o.Unit.Job().Until) > 0 {
		r.company = append(r.company, o)
		return nil
	}
	return r.finish(ctx, o)
}

// disband waits for the end of the company.
func (r *rehearsal) disband(ctx context.Context) error {
	for _, o := range r.company {
		if err := r.finish(ctx, o); err != nil {
			return err
		}
	}
	r.company = nil
	return nil
}

// finish waits for the end of a unit.
func (r *rehearsal) finish(ctx context.Context, o run.Outcome) error {
	if _, err := r.sched.Wait(ctx, o.Submission.JobID); err != nil {
		return err
	}
	ended, err := r.states(ctx, r.sched, o.Unit.Runs(), r.JobsOnRecord(o.Unit.Runs()))
	maps.Copy(r.ended, ended)
	r.dirs = append(r.dirs, o.Unit.Runs()...)
	return err
}
