package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// keepFlag is of commands that delete what finished runs have in a cluster.
type keepFlag struct {
	Keep bool `help:"Keep the objects of finished runs in the cluster."`
}

// freeing has what a run has in a cluster deleted as soon as the run is over, so that its GPUs are free
// for the runs that wait. show, which may be nil, is called as before.
func (a *app) freeing(ctx context.Context, client *campaign.Client, jobs map[string]run.Submission,
	show func(map[string]run.State)) func(map[string]run.State) {
	if !onCluster(jobs) {
		return show
	}
	tried := map[string]bool{}
	return func(states map[string]run.State) {
		if show != nil {
			show(states)
		}
		for dir, st := range states {
			if !st.Final() || tried[dir] {
				continue
			}
			tried[dir] = true
			if err := client.Clean(context.WithoutCancel(ctx), []string{dir}, jobs, states); err != nil {
				a.logf("%v", err) // tried again at the end
			}
		}
	}
}

// onCluster reports whether one of the jobs is a Job of Kubernetes.
func onCluster(jobs map[string]run.Submission) bool {
	for _, sub := range jobs {
		if strings.HasPrefix(sub.JobID, run.KubePrefix) {
			return true
		}
	}
	return false
}

// clean deletes what runs that are over have in a cluster, by what is on record of their ends.
func (a *app) clean(ctx context.Context, dirs []string, f keepFlag) error {
	if f.Keep {
		return nil
	}
	client := a.client()
	jobs, states := onRecord(client, dirs)
	return fail(exitNotOver, client.Clean(context.WithoutCancel(ctx), dirs, jobs, states))
}

// onRecord are the jobs of runs, and their states at the last look.
func onRecord(client *campaign.Client, dirs []string) (map[string]run.Submission, map[string]run.State) {
	jobs, states := client.JobsOnRecord(dirs), map[string]run.State{}
	for _, dir := range dirs {
		if st, ok := campaign.StateOnRecord(dir, jobs[dir]); ok {
			states[dir] = st
		}
	}
	return jobs, states
}

type kubeStatusCmd struct{ statusCmd }

// Run shows states, and what runs that are over still hold.
func (c kubeStatusCmd) Run(ctx context.Context, a *app) error {
	err := c.statusCmd.Run(ctx, a)
	if _, dirs, failed := c.runDirs(ctx, a, c.Paths); failed == nil {
		a.sayHeld(ctx, dirs)
	}
	return err
}

// sayHeld says which runs are over and keep GPUs.
func (a *app) sayHeld(ctx context.Context, dirs []string) {
	client := a.client()
	jobs, states := onRecord(client, dirs)
	held, err := client.Held(ctx, dirs, jobs, states)
	if err != nil {
		a.logf("note: what runs that are over still hold is unknown: %v", err)
	}
	for _, dir := range dirs {
		if n := held[dir]; n > 0 {
			a.logf("%s has ended, and its service still holds %s\n\thint: profllm kube collect %[1]s", relative(dir),
				quantity.Count(n, "GPU"))
		}
	}
}

type kubeResumeCmd struct {
	resumeCmd
	keepFlag
}

// Run is resume; with --wait, what runs have is deleted once they are over.
func (c kubeResumeCmd) Run(ctx context.Context, a *app) error {
	c.keep = c.Keep
	return c.resumeCmd.Run(ctx, a)
}

type kubeCancelCmd struct{ cancelCmd }

// Run cancels, and says which runs had ended by themselves.
func (c kubeCancelCmd) Run(ctx context.Context, a *app) error {
	err := c.cancelCmd.Run(ctx, a)
	_, dirs, failed := c.runDirs(ctx, a, c.Paths)
	if failed != nil {
		return err
	}
	_, states := onRecord(a.client(), dirs)
	for _, dir := range dirs {
		st := states[dir]
		if !strings.HasPrefix(st.JobID, run.KubePrefix) || !st.Final() || st.State == run.Cancelled ||
			campaign.HasFinalRecord(dir) {
			continue
		}
		a.logf("%s had ended before (%s%s), and has no record yet\n\thint: profllm kube collect %[1]s", relative(dir),
			st.State, prefixed(", ", st.Reason))
	}
	return err
}

// waitFlags are those of collect for runs that are not over.
type waitFlags struct {
	Wait    bool          `help:"Wait until the runs are over, and free the GPUs of each as it ends."`
	Timeout time.Duration `placeholder:"TIME" help:"End --wait after this time, such as 4h, with exit code 8; default: wait until all are over."`
}

// check refuses flags that do not go together.
func (f waitFlags) check(offline bool) error {
	switch {
	case f.Timeout < 0:
		return fail(exitUsage, fmt.Errorf("--timeout=%s: want a time above 0, such as 4h", f.Timeout))
	case f.Timeout > 0 && !f.Wait:
		return fail(exitUsage, errors.New("--timeout is the limit of --wait\n\thint: add --wait"))
	case f.Wait && offline:
		return fail(exitUsage, errors.New("--wait asks the cluster, and --offline asks nobody\n\thint: use only one of them"))
	}
	return nil
}

// await waits until runs in a cluster are over. The end of the time is no error: collect answers for
// what is not over.
func (a *app) await(ctx context.Context, dirs []string, f waitFlags, keep keepFlag) error {
	client := a.client()
	jobs := client.Jobs(ctx, dirs)
	var open []string
	for _, dir := range dirs {
		if strings.HasPrefix(jobs[dir].JobID, run.KubePrefix) {
			open = append(open, dir)
		}
	}
	if len(open) == 0 {
		return nil
	}
	limited, done := ctx, context.CancelFunc(func() {})
	if f.Timeout > 0 {
		limited, done = context.WithTimeout(ctx, f.Timeout)
	}
	defer done()
	var show func(map[string]run.State)
	if !keep.Keep {
		show = a.freeing(ctx, client, jobs, nil)
	}
	_, err := client.Follow(limited, open, jobs, show)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		a.logf("after %s, some runs are not over", quantity.Duration(f.Timeout))
		return nil
	}
	return err
}
