package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

type collectCmd struct {
	Paths   []string `arg:"" help:"Run or scenario directories, folders of them, or archives."`
	Output  string   `enum:"text,json" default:"text" help:"text or json."`
	Offline bool     `help:"Do not ask Slurm; use what is on disk."`
}

func (c collectCmd) Run(a *app) error {
	paths, done, err := a.unpacked(c.Paths)
	defer done()
	if err != nil {
		return err
	}
	dirs, err := a.runDirs(paths)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fail(exitUsage, fmt.Errorf("no runs below %v", c.Paths))
	}
	states := map[string]run.State{}
	live := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return a.called(dir) != dir })
	if !c.Offline && len(live) > 0 {
		if states, err = a.states(a.schedulers(), live, a.jobs(live)); err != nil {
			a.logf("note: Slurm was not asked: %v", err)
		}
	}
	return a.report(dirs, states, c.Output)
}

func collector() (*collect.Collector, error) {
	causes, err := failure.Builtin()
	if err != nil {
		return nil, err
	}
	return &collect.Collector{Version: version(), Bench: catalog.Benches, Eval: catalog.Evals, Causes: causes}, nil
}

// report collects runs, prints them, and answers for the worst.
func (a *app) report(dirs []string, states map[string]run.State, format string) error {
	col, err := collector()
	if err != nil {
		return err
	}
	type collected struct {
		state   run.State
		records []collect.Record
		err     error
	}
	all := make([]collected, len(dirs))
	run.AtOnce(len(dirs), 2*runtime.GOMAXPROCS(0), func(i int) {
		c := &all[i]
		st, ok := states[dirs[i]]
		if !ok {
			ok = run.ReadJSON(filepath.Join(dirs[i], run.StateFile), &st) == nil
		}
		if c.state = st; ok {
			c.records, c.err = col.Write(dirs[i], &c.state)
		} else {
			c.records, c.err = col.Write(dirs[i], nil)
		}
	})
	var rows []row
	failed, invalid, unkept := 0, 0, 0
	for i, dir := range dirs {
		if err := all[i].err; err != nil {
			a.logf("%s: %s%s", relative(a.called(dir)), a.called(err.Error()), mend(err))
			if len(all[i].records) == 0 {
				failed++
			}
			unkept++
		}
		for _, rec := range all[i].records {
			rows = append(rows, row{a.called(rec.Dir), rec.Result})
			switch r := rec.Result; {
			case r.Status == result.Unknown, endedAsPlanned(dir, all[i].state):
			case jobFailed(r):
				failed++
			case !r.Validity.Valid:
				invalid++
			}
		}
	}
	if err := a.sweeps(dirs); err != nil {
		a.logf("note: no table of the sweep: %s", a.called(err.Error()))
	}
	if err := a.printResults(rows, format); err != nil {
		return err
	}
	switch {
	case failed > 0:
		return exit(exitJobFailed)
	case invalid > 0:
		return exit(exitInvalid)
	case unkept > 0:
		return exit(exitInternal)
	}
	return nil
}

// endedAsPlanned reports whether a job was over, well, because the runs that it
// accompanied were: what it has measured by then is what was asked for.
func endedAsPlanned(dir string, st run.State) bool {
	events, err := job.ReadEvents(dir)
	return err == nil && job.WasEnded(events) && st.State == run.Succeeded
}

// jobFailed tells a run that did not do what it should from one that did and
// whose numbers cannot be believed.
func jobFailed(r *result.Result) bool {
	if r.Status == result.Failed || r.Status == result.Cancelled {
		return true
	}
	for _, word := range []string{"phase-failed", "role-died"} {
		if c := r.Validity.Check(word); c != nil && c.Outcome == result.Fail {
			return true
		}
	}
	return false
}
