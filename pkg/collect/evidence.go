package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// evidence is what one run directory holds, read once and then never changed. Each load
// of the run has its own copy, in which at, files and load are set.
type evidence struct {
	dir      string
	shown    string     // dir as commands name it; "": as it was planned
	at       string     // where the load's files lie
	files    *listing   // of at
	load     *plan.Load // nil for a run of CloudAI
	state    *run.State
	plan     *plan.Plan // nil for a run of CloudAI
	place    *run.Placement
	unplaced *run.Placement // of fewer nodes than the plan needs
	claim    run.Claim
	looked   *job.Preflight
	sentinel *run.Sentinel
	events   []job.Event
	twins    []string // loads whose client began at the same time to the last digit
	unread   warnings
	starts   func() []start // what the engines said at their start, read once for all loads
}

// readEvidence reads the files of a run that describe its job. state is what a scheduler
// says of the job, nil if nobody was asked.
func readEvidence(dir string, state *run.State) (*evidence, error) {
	e := &evidence{dir: dir, state: state}
	return e, e.read()
}

func (e *evidence) read() error {
	w := &e.unread
	var err error
	if e.plan, err = run.ReadPlan(e.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if e.plan != nil {
		if err := e.plan.Sound(); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(e.dir, run.PlanFile), err)
		}
	}
	var place run.Placement
	var sentinel run.Sentinel
	var looked job.Preflight
	for _, f := range []struct {
		name string
		into any
		have func()
	}{
		{run.PlacementFile, &place, func() { e.place = &place }},
		{run.PreflightFile, &looked, func() { e.looked = &looked }},
		{run.SentinelFile, &sentinel, func() { e.sentinel = &sentinel }},
		{run.ClaimFile, &e.claim, func() {}},
	} {
		// An unreadable file is an error, except an empty claim: every other file is
		// replaced whole, but a crash or a full disk can leave the claim without content.
		switch err := run.ReadJSON(filepath.Join(e.dir, f.name), f.into); {
		case err == nil:
			f.have()
		case !errors.Is(err, fs.ErrNotExist) && f.name != run.ClaimFile:
			return err
		case errors.As(err, new(*fs.PathError)):
			w.unread(f.name, err)
		}
	}
	if n := nodesNeeded(e.plan); e.place != nil && len(e.place.Nodes) < n {
		w.add(result.Warning{
			Kind: result.Unreadable, File: run.PlacementFile,
			Text: fmt.Sprintf("nodes: %d, but the plan needs %d; the placement of the run is not known",
				len(e.place.Nodes), n),
		})
		e.unplaced, e.place = e.place, nil
	}
	var bad []int
	if e.events, bad, err = job.ReadAllEvents(e.dir); len(bad) > 0 && e.sentinel != nil {
		w.add(result.Warning{
			Kind: result.Unreadable, File: run.EventFile, Line: bad[0],
			Text: fmt.Sprintf("%d lines are not events, the first of them line %d; their content is not known",
				len(bad), bad[0]),
		})
	}
	e.starts = sync.OnceValue(func() []start { return startsOf(e.dir, e.plan) })
	return err
}

// nodesNeeded is how many nodes the plan's roles are spread over, at least one.
func nodesNeeded(p *plan.Plan) int {
	if p == nil {
		return 0
	}
	n := min(1, p.Job.Nodes)
	for i := range p.Roles {
		n = max(n, p.Roles[i].Nodes.End())
	}
	return n
}

// loads returns the evidence of each load that ran; of a run of CloudAI, which has no
// plan, that of the whole.
func (e *evidence) loads() ([]*evidence, error) {
	if e.plan == nil {
		return []*evidence{e.ofLoad(nil, e.dir)}, nil
	}
	var each []*evidence
	for i := range e.plan.Loads {
		l := &e.plan.Loads[i]
		if leftOut(e.events, l) {
			continue
		}
		at, err := loadDir(e.dir, e.plan, l)
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(filepath.Join(at, run.PlanFile)); err == nil && at != filepath.Clean(e.dir) {
			return nil, fmt.Errorf("%s: loads[%d].dir is a run of its own, which keeps its record: %s",
				filepath.Join(e.dir, run.PlanFile), i, at)
		}
		each = append(each, e.ofLoad(l, at))
	}
	return each, nil
}

// ofLoad returns the evidence of a load whose files lie in at.
func (e *evidence) ofLoad(l *plan.Load, at string) *evidence {
	one := *e
	one.load, one.at, one.files = l, at, list(at)
	return &one
}

// loadDir is where the files of a load lie. The whole may have been moved since it was
// planned.
func loadDir(dir string, p *plan.Plan, l *plan.Load) (string, error) {
	if l.Dir == "" {
		return dir, nil
	}
	at, err := filepath.Rel(p.Dir, l.Dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, at), nil
}

// over reports whether a scheduler said that the job has ended.
func (e *evidence) over() bool { return e.state != nil && e.state.Final() }
