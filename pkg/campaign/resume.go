package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Again returns why a run is to be submitted again, "" if it is not. A failed run has its
// result, so it is submitted again only if failed is set.
func Again(sub run.Submission, st run.State, failed bool) (why string) {
	switch {
	case sub.Refused != "":
		return "refused"
	case sub.JobID == "":
		return "whose submission was not completed" // it is now: an earlier job is looked for first
	case st.State == run.Cancelled && st.Note == run.NeverRan, st.State == run.Timeout && st.Raw == "DEADLINE":
		return "never started"
	case st.State == run.Cancelled, st.State == run.NodeFail, st.State == run.Preempted:
		return st.State
	case failed && (st.State == run.Failed || st.State == run.Timeout || st.State == run.OOM):
		return st.State
	}
	return ""
}

// RepeatedLoads says which loads of a run have a good measurement and are measured again
// with the run, "" for none. Their records move to attempts/ with the rest of the run.
func RepeatedLoads(dir string) string {
	p, err := run.ReadPlan(dir)
	if err != nil || len(p.Loads) < 2 {
		return ""
	}
	var well []string
	for _, l := range p.Loads {
		below, err := filepath.Rel(p.Dir, l.Dir)
		if err != nil {
			continue
		}
		data, err := regular.ReadFile(filepath.Join(dir, below, run.ResultFile))
		if err != nil {
			continue
		}
		if r, err := result.Decode(data); err == nil && r.Status == result.Completed && r.Validity.Valid {
			well = append(well, cmp.Or(l.Name, below))
		}
	}
	if len(well) == 0 {
		return ""
	}
	return fmt.Sprintf("measures %s again, %d of its %d loads, because all of them share one server start; the earlier records move to attempts/",
		strings.Join(well, ", "), len(well), len(p.Loads))
}

