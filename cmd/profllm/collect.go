package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/trajectory"
)

type collectCmd struct {
	placeFlags
	outputFlag
	alsoStoreFlag
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
		return fail(exitUsage,
			fmt.Errorf("no runs below %s\n\thint: name the directory of a run, of a scenario, or of a load client's output; import single files of other programs with profllm import FILE --output-dir DIR", strings.Join(given, " ")))
	}
	states, known := map[string]run.State{}, a.openCache(dirs)
	live := slices.DeleteFunc(slices.Clone(dirs),
		func(dir string) bool { return a.archives.Named(dir) != dir || known.IsUnchanged(dir) })
	if !c.Offline && len(live) > 0 {
		if states, err = a.client().States(ctx, live, a.client().Jobs(ctx, live)); err != nil {
			a.logf("note: Slurm was not asked: %v", err)
		}
	}
	a.answers(&document.CollectWriter{Head: document.NewHead("collect"), Out: a.stdout})
	err = a.report(ctx, known, dirs, states)
	if kept := c.keep(ctx, a, given...); kept != nil {
		if codeOf(err) == exitOK {
			return kept
		}
		a.complain(kept) // the runs decide the exit code
	}
	if err == nil {
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

// ahead is how many runs are in memory at the same time: the next are collected
// when these are printed.
const ahead = 64

// atOnce is the least number of runs that are collected at the same time: on a
// shared file system each waits more than it computes.
const atOnce = 16

// report collects runs, prints them, and answers for the worst.
func (a *app) report(ctx context.Context, known *cache.Cache, dirs []string, states map[string]run.State) error {
	col := a.client().Collector()
	out := a.newPrinter()
	swept := trajectory.Places{}
	var book run.Book
	var sum tally
	var foreign *run.ForeignError // of the first run of another user
	for some := range slices.Chunk(dirs, ahead) {
		if err := ctx.Err(); err != nil {
			known.Save() // what was collected until now need not be read again
			return err
		}
		all := make([]cache.Collected, len(some))
		run.AtOnce(len(some), max(atOnce, 2*runtime.GOMAXPROCS(0)),
			func(i int) { all[i] = known.Collect(col, some[i], states) })
		for _, c := range all {
			if len(c.Rows) > 0 && errors.As(c.Err, &foreign) {
				c.Err = nil
			}
			if c.Err != nil {
				a.complain(&runError{relative(a.archives.Named(c.Dir)), a.archives.Named(c.Err.Error()), c.Err})
				sum.failed += count(len(c.Rows) == 0)
				sum.unkept++
			}
			noJob := c.NoJob(&book)
			for _, row := range c.Rows {
				row.Dir, row.NoJob = a.archives.Named(row.Dir), noJob
				if err := out.add(row); err != nil {
					return err
				}
				sum.add(row)
			}
			swept.Add(c.Dir, c.Sweep)
		}
	}
	known.Save()
	if foreign != nil {
		a.logf("note: no record was written: %s", a.archives.Named(foreign.Error()))
	} else if err := swept.Tabulate(); err != nil {
		a.logf("note: no table of the sweep was written: %s", a.archives.Named(err.Error()))
	}
	if err := out.end(); err != nil {
		return err
	}
	return sum.exit()
}

// tally counts what decides the exit code.
type tally struct{ failed, invalid, open, idle, unkept int }

func (n *tally) add(row cache.Row) {
	switch r := row.Result; {
	case row.NoJob != "":
		n.idle++
	case r.IsOpen():
		n.open++
	case r.JobFailed():
		n.failed++
	case !r.IsGood():
		n.invalid++
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

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// openCache opens what is known of runs that were collected before. Those of archives are not
// remembered, because they are unpacked to another place each time.
func (a *app) openCache(dirs []string) *cache.Cache {
	file, _ := os.Executable()
	return cache.Open(dirs, cache.Options{
		Version: version(), Executable: file, Now: a.now(),
		Skip: func(dir string) bool { return a.archives.Named(dir) != dir },
	})
}
