package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/runlog"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

type kubeLogsCmd struct{ logsCmd }

// Run shows the logs of pods while a run is under way, and afterwards those that were fetched.
func (c kubeLogsCmd) Run(ctx context.Context, a *app) error {
	dir, err := c.run(ctx, a)
	if err != nil {
		return err
	}
	sub, live := a.client().Live(dir)
	switch {
	case !live:
		return c.logsCmd.Run(ctx, a)
	case c.Follow:
		return c.follow(ctx, a, dir, sub)
	}
	return c.show(ctx, a, dir, sub)
}

// show shows the last lines of the logs of pods.
func (c kubeLogsCmd) show(ctx context.Context, a *app, dir string, sub run.Submission) error {
	live, err := a.client().LiveLogs(ctx, dir, sub, c.Lines)
	if err != nil {
		return err
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

// follow prints the lines of pods as they come, until the run is over.
func (c kubeLogsCmd) follow(ctx context.Context, a *app, dir string, sub run.Submission) error {
	if c.Role != "" && !runlog.MayCome(dir, c.Role) {
		return fail(exitUsage, fmt.Errorf("%s has no log of %q\n\thint: name a role of the plan, or job for the client", relative(dir), c.Role))
	}
	secrets := run.Secrets(dir)
	f := kube.Following{Lines: c.Lines, Wants: func(step string, rank int) bool {
		return c.Role == "" || runlog.Log{Step: step, Rank: rank}.Means(c.Role)
	}}
	err := a.client().FollowLogs(ctx, dir, sub, f, func(l kube.Line) error {
		return a.printLog(runlog.Log{Path: l.Step, Step: l.Step, Rank: l.Rank}, []string{l.Text}, secrets, true)
	})
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted; the run continues"))
	}
	return err
}