// runsFor lists the runs of a scenario, below root, that a path in it stands for:
// those below it, or the one that it lies in, and all that they wait for.
func runsFor(root, path string, runs []string) []string {
	is := map[string]bool{}
	var choose func(dir string)
	choose = func(dir string) {
		if is[dir] {
			return
		}
		is[dir] = true
		p, err := run.ReadPlan(dir)
		if err != nil {
			return
		}
		for _, a := range p.Job.After {
			if rel, err := filepath.Rel(p.Dir, a.Dir); err == nil {
				choose(filepath.Join(dir, rel))
			}
		}
	}
	for _, rel := range runs {
		dir := filepath.Join(root, rel)
		if path == root {
			is[dir] = true
		} else if within(path, dir) || within(dir, path) {
			choose(dir)
		}
	}
	var dirs []string
	for _, rel := range runs {
		if dir := filepath.Join(root, rel); is[dir] {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// within reports whether a path is a folder, or lies in it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// Rest is what a scenario execution lacks: the runs that resume submits.
type Rest struct {
	Root    string
	Reasons map[string]int // why runs are submitted or left alone → how many
	Alone   []string       // runs that are left alone

	scenario run.Scenario
	next     int // number of the next batch
	jobs     map[string]run.Submission
	missing  map[string][]string // runs by the unit that carries them
	layers   []fs.FS
}

// ResumeOptions say what is submitted again.
type ResumeOptions struct {
	Failed    bool   // also what failed, ran out of memory or reached its time limit
	Templates string // as in Options
}

// Rest finds what is missing of the execution that a path is or lies in: a run whose job is
// over and gave no answer, or that never had one. Of a run's path it is that run and what
// it waits for.
func (c *Client) Rest(ctx context.Context, path string, o ResumeOptions) (*Rest, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	root := run.Root(path)
	if root == "" {
		return nil, as(Usage, fmt.Errorf("%s is neither a scenario execution nor inside one\n\thint: name a directory that contains %s", path, run.ScenarioFile))
	}
	s, err := run.ReadScenario(root)
	if err != nil {
		return nil, as(Usage, err)
	}
	if s.Local {
		return nil, as(Usage, fmt.Errorf("%s ran on one machine and cannot be resumed\n\thint: run it again: %s", root,
			cmp.Or(collect.AgainOf(root, c.relative(root)).Command(""), "profllm rehearse")))
	}
	dirs := runsFor(root, path, s.Runs)
	// The number of the next batch comes before everything that decides what goes
	// into it: whoever made one meanwhile has taken that number.
	numbers, err := run.Batches(root)
	if err != nil {
		return nil, as(Usage, err)
	}
	r := &Rest{Root: root, Reasons: map[string]int{}, scenario: s, next: 1, missing: map[string][]string{},
		layers: layers(o.Templates)}
	if len(numbers) > 0 {
		r.next = numbers[len(numbers)-1] + 1
	}
	r.jobs = c.JobsOnRecord(dirs) // an interrupted submission is looked into when it is completed
	states, err := c.States(ctx, dirs, r.jobs)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		why := Again(r.jobs[dir], states[dir], o.Failed)
		if why == "" && states[dir].Vanished(dir) {
			why = "forgotten by Slurm, and never started"
		}
		if !o.Failed && FinishedWell(dir, r.jobs[dir]) {
			why = ""
		}
		if why == "" {
			r.Alone = append(r.Alone, dir)
			why = "left alone: " + cmp.Or(states[dir].State, run.Unknown)
			if !o.Failed && Again(r.jobs[dir], states[dir], true) != "" {
				why += "; --failed submits it again as it was"
			}
		} else {
			unit := cmp.Or(r.jobs[dir].Batch, dir)
			r.missing[unit] = append(r.missing[unit], dir)
			if note := RepeatedLoads(dir); note != "" {
				c.note("%s: %s", c.relative(dir), note)
			}
		}
		r.Reasons[why]++
	}
	return r, nil
}

// SubmitRest submits the rest, and returns the runs that have a job, Alone included. What
// the earlier jobs left goes to attempts/.
func (c *Client) SubmitRest(ctx context.Context, r *Rest, settle time.Duration) (dirs []string, err error) {
	list, err := r.submissions(c.Now())
	if err != nil {
		return nil, as(NotSubmitted, err)
	}
	dirs, err = c.submitAll(ctx, r.Root, list, settle)
	return slices.Concat(r.Alone, dirs), err
}

// FinishedWell reports whether the job of a run ended well, whatever happened afterwards.
func FinishedWell(dir string, sub run.Submission) bool {
	var end run.Sentinel
	return run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.JobID == sub.JobID && end.Code == 0
}

// submissions lists what is to be submitted, parents first. What is missing of a batch
// that ran becomes a batch of its own, made here.
func (r *Rest) submissions(now time.Time) ([]submission, error) {
	units, err := allUnits(r.Root, r.scenario)
	if err != nil {
		return nil, err
	}
	var list []submission
	for _, unit := range units {
		runs := r.missing[unit]
		if len(runs) == 0 {
			continue
		}
		d := submission{dir: unit}
		switch sub := r.jobs[runs[0]]; {
		case sub.JobID == "":
		case sub.Batch == "":
			d.over = sub.JobID
		default:
			if d.dir, err = r.batch(unit, runs, now); err != nil {
				return nil, err
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// allUnits lists what was submitted, parents first: a batch that a resume made
// stands behind the unit that had its runs before.
func allUnits(root string, s run.Scenario) ([]string, error) {
	var units []string
	had := map[string]string{} // unit that carries a run so far
	note := func(unit string) (*run.Unit, error) {
		u, err := run.ReadUnit(unit)
		if err != nil {
			return nil, err
		}
		for _, dir := range u.Runs() {
			had[dir] = unit
		}
		return u, nil
	}
	for _, rel := range s.InOrder() {
		units = append(units, filepath.Join(root, rel))
		if filepath.Dir(rel) == run.BatchDir {
			if _, err := note(filepath.Join(root, rel)); err != nil {
				return nil, err
			}
		}
	}
	numbers, err := run.Batches(root)
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		dir := filepath.Join(root, run.BatchDir, fmt.Sprint(n))
		if slices.Contains(units, dir) {
			continue
		}
		u, err := run.ReadUnit(dir)
		if err != nil {
			return nil, err
		}
		at := slices.Index(units, had[u.Runs()[0]])
		units = slices.Insert(units, at+1, dir)
		if _, err := note(dir); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// batch makes the batch that carries what is missing of another.
func (r *Rest) batch(unit string, runs []string, now time.Time) (string, error) {
	u, err := run.ReadUnit(unit)
	if err != nil {
		return "", err
	}
	all, n := u.Runs(), r.next
	r.next++
	b := u.Batch.Part(filepath.Join(r.Root, run.BatchDir, fmt.Sprint(n)), fmt.Sprintf("%s-%d", u.Batch.RunID, n), now,
		func(i int) bool {
			return slices.Contains(runs, all[i])
		})
	script, err := render.BatchScript(b, r.layers...)
	if err != nil {
		return "", err
	}
	if err := run.AddBatch(b, script); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("another command is resuming this scenario: %w", err)
	} else if err != nil {
		return "", err
	}
	return b.Dir, nil
}

// Unmade reports whether resume would submit some of the runs again.
func (c *Client) Unmade(dirs []string) bool {
	for dir, sub := range c.JobsOnRecord(dirs) {
		var st run.State
		if run.ReadJSON(filepath.Join(dir, run.StateFile), &st) != nil {
			st = run.State{}
		}
		if Again(sub, st, false) != "" && !FinishedWell(dir, sub) {
			return true
		}
	}
	return false
}
