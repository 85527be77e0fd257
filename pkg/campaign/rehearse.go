package campaign

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

// Rehearsal is how a rehearsal is run.
type Rehearsal struct {
	// simulated time passes so many times faster; 0: such that all takes about a minute
	Speed int
	// is called at the start and the end of each unit, and now and then meanwhile; may be nil
	Progress func(LocalProgress)
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
	return c.runLocal(ctx, p, c.thisMachine(), howLocal{costs: costs, tell: how.Progress})
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
