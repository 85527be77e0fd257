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

// RunHere runs what was planned on this machine, one job after the other but for what ends with
// another: the script that Slurm would run, and stand-ins for srun. It returns the runs and how
// their jobs ended. When ctx ends, so do the jobs.
func (c *Client) RunHere(ctx context.Context, p *Planned, how Here) (dirs []string, states map[string]run.State, err error) {
	p.Local, p.Verb = true, "run"
	if err := p.staged(); err != nil {
		return nil, nil, err
	}
	if err := c.plannedSecrets(p); err != nil {
		return nil, nil, err
	}
	sched := local.New(localJobs(), c.Executable, c.Environ, c.Now)
	sched.GPUs = &local.GPUs{Reader: gpu.Beside(c.Executable), Environ: c.lookup, Patience: how.WaitGPUs,
		Waits: func(text string) { c.progress("%s", text) }}
	return c.runLocal(ctx, p, sched, nil, how.Progress)
}
