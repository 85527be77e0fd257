package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// states asks the scheduler about the jobs of run directories, with one query,
// and keeps the answers in state.json. An end that is known for long is not asked
// about, unless the job has begun again since.
func (a *app) states(s run.Scheduler, dirs []string, subs map[string]run.Submission) (map[string]run.State, error) {
	old, kept := a.kept(dirs, subs)
	var ids []string
	for i, dir := range dirs {
		if id := subs[dir].JobID; id != "" && !kept[i] {
			ids = append(ids, id)
		}
	}
	answers, err := s.States(a.ctx, ids)
	if err != nil {
		return nil, err
	}
	now, up := slices.Clone(old), a.uptime()
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
		judge(a.show(shower, now, old))
	}
	errs := make([]error, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		if now[i].Final() && !goesOn[i] { // a job that was killed could not do it, nor the last look if a file was in the way
			errs[i] = (&job.Job{Dir: dirs[i], Stdout: a.stderr, Now: a.now}).Forget(false)
		}
	})
	if err := errors.Join(errs...); err != nil {
		a.logf("note: %v", err)
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
	if bad := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(bad) > 0 && !a.unkept {
		a.unkept = true
		a.logf("note: what Slurm says of %d runs is not kept: %v%s", len(bad), bad[0], mend(bad[0]))
	}
	return states, nil
}

// kept reads what was known of the jobs at the last look, and whether that stays.
func (a *app) kept(dirs []string, subs map[string]run.Submission) ([]run.State, []bool) {
	old, kept := make([]run.State, len(dirs)), make([]bool, len(dirs))
	run.AtOnce(len(dirs), run.SmallFiles, func(i int) {
		id := subs[dirs[i]].JobID
		if id == "" || run.ReadJSON(filepath.Join(dirs[i], run.StateFile), &old[i]) != nil || old[i].JobID != id {
			old[i] = run.State{} // of no job, or of an earlier one
		}
		kept[i] = old[i].Kept(a.now()) && !old[i].Outdated(dirs[i])
	})
	return old, kept
}

// judged is a run's state by the scheduler's answer, the run directory and what
// was known before.
func judged(st, old run.State, dir string, sub run.Submission) run.State {
	st.Schema = "profllm.state/1"
	st = sub.Settled(st, dir)
	switch {
	case old.Final() && st.State == run.Unknown:
		return old // a job that Slurm has forgotten stays what it was
	case st.Final() && old.State == st.State && old.ExitCode == st.ExitCode && old.Source == st.Source:
		return old // keeps its time
	case st.State == run.Failed && st.ExitCode == "" && old.State == run.Failed && old.ExitCode != "" && !old.Outdated(dir):
		return old // squeue does not print what the controller said before
	}
	return st.Follows(old)
}

// show asks the controller itself about jobs of which more should be known.
func (a *app) show(s run.Shower, now, old []run.State) map[string]run.State {
	var ids []string
	for i, st := range now {
		if st.Ask(old[i]) {
			ids = append(ids, st.JobID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	shown, err := s.Show(a.ctx, ids)
	if err != nil {
		a.logf("note: %v", err)
	}
	return shown
}

// unknownLimit ends the wait for jobs of which nobody says anything.
const unknownLimit = run.LostAfter

// wait follows the jobs of runs to their end, collects, and answers for them.
func (a *app) wait(s run.Scheduler, dirs []string, watch bool) error {
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
	if !watch {
		say = nil
	}
	return a.follow(s, dirs, a.jobs(dirs), say)
}

// follow waits until the jobs of runs are over, shows them meanwhile, collects,
// and answers for them. One question goes to Slurm each time, and the pause
// between two grows while nothing changes.
func (a *app) follow(s run.Scheduler, dirs []string, subs map[string]run.Submission, show func(map[string]run.State)) error {
	over, said, warned := map[string]bool{}, map[string]string{}, map[string]bool{}
	known := a.now() // when Slurm last knew one of the jobs
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		states, err := a.states(s, dirs, subs)
		if err != nil {
			return err
		}
		open := 0
		for _, dir := range dirs {
			st := states[dir]
			if st.State != run.Unknown {
				known = a.now()
			}
			if !st.Final() {
				open++
			}
			if warning := trouble(st); warning != "" && !warned[dir+warning] {
				warned[dir+warning] = true
				a.logf("warning: job %s of %s %s", st.JobID, relative(dir), warning)
			}
			if word := st.State + st.Note + st.Reason; show != nil && word != said[dir] {
				said[dir], pause = word, soon(len(dirs))
			}
		}
		if show != nil {
			show(states)
		}
		if open == 0 || a.now().Sub(known) > unknownLimit {
			return a.report(a.remember(dirs), dirs, states, "text")
		}
		before := len(over)
		if !a.idle(jitter(pause), dirs, states, over, show) {
			return fail(exitInterrupted, fmt.Errorf("interrupted; the jobs go on\n\thint: profllm slurm status %s", relative(cmp.Or(run.Root(dirs[0]), dirs[0]))))
		}
		if len(over) > before {
			pause = soon(len(dirs)) / 2 // its job is about to end
		}
	}
}

// soon is the pause after something happened. Of many runs something happens all
// the time, and Slurm is asked no more often for that.
func soon(runs int) time.Duration {
	return min(time.Second+time.Duration(runs/20)*time.Second, time.Minute)
}

// jitter keeps commands that were started together from asking together.
func jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4)
}

// trouble is what somebody should know of a job before it is over, "" for nothing.
func trouble(st run.State) string {
	switch {
	case st.State == run.Queued && st.Note == run.Held:
		return fmt.Sprintf("is held (%s)\n\thint: scontrol release %s, or ask why it was held", cmp.Or(st.Reason, st.Raw), st.JobID)
	case st.State == run.Queued && st.Note == run.NeverStarts:
		return fmt.Sprintf("never starts (%s)\n\thint: scancel %s, and correct the request that the reason names", st.Reason, st.JobID)
	case st.State == run.Running && st.Note == run.Ending && st.At.Sub(st.Since) > run.EndingLimit:
		return "is " + st.Reason
	case st.Note == run.Lost:
		return "is lost: " + st.Reason
	}
	return ""
}

// idle waits until the next look at Slurm is due, or until a run that was open
// says on disk that it is over, which over remembers: the files cost nothing, and
// Slurm is asked soon. show, if there is one, is called now and then meanwhile.
// It returns false when the command was interrupted.
func (a *app) idle(pause time.Duration, dirs []string, states map[string]run.State, over map[string]bool, show func(map[string]run.State)) bool {
	look := max(time.Second, time.Duration(len(dirs))*lookCost)
	for end := a.now().Add(pause); a.now().Before(end); {
		select {
		case <-a.ctx.Done():
			return false
		case <-time.After(min(pause, look)):
		}
		if show != nil {
			show(states)
		}
		for _, dir := range dirs {
			if states[dir].Final() || over[dir] {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, run.SentinelFile)); err == nil {
				over[dir] = true // once: Slurm may take its time
				return true
			}
		}
	}
	return a.ctx.Err() == nil
}

// lookCost is how much longer the pause between two looks at the files gets with
// each run: a shared file system has other users.
const lookCost = 20 * time.Millisecond
