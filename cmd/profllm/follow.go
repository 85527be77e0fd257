package main

import (
	"context"
	"errors"
	"slices"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/run"
)

// wait follows the jobs of runs to their end, collects, and answers for them. What runs have in a
// cluster is deleted, unless it shall be kept.
func (a *app) wait(ctx context.Context, client *campaign.Client, dirs []string, f submitFlags) error {
	said := map[string]string{}
	say := func(states map[string]run.State) {
		for _, dir := range dirs {
			st := states[dir]
			if word := st.State + prefixed(" ", st.Note) + prefixed(", ", st.Reason); word != said[dir] {
				said[dir] = word
				a.logf("%s job %s %s  %s", a.now().Format("15:04:05"), st.JobID, word, relative(dir))
			}
		}
	}
	if !f.Watch {
		say = nil
	}
	jobs := client.Jobs(ctx, dirs)
	if f.keep || !onCluster(jobs) {
		return a.collectAtEnd(ctx, client, dirs, jobs, say)
	}
	err := a.collectAtEnd(ctx, client, dirs, jobs, a.freeing(ctx, client, jobs, say))
	return worse(err, a.clean(ctx, dirs, keepFlag{}))
}

// collectAtEnd waits until the jobs of runs are over, collects, and answers for them. If a job
// can never start, only the runs that are over are collected, and the job is the answer.
func (a *app) collectAtEnd(ctx context.Context, client *campaign.Client, dirs []string, jobs map[string]run.Submission,
	show func(map[string]run.State)) error {
	states, err := client.Follow(ctx, dirs, jobs, show)
	stuck := (*campaign.StuckError)(nil)
	if err != nil && !errors.As(err, &stuck) {
		return err
	}
	if stuck != nil {
		dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return !states[dir].Final() })
		if len(dirs) == 0 {
			return err
		}
	}
	reported := a.report(ctx, a.openCache(dirs), dirs, states)
	if err == nil {
		return reported
	}
	if codeOf(reported) == exitInternal { // else the printed runs say it
		a.complain(reported)
	}
	return err
}
