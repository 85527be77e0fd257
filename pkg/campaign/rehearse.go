package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

// Rehearsal is how a rehearsal is run.
type Rehearsal struct {
	// simulated time passes so many times faster; 0: such that all takes about a minute
	Speed int
	// is called at the start and the end of each unit, and now and then meanwhile; may be nil
	Progress func(RehearsalProgress)
}

// RehearsalProgress is how far a rehearsal is.
type RehearsalProgress struct {
	Over, Of int           // runs
	Left     time.Duration // estimated
	Ended    []Ended       // runs that ended since the last call
}

// String says how far it is, and how long the rest takes.
func (p RehearsalProgress) String() string {
	far := fmt.Sprintf("%d of %s over", p.Over, quantity.Count(p.Of, "run"))
	if p.Over < p.Of {
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

// Ended is a run of a rehearsal that is over.
type Ended struct {
	Dir   string
	State run.State
}

// Rehearse runs what was planned on this machine, one job after the other but for what ends
// with another: the real script, and stand-ins for srun. It returns the runs and how their
// jobs ended.
func (c *Client) Rehearse(ctx context.Context, p *Planned,
	how Rehearsal) (dirs []string, states map[string]run.State, err error) {
	p.Local = true
	if err := c.plannedSecrets(p); err != nil {
		return nil, nil, err
	}
	costs, err := c.setSpeed(p, how.Speed)
	if err != nil {
		return nil, nil, err
	}
	if err := c.create(p); err != nil {
		return nil, nil, as(NotSubmitted, err)
	}
	byRun := map[string]time.Duration{}
	for i, r := range p.Runs {
		byRun[r.Plan.Dir] = costs[i]
	}
	if err := os.MkdirAll(localJobs(), 0o700); err != nil {
		return nil, nil, err
	}
	scenario, err := run.ReadScenario(p.Root)
	if err != nil {
		return nil, nil, err
	}
	sched := local.New(localJobs(), c.Executable, c.Environ, c.Now)
	r := rehearsal{Client: c, sched: sched, submitter: c.submitter(sched, 0), ended: map[string]run.State{},
		clock: newClock(c.Now, how.Progress, byRun)}
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

// setSpeed chooses the speed if nobody did, writes it into the plans, and says how long
// all takes. It returns how long each run does.
func (c *Client) setSpeed(p *Planned, speed int) ([]time.Duration, error) {
	var all cost
	costs := make([]cost, len(p.Runs))
	timed := map[string]bool{}
	for i := range p.Runs {
		pl := p.Runs[i].Plan
		one, err := c.estimate(pl)
		if err != nil {
			return nil, as(Usage, fmt.Errorf("test %s: %w", pl.Test, err))
		}
		if len(pl.Job.Until) > 0 {
			one = cost{} // it goes on beside others
		}
		costs[i], all = one, all.plus(one)
		_, env := c.knobs(pl)
		for _, name := range knobs.TimedFaults(env(knobs.FaultsVar)) {
			timed[name] = true
		}
	}
	speed = cmp.Or(speed, p.Speed)
	switch {
	case speed != 0:
	case len(timed) > 0:
		speed = 1
		if all.at(1) > aboutMinute {
			c.note("a planted fault is a time (%s), so the rehearsal runs at speed 1\n\thint: --speed N makes it faster, and divides the times of faults by N as well",
				strings.Join(slices.Sorted(maps.Keys(timed)), ", "))
		}
	default:
		speed = chosenSpeed(all)
	}
	took := make([]time.Duration, len(costs))
	for i, one := range costs {
		took[i] = one.at(speed)
	}
	for i := range p.Runs {
		pl := p.Runs[i].Plan
		pl.Rehearsal = &plan.Rehearsal{Speed: speed,
			Ready: plan.Seconds(ReadyLimit + c.startup(pl)/time.Duration(speed))}
	}
	c.progress("rehearsal of %s: %s%s", quantity.Count(len(p.Runs), "run"), about(all.at(speed)), spedUp(speed, all))
	return took, nil
}

// spedUp says what a speed means; "" for 1.
func spedUp(speed int, all cost) string {
	if speed == 1 {
		return ""
	}
	return fmt.Sprintf(" at speed %d: simulated times are %d times shorter (%s at --speed 1)", speed, speed,
		about(all.at(1)))
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
	clock     *clock
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
	stop := r.clock.begin(o.Unit.Runs())
	_, err := r.sched.Wait(ctx, o.Submission.JobID)
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
