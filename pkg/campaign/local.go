package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
)

// LocalProgress is how far the runs on this machine are.
type LocalProgress struct {
	Over, Of int           // runs
	Left     time.Duration // estimated; below zero: nothing is known
	Running  []string      // runs that are not over
	Ended    []Ended       // runs that ended since the last call
}

// String says how far it is, and how long the rest takes.
func (p LocalProgress) String() string {
	far := fmt.Sprintf("%d of %s over", p.Over, quantity.Count(p.Of, "run"))
	if p.Over < p.Of && p.Left >= 0 {
		far += ", " + remaining(p.Left)
	}
	return far
}

// remaining is an estimate of what is left.
func remaining(d time.Duration) string {
	if d < time.Second {
		return "almost done"
	}
	return fmt.Sprintf("about %s left", d.Round(time.Second))
}

// Ended is a run on this machine that is over.
type Ended struct {
	Dir   string
	State run.State
}

// howLocal says how runs on this machine are followed.
type howLocal struct {
	costs []time.Duration                          // the estimates of the runs, in order; nil: there are none
	tell  func(LocalProgress)                      // may be nil
	wait  func(context.Context, run.Outcome) error // returns when a unit is over; nil: the scheduler's
}

// runLocal runs what was planned on this machine, one job after the other but for what ends
// with another.
func (c *Client) runLocal(ctx context.Context, p *Planned, sched *local.Local,
	how howLocal) (dirs []string, states map[string]run.State, err error) {
	if err := c.create(p); err != nil {
		return nil, nil, as(NotSubmitted, err)
	}
	byRun := map[string]time.Duration{}
	for i, r := range p.Runs {
		byRun[r.Plan.Dir] = 0
		if how.costs != nil {
			byRun[r.Plan.Dir] = how.costs[i]
		}
	}
	scenario, err := run.ReadScenario(p.Root)
	if err != nil {
		return nil, nil, err
	}
	r := localRuns{Client: c, sched: sched, submitter: c.submitter(sched, 0), ended: map[string]run.State{},
		clock: newClock(c.Now, how.tell, byRun), wait: how.wait}
	if r.wait == nil {
		r.wait = func(ctx context.Context, o run.Outcome) error {
			_, err := sched.Wait(ctx, o.Submission.JobID)
			return err
		}
	}
	r.clock.unknown = how.costs == nil
	err = r.all(ctx, p.Root, scenario)
	if err != nil { // what is over is told of, and nothing goes on
		given, up := context.WithCancel(ctx)
		up()
		err = errors.Join(err, r.disband(given))
	}
	return r.dirs, r.ended, err
}

// all runs every unit of a scenario.
func (r *localRuns) all(ctx context.Context, root string, scenario run.Scenario) error {
	var late []string // what waits for the company's end
	for _, rel := range scenario.InOrder() {
		unit, err := run.ReadUnit(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		if r.waits(unit) {
			late = append(late, unit.Dir)
		} else if err := r.start(ctx, unit.Dir); err != nil {
			return err
		}
	}
	if err := r.disband(ctx); err != nil {
		return err
	}
	for _, dir := range late {
		if err := r.start(ctx, dir); err != nil {
			return err
		}
	}
	return r.disband(ctx)
}

// localRuns runs units one after the other. The company are those that end when
// others are over, and go on beside them.
type localRuns struct {
	*Client
	sched     *local.Local
	submitter *run.Submitter
	wait      func(context.Context, run.Outcome) error
	company   []run.Outcome
	late      []string             // runs that are kept back until the company is over
	dirs      []string             // of what has run
	ended     map[string]run.State // by run
	clock     *clock
}

// waits reports whether a unit begins only when the company is over, and keeps
// its runs back.
func (r *localRuns) waits(unit *run.Unit) bool {
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
func (r *localRuns) start(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return nil
	}
	o := r.submitter.Submit(ctx, dir)
	var refused *run.RefusedError
	switch {
	case errors.As(o.Err, &refused) && refused.Parent:
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
func (r *localRuns) disband(ctx context.Context) error {
	company := r.company
	r.company = nil
	for _, o := range company {
		if err := r.finish(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// finish waits for the end of a unit.
func (r *localRuns) finish(ctx context.Context, o run.Outcome) error {
	stop := r.clock.begin(o.Unit.Runs())
	err := r.wait(ctx, o)
	stop()
	if err != nil {
		return err
	}
	ended, err := r.states(ctx, r.sched, o.Unit.Runs(), r.JobsOnRecord(o.Unit.Runs()))
	maps.Copy(r.ended, ended)
	r.dirs = append(r.dirs, o.Unit.Runs()...)
	r.clock.end(o.Unit.Runs(), ended)
	return err
}
