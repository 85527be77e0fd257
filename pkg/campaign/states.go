package campaign

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// States asks the schedulers for the jobs of run directories, with one query, and keeps
// the answers in state.json. A job whose end has been known for long is not queried,
// unless it has begun again since.
func (c *Client) States(ctx context.Context, dirs []string,
	jobs map[string]run.Submission) (map[string]run.State, error) {
	return c.states(ctx, c.Schedulers(), dirs, jobs)
}

func (c *Client) states(ctx context.Context, s run.Scheduler, dirs []string,
	subs map[string]run.Submission) (map[string]run.State, error) {
	old, kept := c.kept(dirs, subs)
	var ids []string
	for i, dir := range dirs {
		if id := subs[dir].JobID; id != "" && !kept[i] {
			ids = append(ids, id)
		}
	}
	known, _ := s.(Schedulers)
	c.learnAll(known, dirs, subs)
	answers, err := s.States(ctx, ids)
	if err != nil {
		return nil, err
	}
	c.fetchEnded(ctx, known, dirs, subs, answers)
	now, up := slices.Clone(old), c.Uptime()
	goesOn := make([]bool, len(dirs)) // the job of a run that is over: a sequence, which may be queued again
	judge := func(answers map[string]run.State) {
		run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
			if st, ok := answers[subs[dirs[i]].JobID]; ok && !kept[i] {
				st.Up = up
				goesOn[i] = subs[dirs[i]].Kind == plan.Sequence && (st.State == run.Running || st.State == run.Queued)
				now[i] = judged(st, old[i], dirs[i], subs[dirs[i]])
			}
		})
	}
	judge(answers)
	if shower, ok := s.(run.Shower); ok {
		judge(c.show(ctx, shower, now, old))
	}
	errs := make([]error, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		// a job that was killed could not do it, nor the last look if a file was in the way
		if now[i].Final() && !goesOn[i] {
			errs[i] = (&job.Job{Dir: dirs[i], Stdout: saying{c}, Now: c.Now}).ForgetSecrets(false)
		}
	})
	if err := errors.Join(errs...); err != nil {
		c.note("%v", err)
	}
	clear(errs)
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		if now[i].News(old[i]) {
			errs[i] = run.WriteJSON(filepath.Join(dirs[i], run.StateFile), now[i])
		}
	})
	states := map[string]run.State{}
	for i, dir := range dirs {
		if now[i].JobID != "" {
			states[dir] = now[i]
		}
	}
	// What Slurm said is as true without being kept: somebody else's runs can be
	// looked at, and a full disk does not end a wait.
	if bad := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(bad) > 0 && !c.unkept {
		c.unkept = true
		c.note("the state of %s could not be saved: %v%s", quantity.Count(len(bad), "run"), bad[0], hint(bad[0]))
	}
	return states, nil
}

// kept reads what was known of the jobs at the last look, and whether that stays.
func (c *Client) kept(dirs []string, subs map[string]run.Submission) ([]run.State, []bool) {
	old, kept := make([]run.State, len(dirs)), make([]bool, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		id := subs[dirs[i]].JobID
		if id == "" || run.ReadJSON(filepath.Join(dirs[i], run.StateFile), &old[i]) != nil || old[i].JobID != id {
			old[i] = run.State{} // of no job, or of an earlier one
		}
		kept[i] = old[i].Kept(c.Now()) && !old[i].Outdated(dirs[i])
	})
	return old, kept
}

// judged is a run's state by the scheduler's answer, the run directory and what
// was known before.
func judged(st, old run.State, dir string, sub run.Submission) run.State {
	st.Schema = "profllm.state/1"
	st = sub.RunState(st, dir)
	switch {
	case st.State == run.Unknown && st.Note == run.Forgotten && strings.HasPrefix(st.JobID, run.KubePrefix) && !old.Final():
		st.State, st.Note = run.Failed, run.Lost // what a cluster does not list is not there
	case old.Final() && st.State == run.Unknown:
		return old // a job that Slurm has forgotten stays what it was
	case st.Final() && old.State == st.State && old.ExitCode == st.ExitCode && old.Source == st.Source:
		return old // keeps its time
	case st.State == run.Failed && st.ExitCode == "" && old.State == run.Failed && old.ExitCode != "" &&
		!old.Outdated(dir):
		return old // squeue does not print what the controller said before
	}
	return st.Follows(old)
}

// show asks the controller itself about jobs of which more should be known.
func (c *Client) show(ctx context.Context, s run.Shower, now, old []run.State) map[string]run.State {
	var ids []string
	for i, st := range now {
		if st.NeedsController(old[i]) {
			ids = append(ids, st.JobID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	shown, err := s.Show(ctx, ids)
	if err != nil {
		c.note("%v", err)
	}
	return shown
}
