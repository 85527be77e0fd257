package campaign

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
	"github.com/profllm/profllm/pkg/scheduler/local"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
)

// thisMachine runs jobs on this machine.
func (c *Client) thisMachine() *local.Local {
	return local.New(os.TempDir(), c.Executable, c.Environ, c.Now)
}

// Schedulers asks Slurm about Slurm's jobs, a cluster of Kubernetes about its Jobs, and this machine
// about those of its rehearsals.
type Schedulers struct {
	*slurm.Slurm
	local *local.Local
	kube  *kube.Kube
}

// Schedulers are those that this machine can ask.
func (c *Client) Schedulers() Schedulers {
	cluster := kube.New(c.Environ, c.Now)
	cluster.Judge = c.judgeFetched
	return Schedulers{c.Slurm(), c.thisMachine(), cluster}
}

// States implements run.Scheduler.
func (s Schedulers) States(ctx context.Context, ids []string) (map[string]run.State, error) {
	all := map[string]run.State{}
	foreign, own, jobs := apart(ids)
	for _, one := range []struct {
		ids []string
		ask func(context.Context, []string) (map[string]run.State, error)
	}{{foreign, s.Slurm.States}, {own, s.local.States}, {jobs, s.kube.States}} {
		states, err := one.ask(ctx, one.ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, states)
	}
	return all, nil
}

// Show implements run.Shower.
func (s Schedulers) Show(ctx context.Context, ids []string) (map[string]run.State, error) {
	foreign, _, _ := apart(ids)
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
	if strings.HasPrefix(id, run.KubePrefix) {
		return s.kube.Cancel(ctx, id)
	}
	return s.Slurm.Cancel(ctx, id)
}

// apart tells the ids of Slurm's jobs from those of rehearsals and of Jobs of Kubernetes.
func apart(ids []string) (foreign, own, jobs []string) {
	for _, id := range ids {
		switch {
		case strings.HasPrefix(id, run.LocalPrefix):
			own = append(own, id)
		case strings.HasPrefix(id, run.KubePrefix):
			jobs = append(jobs, id)
		default:
			foreign = append(foreign, id)
		}
	}
	return foreign, own, jobs
}

// Submit implements run.Scheduler.
func (s Schedulers) Submit(ctx context.Context, r run.Request) (run.Submission, error) {
	if filepath.Base(r.Script) == run.ManifestFile {
		return s.kube.Submit(ctx, r)
	}
	return s.Slurm.Submit(ctx, r)
}

// FindJob implements run.Finder.
func (s Schedulers) FindJob(ctx context.Context, name string, since time.Time,
	besides ...string) (id string, found bool, err error) {
	if s.kube.Knows(name) {
		return s.kube.FindJob(ctx, name, since, besides...)
	}
	return s.Slurm.FindJob(ctx, name, since, besides...)
}

// finder looks for the job of an interrupted submission where it was submitted.
func (s Schedulers) finder(unit string) run.Finder {
	if sc, err := run.ReadScenario(run.Root(unit)); err == nil && sc.Local {
		return s.local
	}
	return s
}
