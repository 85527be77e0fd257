package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// again says why a run is to be submitted again, "" if it is not. A failure is
// the test's own answer, and asked for once more only if failed.
func again(sub run.Submission, st run.State, failed bool) (why string) {
	switch {
	case sub.Refused != "":
		return "refused"
	case sub.JobID == "":
		return "without a job on record"
	case st.State == run.Cancelled && st.Note == run.NeverRan, st.State == run.Timeout && st.Raw == "DEADLINE":
		return "never started"
	case st.State == run.Cancelled, st.State == run.NodeFail, st.State == run.Preempted:
		return st.State
	case failed && (st.State == run.Failed || st.State == run.Timeout || st.State == run.OOM):
		return st.State
	}
	return ""
}

type resumeCmd struct {
	submitFlags
	Failed    bool   `help:"Also submit runs again that failed, ran out of memory or reached their time limit."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in ones."`
	Root      string `arg:"" type:"existingdir" help:"Directory of a scenario execution, or of one of its runs: then only that, and what it waits for."`
}

// Run submits exactly what is missing: a run whose job is over and gave no
// answer, or that never had one. What the earlier job left goes to attempts/.
func (c resumeCmd) Run(a *app) error {
	path, err := filepath.Abs(c.Root)
	if err != nil {
		return err
	}
	if c.Root = run.Root(path); c.Root == "" {
		return fail(exitUsage, fmt.Errorf("%s is no scenario execution, nor in one\n\thint: give a directory that holds %s", path, run.ScenarioFile))
	}
	s, err := run.ReadScenario(c.Root)
	if err != nil {
		return fail(exitUsage, err)
	}
	if s.Local {
		return fail(exitUsage, fmt.Errorf("%s is a rehearsal, which cannot be resumed\n\thint: profllm rehearse SCENARIO runs it again", c.Root))
	}
	dirs := meant(c.Root, path, s.Runs)
	// The number of the next batch comes before everything that decides what goes
	// into it: whoever made one meanwhile has taken that number.
	numbers, err := run.Batches(c.Root)
	if err != nil {
		return fail(exitUsage, err)
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	subs := a.read(dirs) // an interrupted submission is looked into when it is completed
	states, err := a.states(a.schedulers(), dirs, subs)
	if err != nil {
		return err
	}
	var alone []string // left alone, and waited for with the others
	w := want{app: a, root: c.Root, scenario: s, next: next, subs: subs, missing: map[string][]string{}, layers: layers(c.Templates)}
	reasons := map[string]int{}
	for _, dir := range dirs {
		why := again(subs[dir], states[dir], c.Failed)
		if why == "" && states[dir].Vanished(dir) {
			why = "forgotten by Slurm, and never begun"
		}
		if !c.Failed && finishedWell(dir, subs[dir]) {
			why = ""
		}
		if why == "" {
			alone = append(alone, dir)
			why = "left alone: " + cmp.Or(states[dir].State, run.Unknown)
			if !c.Failed && again(subs[dir], states[dir], true) != "" {
				why += "; --failed submits it again as it was"
			}
		} else {
			unit := cmp.Or(subs[dir].Batch, dir)
			w.missing[unit] = append(w.missing[unit], dir)
			if note := repeats(dir); note != "" {
				a.logf("note: %s: %s", relative(dir), note)
			}
		}
		reasons[why]++
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		plural := "s"
		if reasons[why] == 1 {
			plural = ""
		}
		a.logf("%d run%s %s", reasons[why], plural, why)
	}
	deeds, err := w.deeds()
	if err != nil {
		return fail(exitNotSubmit, err)
	}
	return a.do(c.Root, deeds, alone, c.submitFlags)
}

// repeats says which loads of a run were measured well and are measured once more
// with it, "" for none. Their records move to attempts/ with the rest of the run.
func repeats(dir string) string {
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
	return fmt.Sprintf("measures %s again, %d of its %d loads, because one start of the service serves all of them, and each is judged by it; the records so far go to attempts/",
		strings.Join(well, ", "), len(well), len(p.Loads))
}

// meant lists the runs of a scenario, below root, that a path in it stands for:
// those below it, or the one that it lies in, and all that they wait for.
func meant(root, path string, runs []string) []string {
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

// want is what a scenario execution lacks.
type want struct {
	*app
	root     string
	scenario run.Scenario
	next     int // number of the next batch
	subs     map[string]run.Submission
	missing  map[string][]string // runs by the unit that carries them
	layers   []fs.FS
}

// finishedWell reports whether the job of a run came to its good end, whatever
// became of it afterwards.
func finishedWell(dir string, sub run.Submission) bool {
	var end run.Sentinel
	return run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.JobID == sub.JobID && end.Code == 0
}

// deeds lists what is to be submitted, parents first. What is missing of a batch
// that ran becomes a batch of its own, made here.
func (w *want) deeds() ([]deed, error) {
	units, err := allUnits(w.root, w.scenario)
	if err != nil {
		return nil, err
	}
	var deeds []deed
	for _, unit := range units {
		runs := w.missing[unit]
		if len(runs) == 0 {
			continue
		}
		d := deed{dir: unit}
		switch sub := w.subs[runs[0]]; {
		case sub.JobID == "":
		case sub.Batch == "":
			d.over = sub.JobID
		default:
			if d.dir, err = w.rest(unit, runs); err != nil {
				return nil, err
			}
		}
		deeds = append(deeds, d)
	}
	return deeds, nil
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

// rest makes the batch that carries what is missing of another.
func (w *want) rest(unit string, runs []string) (string, error) {
	u, err := run.ReadUnit(unit)
	if err != nil {
		return "", err
	}
	all, n := u.Runs(), w.next
	w.next++
	b := u.Batch.Part(filepath.Join(w.root, run.BatchDir, fmt.Sprint(n)), fmt.Sprintf("%s-%d", u.Batch.RunID, n), w.now(), func(i int) bool {
		return slices.Contains(runs, all[i])
	})
	script, err := render.BatchScript(b, w.layers...)
	if err != nil {
		return "", err
	}
	if err := run.AddBatch(b, script); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("another command resumes this scenario at this moment: %w", err)
	} else if err != nil {
		return "", err
	}
	return b.Dir, nil
}
