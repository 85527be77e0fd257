package main

import (
	"context"
	"errors"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
)

type kubeSubmitCmd struct {
	kubeFlags
	submitFlags
	outputFlag
	keepFlag
	Scenario     string  `arg:"" meant:"test-scenario" help:"Scenario file, or lock file."`
	New          bool    `help:"Submit again although an earlier submission of this scenario was interrupted."`
	Yes          bool    `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64 `default:"100" help:"Ask before submitting more node-hours than this (nodes times time limits)."`
}

// Run submits a scenario; with --wait it follows, collects and cleans up as well.
func (c kubeSubmitCmd) Run(ctx context.Context, a *app) error {
	doc := document.NewJobs("submit")
	p, err := a.planKube(ctx, c.Scenario, c.kubeFlags)
	if err != nil {
		return a.tellUnsent(ctx, c.submitFlags, scenarioName(c.Scenario, c.definitionFlags), "", err)
	}
	a.answers(doc)
	if doc.Root, err = a.begin(p, c.New, a.allow(c.MaxNodeHours, c.Yes), "scenario"); err != nil {
		return a.tellUnsent(ctx, c.submitFlags, scenarioName(c.Scenario, c.definitionFlags), "", err)
	}
	c.keep = c.Keep
	return a.submit(ctx, doc.Root, c.submitFlags)
}

// worse is the first error, which has the exit code, and shows the others.
func worse(first error, others ...error) error {
	rest := errors.Join(others...)
	if first == nil {
		return rest
	}
	return &withRest{first, rest}
}

// withRest is an error whose exit code is that of the first.
type withRest struct{ first, rest error }

func (e *withRest) Error() string {
	if e.rest == nil {
		return e.first.Error()
	}
	return e.first.Error() + "\n" + e.rest.Error()
}

func (e *withRest) Unwrap() error { return e.first }

type kubeCollectCmd struct {
	collectCmd
	keepFlag
	waitFlags
}

// Run is collect, which fetches what is not fetched; what was fetched is deleted in the cluster.
func (c kubeCollectCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(c.Offline); err != nil {
		return err
	}
	var waited error
	if c.Wait {
		if waited = c.awaitEnds(ctx, a); ctx.Err() != nil {
			return waited
		}
	}
	err := c.collectCmd.Run(ctx, a)
	if c.Offline {
		return err
	}
	paths, failed := c.paths(ctx, a, c.Paths)
	if failed != nil {
		return worse(err, failed)
	}
	dirs, unread := a.runDirs(paths)
	a.sayOpen(dirs)
	rest := a.clean(ctx, dirs, c.keepFlag)
	if waited != nil { // nothing that is left can start
		return worse(waited, unread, rest)
	}
	return worse(err, unread, rest)
}

func (c kubeCollectCmd) awaitEnds(ctx context.Context, a *app) error {
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	dirs, err := a.runDirs(paths)
	if err != nil {
		return err
	}
	return a.await(ctx, dirs, c.waitFlags, c.keepFlag)
}

// sayOpen says why runs in a cluster are not over, as far as that is not just because they run.
func (a *app) sayOpen(dirs []string) {
	jobs := a.client().JobsOnRecord(dirs)
	for _, dir := range dirs {
		st, ok := campaign.StateOnRecord(dir, jobs[dir])
		if !ok || st.Reason == "" || !strings.HasPrefix(st.JobID, run.KubePrefix) {
			continue
		}
		what := ""
		switch {
		case st.Note == run.Unfetched:
			what = "has ended, and its results are not fetched"
		case st.Note == run.Ending:
			what = "is not over"
		case st.State == run.Unknown:
			what = "has an unknown state"
		default:
			continue
		}
		a.logf("%s %s: %s\n\thint: once the cause is gone, profllm kube collect %[1]s", relative(dir), what, st.Reason)
	}
}
