package campaign

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// Serving is how the servers of a run are kept up.
type Serving struct {
	WaitGPUs time.Duration            // on this machine: how long it waits for free GPUs
	Progress func(LocalProgress)      // on this machine: as of [Here]
	Ready    func(*run.Serving) error // is called once they are ready; an error of it stops them
	Down     func()                   // is called once they are asked to stop, or are gone; only after Ready
}

// ServeHere keeps the servers of the one run that was planned up on this machine until ctx ends,
// and then asks the job to stop them. If they are not ready by then, the job is cancelled. The job
// also ends when this process does, however it ends.
func (c *Client) ServeHere(ctx context.Context, p *Planned,
	how Serving) (dirs []string, states map[string]run.State, err error) {
	if err := c.readyHere(p, "serve"); err != nil {
		return nil, nil, err
	}
	sched := c.withGPUs(how.WaitGPUs)
	sched.Attached = true
	wait := func(ctx context.Context, o run.Outcome) error {
		id := o.Submission.JobID
		return c.keepUp(ctx, o.Unit.Dir, id, how, func(ctx context.Context) error {
			_, err := sched.Wait(ctx, id)
			return err
		})
	}
	return c.runLocal(ctx, p, sched, howLocal{tell: how.Progress, wait: wait})
}

// ServeOnSlurm is [Client.ServeHere] with a job of Slurm. That job goes on if this process is
// killed, until its time limit.
func (c *Client) ServeOnSlurm(ctx context.Context, p *Planned,
	how Serving) (dirs []string, states map[string]run.State, err error) {
	if err := c.BeginAnew(p, func(Cost) error { return nil }); err != nil {
		return nil, nil, err
	}
	if dirs, err = c.Submit(ctx, p.Root, 0); err != nil {
		return dirs, nil, err
	}
	jobs := c.JobsOnRecord(dirs)
	err = c.keepUp(ctx, dirs[0], jobs[dirs[0]].JobID, how, func(ctx context.Context) error {
		var followed error
		if states, followed = c.Follow(ctx, dirs, jobs, nil); followed == nil {
			return nil
		}
		out, err := c.Cancel(context.WithoutCancel(ctx), dirs)
		if states = out.States; ctx.Err() != nil {
			followed = nil // who asked for the end says so
		}
		return errors.Join(followed, err)
	})
	return dirs, states, err
}

// keepUp waits for the end of a job that only serves. When ctx ends, it asks the job to stop; the
// context of the wait ends then only if the servers are not ready.
func (c *Client) keepUp(ctx context.Context, dir, jobID string, how Serving, wait func(context.Context) error) error {
	waiting, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	over := make(chan struct{})
	var looking sync.WaitGroup
	var failed error
	looking.Go(func() {
		s := c.awaitServing(ctx, dir, jobID, over)
		if s == nil {
			giveUp()
			return
		}
		if failed = how.Ready(s); failed == nil {
			defer how.Down()
			select {
			case <-ctx.Done():
			case <-over:
				return
			}
		}
		if err := run.RequestStop(dir, c.Now()); err != nil {
			failed = errors.Join(failed, err)
			giveUp()
		}
	})
	err := wait(waiting)
	close(over)
	looking.Wait()
	return errors.Join(err, failed)
}

// servingLook is the pause between two looks for servers that are not ready.
const servingLook = 200 * time.Millisecond

// awaitServing returns where the servers of a job are, once they are ready; nil if ctx ends or the
// job is over before.
func (c *Client) awaitServing(ctx context.Context, dir, jobID string, over <-chan struct{}) *run.Serving {
	tick := time.NewTicker(servingLook)
	defer tick.Stop()
	for {
		if s, err := run.ReadServing(dir, jobID); err == nil && s != nil {
			return s
		}
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		case <-tick.C:
		}
	}
}
