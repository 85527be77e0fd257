package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// documents lists the plans, and behind them the batches that carry some.
func (p *planned) documents() []any {
	var list []any
	for _, r := range p.Runs {
		list = append(list, r.Plan)
	}
	for _, b := range p.Batches {
		list = append(list, b.Batch)
	}
	return list
}

// carried says which batch carries a run directory, if one does.
func (p *planned) carried() map[string]*plan.Batch {
	by := map[string]*plan.Batch{}
	for _, b := range p.Batches {
		for _, dir := range b.Batch.Runs {
			by[dir] = b.Batch
		}
	}
	return by
}

// write prints every script, and as text a table before it.
func (p *planned) write(out *bufio.Writer, text bool) {
	carried := p.carried()
	for _, r := range p.Runs {
		if text {
			fmt.Fprint(out, planTable(r.Plan))
			if b := carried[r.Plan.Dir]; b != nil {
				fmt.Fprintf(out, "# in batch %s\n", b.RunID)
			} else {
				fmt.Fprint(out, p.symbolic(&r.Plan.Job))
			}
			fmt.Fprintln(out)
		}
		out.Write(r.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
	for _, b := range p.Batches {
		if text {
			fmt.Fprintf(out, "# batch %s: %s of %d runs\n%s\n", b.Batch.RunID, b.Batch.Kind, len(b.Batch.Runs), p.symbolic(&b.Batch.Job))
		}
		out.Write(b.Script)
		if text {
			fmt.Fprintln(out)
		}
	}
}

// symbolic is a comment with what sbatch is told about other jobs, whose ids are
// known only at submission.
func (p *planned) symbolic(j *plan.Job) string {
	if len(j.After) == 0 {
		return ""
	}
	tests := map[string]string{}
	for _, r := range p.Runs {
		tests[r.Plan.Dir] = r.Plan.Test
	}
	var words []string
	for _, a := range j.After {
		word := fmt.Sprintf("%s:<job of test %s>", a.Type, cmp.Or(tests[a.Dir], a.Dir))
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("# sbatch --dependency=%s --kill-on-invalid-dep=yes\n", strings.Join(words, ","))
}

// save writes what submission would write, below another folder.
func (p *planned) save(to string) error {
	for _, r := range p.Runs {
		rel, err := filepath.Rel(p.Root, r.Plan.Dir)
		if err != nil {
			return err
		}
		if err := run.Fill(filepath.Join(to, rel), r.Plan, r.Script, r.Hooks...); err != nil {
			return err
		}
	}
	for _, b := range p.Batches {
		rel, err := filepath.Rel(p.Root, b.Batch.Dir)
		if err != nil {
			return err
		}
		if err := run.FillBatch(filepath.Join(to, rel), b.Batch, b.Script); err != nil {
			return err
		}
	}
	return nil
}

// cost says what the runs may use and asks above the limit. An array counts by
// its runs, a sequence by its one allocation.
func (a *app) cost(p *planned, limit float64, yes bool) error {
	hours, open, jobs := 0.0, 0, len(p.Batches)
	add := func(j *plan.Job, times int) {
		if j.TimeLimit == 0 {
			open += times
			return
		}
		hours += float64(times*j.Nodes) * time.Duration(j.TimeLimit).Hours()
	}
	for _, b := range p.Batches {
		if b.Batch.Kind == plan.Array {
			add(&b.Batch.Job, len(b.Batch.Runs))
		} else {
			add(&b.Batch.Job, 1)
		}
	}
	carried := p.carried()
	for _, r := range p.Runs {
		if carried[r.Plan.Dir] == nil {
			jobs++
			add(&r.Plan.Job, 1)
		}
	}
	text := fmt.Sprintf("%d jobs, at most %.1f node-hours", jobs, hours)
	if jobs != len(p.Runs) {
		text = fmt.Sprintf("%d runs in ", len(p.Runs)) + text
	}
	if open > 0 {
		text += fmt.Sprintf(" and %d without a time limit", open)
	}
	a.logf("%s", text)
	if hours <= limit || yes {
		return nil
	}
	return fail(exitNotSubmit, fmt.Errorf("not submitted: above %.0f node-hours\n\thint: --yes, or --max-node-hours %.0f", limit, hours))
}

// deed is one submission to make. over is the job that executed the run before,
// and has ended.
type deed struct{ dir, over string }

// submit brings every unit of a scenario directory to "submitted".
func (a *app) submit(root string, f submitFlags) error {
	s, err := run.ReadScenario(root)
	if err != nil {
		return fail(exitUsage, err)
	}
	var deeds []deed
	for _, rel := range s.InOrder() {
		deeds = append(deeds, deed{dir: filepath.Join(root, rel)})
	}
	return a.do(root, deeds, nil, f)
}

// do makes submissions, and waits for their runs and the others if it shall.
func (a *app) do(root string, deeds []deed, others []string, f submitFlags) error {
	var open []string
	for _, d := range deeds {
		if _, answered := run.Answered(d.dir); !answered || d.over != "" {
			open = append(open, d.dir)
		}
	}
	if err := a.checkSecrets(open); err != nil {
		return fail(exitNotSubmit, fmt.Errorf("%w\n\thint: profllm slurm resume %s", err, relative(root)))
	}
	sched := a.schedulers()
	submitter := a.submitter(sched, f.Settle)
	dirs := others
	var cleared []string
	var errs []error
	again := "profllm slurm resume"
	for _, d := range deeds {
		o := submitter.Again(a.ctx, d.dir, d.over)
		var refused *run.RefusedError
		if errors.As(o.Err, &refused) && refused.Failed {
			again = "profllm slurm resume --failed"
		}
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", relative(o.Dir), o.Err))
			continue
		}
		if note := o.Submission.Cleared; len(note) > 0 && !slices.Equal(note, cleared) {
			cleared = note
			a.logf("note: cleared for sbatch: %s", strings.Join(note, " "))
		}
		how := "submitted"
		if o.Submission.Adopted {
			how = "adopted"
		}
		fmt.Fprintf(a.stdout, "%s job %s  %s%s%s\n", how, o.Submission.JobID, relative(o.Dir), prefixed(", ", carries(o.Unit)),
			prefixed(", after ", strings.Join(o.Submission.Waits, " and ")))
		dirs = append(dirs, o.Unit.Runs()...)
	}
	if err := errors.Join(errs...); err != nil {
		return fail(exitNotSubmit, fmt.Errorf("%w\n\thint: %s %s", err, again, relative(root)))
	}
	if f.Wait || f.Watch {
		return a.tellEnd(f.notifyFlags, root, a.wait(sched, dirs, f.Watch))
	}
	return nil
}

// carries says what a batch is, "" for a run.
func carries(u *run.Unit) string {
	if u.Batch == nil {
		return ""
	}
	return fmt.Sprintf("%s of %d runs", u.Kind(), len(u.Batch.Runs))
}

// jobs says which job carries each run, adopting those of interrupted
// submissions. What cannot be found out is said, and the other runs go on.
func (a *app) jobs(dirs []string) map[string]run.Submission {
	var book run.Book
	carriers, units := map[string]string{}, map[string]run.Submission{}
	var order []string
	for _, dir := range dirs {
		unit, err := book.Unit(dir)
		if err != nil {
			a.logf("note: %s: %v", relative(dir), err)
			continue
		}
		if _, seen := units[unit]; !seen {
			units[unit] = run.Submission{}
			order = append(order, unit)
		}
		carriers[dir] = unit
	}
	answers, answered := make([]run.Submission, len(order)), make([]bool, len(order))
	run.AtOnce(len(order), run.SmallFiles, func(i int) { answers[i], answered[i] = run.Answered(order[i]) })
	known := a.schedulers()
	for i, unit := range order {
		if !answered[i] {
			sub, adopted, err := run.Adopt(a.ctx, known.finder(unit), unit, a.now())
			if err != nil {
				a.logf("note: %s: look for its job: %v", relative(unit), err)
			} else if adopted {
				a.logf("adopted job %s for %s", sub.JobID, relative(unit))
			}
			answers[i] = sub
		}
		units[unit] = answers[i]
	}
	subs := map[string]run.Submission{}
	for dir, unit := range carriers {
		subs[dir] = book.Submission(dir, units[unit])
	}
	return subs
}

// read says which job carries each run, as it stands on disk.
func (a *app) read(dirs []string) map[string]run.Submission {
	var book run.Book
	subs := map[string]run.Submission{}
	for _, dir := range dirs {
		sub, err := book.ReadSubmission(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.logf("note: %s: %v", relative(dir), err)
		}
		subs[dir] = sub
	}
	return subs
}

// coming is an error if a command submits some of the runs at this moment, whose
// jobs nobody could cancel yet.
func (a *app) coming(dirs []string, subs map[string]run.Submission) error {
	var errs []error
	now := a.read(dirs)
	for _, dir := range dirs {
		sub := subs[dir]
		if sub.JobID != "" || sub.Refused != "" {
			continue
		}
		if id := now[dir].JobID; id != "" {
			errs = append(errs, fmt.Errorf("%s: job %s was submitted meanwhile", relative(dir), id))
		} else if why := run.Submitting(cmp.Or(sub.Batch, dir), a.now()); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", relative(dir), why))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fail(exitJobFailed, fmt.Errorf("%w\n\thint: end that command, or wait for it, then cancel once more", errors.Join(errs...)))
}

// toCancel lists the ids that end the jobs of runs: an array of which nothing is
// left out as a whole, and a sequence only as a whole.
func (a *app) toCancel(dirs []string, subs map[string]run.Submission, states map[string]run.State) []string {
	open := map[string]int{} // of each batch
	for _, dir := range dirs {
		if subs[dir].JobID != "" && !states[dir].Final() {
			open[subs[dir].Batch]++
		}
	}
	var ids []string
	for _, dir := range dirs {
		sub := subs[dir]
		if sub.JobID == "" || states[dir].Final() {
			continue
		}
		if states[dir].Note == run.Forgotten { // its id may be another job's by now
			a.logf("note: %s: Slurm does not know job %s, which is not cancelled", relative(dir), sub.JobID)
			continue
		}
		id := sub.JobID
		if u, err := run.ReadUnit(cmp.Or(sub.Batch, dir)); err == nil && u.Batch != nil && !slices.Contains(ids, run.BaseID(id)) {
			switch all := len(u.Batch.Runs); {
			case open[sub.Batch] == all:
				id = run.BaseID(id)
			case u.Kind() == plan.Sequence:
				a.logf("note: %s is part of a sequence: job %s is cancelled as a whole", relative(dir), id)
			}
		}
		if !slices.Contains(ids, id) && !slices.Contains(ids, run.BaseID(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}
