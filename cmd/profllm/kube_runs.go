package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/runlog"
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

// keepFlag is of commands that delete what finished runs have in a cluster.
type keepFlag struct {
	Keep bool `help:"Keep the objects of finished runs in the cluster."`
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
	err = a.submit(ctx, doc.Root, c.submitFlags)
	if !c.Wait && !c.Watch {
		return err
	}
	dirs, unread := a.runDirs([]string{doc.Root})
	return worse(err, unread, a.clean(ctx, dirs, c.keepFlag))
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

// clean deletes what runs that are over have in a cluster, by what is on record of their ends.
func (a *app) clean(ctx context.Context, dirs []string, f keepFlag) error {
	if f.Keep {
		return nil
	}
	client := a.client()
	jobs, states := client.JobsOnRecord(dirs), map[string]run.State{}
	for _, dir := range dirs {
		if st, ok := campaign.StateOnRecord(dir, jobs[dir]); ok {
			states[dir] = st
		}
	}
	return fail(exitNotOver, client.Clean(context.WithoutCancel(ctx), dirs, jobs, states))
}

type kubeCollectCmd struct {
	collectCmd
	keepFlag
}

// Run is collect, which fetches what is not fetched; what was fetched is deleted in the cluster.
func (c kubeCollectCmd) Run(ctx context.Context, a *app) error {
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
	return worse(err, unread, a.clean(ctx, dirs, c.keepFlag))
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

type kubeLogsCmd struct{ logsCmd }

// Run shows the logs of pods while a run is under way, and afterwards those that were fetched.
func (c kubeLogsCmd) Run(ctx context.Context, a *app) error {
	paths, err := c.paths(ctx, a, slices.DeleteFunc([]string{c.Dir}, func(dir string) bool { return dir == "" }))
	if err != nil {
		return err
	}
	dir, err := a.oneRun(paths[0])
	if err != nil {
		return err
	}
	live, err := a.client().LiveLogs(ctx, dir, c.Lines)
	if err != nil {
		return err
	}
	if live == nil {
		return c.logsCmd.Run(ctx, a)
	}
	switch {
	case c.Lines < 0:
		return fail(exitUsage, fmt.Errorf("--lines=%d: want 0 or more", c.Lines))
	case c.Follow:
		return fail(exitUsage, errors.New("the run is under way, and its logs are those of its pods\n\thint: kubectl logs --follow POD"))
	}
	a.answers(&document.Logs{Head: document.NewHead("logs"), Dir: dir, Logs: []document.LogEntry{}})
	var logs []runlog.Log
	for _, l := range live {
		logs = append(logs, runlog.Log{Path: l.Step, Step: l.Step, Rank: l.Rank})
	}
	if len(logs) == 0 {
		a.logf("%s: no logs yet\n\thint: profllm kube status %s", relative(dir), relative(dir))
		return nil
	}
	if logs, err = runlog.Choose(logs, c.Role); err != nil {
		return fail(exitUsage, err)
	}
	secrets := run.Secrets(dir)
	for _, l := range live {
		at := slices.IndexFunc(logs, func(x runlog.Log) bool { return x.Step == l.Step && x.Rank == l.Rank })
		if at < 0 {
			continue
		}
		if err := a.printLog(logs[at], l.Lines, secrets, len(logs) > 1); err != nil {
			return err
		}
	}
	return nil
}
