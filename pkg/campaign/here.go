package campaign

import (
	"context"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
)

// Here is how runs on this machine are made.
type Here struct {
	WaitGPUs time.Duration       // how long a run waits for free GPUs
	Progress func(LocalProgress) // is called at the start and the end of each unit, and now and then meanwhile; may be nil
}

// RunHere runs what was planned on this machine, or in the allocation that its shell holds, one job
// after the other but for what ends with another: the script that Slurm would run, and stand-ins for srun. It returns the runs and how
// their jobs ended. When ctx ends, so do the jobs.
func (c *Client) RunHere(ctx context.Context, p *Planned, how Here) (dirs []string, states map[string]run.State, err error) {
	if err := c.readyHere(p, "run"); err != nil {
		return nil, nil, err
	}
	if p.Held != nil {
		sched, err := c.allocation(p.Held)
		if err != nil {
			return nil, nil, err
		}
		return c.runLocal(ctx, p, sched, howLocal{tell: how.Progress})
	}
	return c.runLocal(ctx, p, c.withGPUs(how.WaitGPUs), howLocal{tell: how.Progress})
}

// allocation runs jobs as steps of an allocation that the shell holds.
func (c *Client) allocation(h *Held) (*local.Local, error) {
	if err := h.programs(); err != nil {
		return nil, err
	}
	sched := c.thisMachine()
	sched.Hold(h.Job, c.Environ)
	return sched, nil
}

// readyHere refuses what cannot run on this machine, before anything is written. verb is the command
// that runs it.
func (c *Client) readyHere(p *Planned, verb string) error {
	p.Local, p.Verb = true, verb
	if err := p.staged(); err != nil {
		return err
	}
	return c.plannedSecrets(p)
}

// withGPUs is this machine with its GPUs, for which a job waits so long.
func (c *Client) withGPUs(patience time.Duration) *local.Local {
	for _, err := range local.Ignored() {
		c.progress("leases that do not count: %v", err)
	}
	sched := c.thisMachine()
	sched.GPUs = &local.GPUs{Reader: gpu.Beside(c.Executable), Environ: c.lookup, Patience: patience,
		Waits: func(text string) { c.progress("%s", text) }}
	return sched
}
