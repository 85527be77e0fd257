package campaign

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
)

// localJobs is where this machine keeps what it knows of its rehearsals.
func localJobs() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("profllm-local-%d", os.Getuid()))
}

// Schedulers asks Slurm about Slurm's jobs, and this machine about those of its
// rehearsals.
type Schedulers struct {
	*slurm.Slurm
	local *local.Local
}

// Schedulers are those that this machine can ask.
func (c *Client) Schedulers() Schedulers {
	return Schedulers{c.Slurm(), local.New(localJobs(), "", c.Environ, c.Now)} // which submits nothing
}

// States implements run.Scheduler.
func (s Schedulers) States(ctx context.Context, ids []string) (map[string]run.State, error) {
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
func (s Schedulers) Show(ctx context.Context, ids []string) (map[string]run.State, error) {
	foreign, _ := apart(ids)
	if len(foreign) == 0 {
		return nil, nil
	}
	return s.Slurm.Show(ctx, foreign)
}

// Cancel implements run.Scheduler.
func (s Schedulers) Cancel(ctx context.Context, id string) error {
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
func (s Schedulers) finder(unit string) run.Finder {
	if sc, err := run.ReadScenario(run.Root(unit)); err == nil && sc.Local {
		return s.local
	}
	return s.Slurm
}
