package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/trajectory"
)

type collectCmd struct {
	placeFlags
	outputFlag
	Paths   []string `arg:"" optional:"" help:"Run or scenario directories, folders of them, or archives; default: the results folder."`
	Offline bool     `help:"Do not ask Slurm; use what is on disk."`
}

// What is read of a run is garbage with its record: the heap may grow by so many
// percent until it is looked for, and from so many bytes on it is looked for at once.
const (
	garbage = 500
	roomy   = 160 << 20
)

func (c collectCmd) Run(ctx context.Context, a *app) error {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(roomy))
	given, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	paths, done, err := a.unpacked(ctx, given)
	defer done()
	if err != nil {
		return err
	}
	dirs, unread := a.runDirs(paths)
	if unread != nil && len(dirs) == 0 {
		return unread
	}
	if len(dirs) == 0 && a.sayLogs(given) {
		return exit(exitUsage)
	}
	if len(dirs) == 0 {
		return fail(exitUsage, fmt.Errorf("no runs below %s\n\thint: name the directory of a run, of a scenario, or of a load client's output; import single files of other programs with profllm import FILE --output-dir DIR", strings.Join(given, " ")))
	}
	states, known := map[string]run.State{}, a.remember(dirs)
	live := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return a.called(dir) != dir || known.settled[dir] != nil })
	if !c.Offline && len(live) > 0 {
		if states, err = a.client().States(ctx, live, a.client().Jobs(ctx, live)); err != nil {
			a.logf("note: Slurm was not asked: %v", err)
		}
	}
	a.answers(&collectDocument{head: head{Schema: "profllm.output.collect/1"}, out: a.stdout})
	if err = a.report(ctx, known, dirs, states); err == nil {
		return unread
	}
	if unread != nil {
		a.complain(unread) // the runs that could be read decide the exit code
	}
	return err
}

// runError is what is wrong with a run, in the words of the user's paths.
type runError struct {
	dir, text string
	err       error
}

func (e *runError) Error() string { return e.dir + ": " + e.text }

func (e *runError) Unwrap() error { return e.err }

// collected is what became of the collection of one run.
type collected struct {
	dir   string
	state string // of its job
	rows  []row
	sweep *trajectory.Sweep // nil for no point of one
	err   error
}

// ahead is how many runs are in memory at the same time: the next are collected
// when these are printed.
const ahead = 64

// atOnce is the least number of runs that are collected at the same time: on a
// shared file system each waits more than it computes.
const atOnce = 16

// report collects runs, prints them, and answers for the worst.
func (a *app) report(ctx context.Context, known memory, dirs []string, states map[string]run.State) error {
	col, err := a.client().Collector()
	if err != nil {
		return err
	}
	out := a.newPrinter()
	swept := trajectory.Places{}
	var book run.Book
	var sum tally
	for some := range slices.Chunk(dirs, ahead) {
		if err := ctx.Err(); err != nil {
			known.save() // what was collected until now need not be read again
			return err
		}
		all := make([]collected, len(some))
		run.AtOnce(len(some), max(atOnce, 2*runtime.GOMAXPROCS(0)), func(i int) { all[i] = collectRun(col, &known, some[i], states) })
		for _, c := range all {
			if c.err != nil {
				a.complain(&runError{relative(a.called(c.dir)), a.called(c.err.Error()), c.err})
				sum.failed += count(len(c.rows) == 0)
				sum.unkept++
			}
			noJob := c.noJob(&book)
			for _, row := range c.rows {
				row.Dir, row.NoJob = a.called(row.Dir), noJob
				if err := out.add(row); err != nil {
					return err
				}
				sum.add(&c, row)
			}
			swept.Add(c.dir, c.sweep)
		}
	}
	known.save()
	if err := swept.Tabulate(); err != nil {
		a.logf("note: no table of the sweep was written: %s", a.called(err.Error()))
	}
	if err := out.end(); err != nil {
		return err
	}
	return sum.exit()
}

// tally counts what decides the exit code.
type tally struct{ failed, invalid, open, idle, unkept int }

func (n *tally) add(c *collected, row row) {
	switch r := row.Result; {
	case row.NoJob != "":
		n.idle++
	case r.Status == result.Unknown:
		n.open++
	case r.JobFailed():
		n.failed += count(!c.endedAsPlanned())
	case !r.Validity.Valid:
		n.invalid += count(!c.endedAsPlanned())
	}
}

// exit is the worst: docs/reference/exit-codes.md has the order.
func (n *tally) exit() error {
	switch {
	case n.failed > 0:
		return exit(exitJobFailed)
	case n.invalid > 0:
		return exit(exitInvalid)
	case n.open > 0:
		return exit(exitNotOver)
	case n.idle > 0:
		return exit(exitNotSubmit)
	case n.unkept > 0:
		return exit(exitInternal)
	}
	return nil
}

// collectRun collects one run, with what is known of its job, unless it is known to
// come to the same again.
func collectRun(col *collect.Collector, known *memory, dir string, states map[string]run.State) collected {
	if c, ok := recalled(dir, known.settled[dir]); ok {
		return c
	}
	var asked *run.State
	st, ok := states[dir]
	var unread error
	if !ok {
		ok, unread = run.ReadRecord(filepath.Join(dir, run.StateFile), &st)
	}
	if ok {
		asked = &st
	}
	if c, ok := known.recall(dir, asked); ok && unread == nil {
		return c
	}
	look := known.look(dir)
	c := collected{dir: dir, state: st.State}
	records, err := col.Write(dir, asked)
	for _, rec := range records {
		c.rows = append(c.rows, row{Dir: rec.Dir, Result: rec.Result})
	}
	if c.err = errors.Join(err, unread); len(records) > 0 {
		c.sweep = trajectory.Of(records[0].Plan)
	}
	known.keep(c, look, asked, records)
	return c
}

// noJob says why nothing will come of a run that has no verdict: Slurm refused its job, or
// nobody submitted one. "" for every other run.
func (c *collected) noJob(book *run.Book) string {
	open := func(r row) bool { return r.Result.Status == result.Unknown }
	if !slices.ContainsFunc(c.rows, open) {
		return ""
	}
	sub, err := book.ReadSubmission(c.dir)
	switch {
	case sub.Refused != "":
		return "refused"
	case sub.JobID != "", err != nil && !errors.Is(err, fs.ErrNotExist):
		return ""
	}
	if ok, err := run.ReadRecord(filepath.Join(c.dir, run.ClaimFile), new(run.Claim)); ok || err != nil {
		return ""
	}
	return "not submitted"
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// endedAsPlanned reports whether a job was over, well, because the runs that it
// accompanied were: what it has measured by then is what was asked for.
func (c *collected) endedAsPlanned() bool {
	if c.state != run.Succeeded {
		return false
	}
	events, err := job.ReadEvents(c.dir)
	return err == nil && job.WasEnded(events)
}
