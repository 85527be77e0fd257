package records

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/validity"
)

// The files that are read.
const (
	recordFile    = "result.json"
	planFile      = "plan.json"
	foreignFile   = "test-run.toml" // CloudAI's record of a run
	foreignResult = "vllm-bench.json"
)

// Load reads every record at or below the paths, which may also name records.
// A run without a record, and a record that cannot be read, is a Run that says
// so. The order is that of the directories, numbers by their value.
func Load(paths ...string) ([]Run, error) {
	l := loader{
		seen: map[string]bool{}, plans: map[string]*planned{}, loads: map[string]owner{}, looked: map[string]bool{},
		rewards: map[string]map[int]float64{},
	}
	for _, path := range paths {
		if err := l.read(path); err != nil {
			return nil, err
		}
	}
	l.runs = slices.DeleteFunc(l.runs, func(r Run) bool { return r.Result == nil && l.leftOut(r.Dir) })
	namePoints(l.runs)
	slices.SortStableFunc(l.runs, func(a, b Run) int { return slices.CompareFunc(a.ordinal, b.ordinal, natural) })
	return l.runs, nil
}

// read adds the runs at or below a path.
func (l *loader) read(path string) error {
	if filepath.Base(path) == recordFile {
		path = filepath.Dir(path)
	}
	path = filepath.Clean(path)
	if d, err := os.Lstat(path); err == nil && d.Mode()&fs.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	dirs, err := l.walk(path)
	if err != nil {
		return err
	}
	for _, dir := range dirs { // every plan, before a record that one may speak of
		if p := l.plan(dir); p != nil {
			for at := range p.loads {
				dirs = append(dirs, at)
			}
		}
	}
	for _, dir := range dirs {
		l.run(dir)
	}
	return nil
}

// namePoints names points without a plan by the settings in which their sweep's points differ.
func namePoints(runs []Run) {
	series := map[string][]*Run{}
	for i := range runs {
		if r := &runs[i]; r.Case.Step > 0 && r.Case.Point == "" && len(r.Settings) > 0 {
			series[r.Series] = append(series[r.Series], r)
		}
	}
	for _, list := range series {
		for i, text := range plan.Differences(settingsOf(list)) {
			list[i].Case.Point = text
		}
	}
}

// natural compares path elements, numbers by their value.
func natural(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return x - y
	}
	return strings.Compare(a, b)
}

// sweepProgram is what pkg/interchange calls vLLM's sweeps.
const sweepProgram = "vllm bench sweep serve"

// leftOut reports whether a directory is of a series of repeats that ended before it:
// nothing ran there.
func (l *loader) leftOut(dir string) bool {
	o, ok := l.loads[dir]
	if !ok || o.load.Repeat == nil || o.load.Repeat.Until == nil {
		return false
	}
	return slices.ContainsFunc(l.runs, func(r Run) bool {
		if r.Result == nil || r.Result.Repeats == nil || r.Result.Repeats.Group != o.load.Repeat.Group {
			return false
		}
		s := r.Result.Repeats.Series
		return s != nil && s.Stopped != "" && o.load.Repeat.Index >= s.Done
	})
}

type loader struct {
	runs    []Run
	seen    map[string]bool
	plans   map[string]*planned // by directory; nil: none there
	loads   map[string]owner    // by directory
	looked  map[string]bool     // directories whose folders' plans are known
	rewards map[string]map[int]float64
}

// planned is a plan and the directories of its loads, as they are now.
type planned struct {
	*plan.Plan
	loads map[string]*plan.Load
	err   error
}

// owner is the plan that a directory's record belongs to.
type owner struct {
	plan *planned
	load *plan.Load
	dir  string // of the plan
}

// inside are the directories of a run that hold no runs of their own.
var inside = []string{"raw", "logs", "attempts", "pre_test", "post_test", "telemetry", "bin"}

// part reports whether a directory belongs to the run above it.
func part(dir string) bool {
	if run.PartOfSearch(dir) {
		return true
	}
	if !slices.Contains(inside, filepath.Base(dir)) {
		return false
	}
	for _, name := range []string{planFile, recordFile, foreignFile, foreignResult} {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), name)); err == nil {
			return true
		}
	}
	return false
}

// walk lists the directories at or below root that hold a plan, a record, or a
// run of CloudAI.
func (l *loader) walk(root string) ([]string, error) {
	var dirs []string
	return dirs, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			l.add(Run{Dir: path, Case: place(path), Problem: err.Error()})
			return nil
		case d.IsDir() && path != root && (part(path) || strings.Contains(d.Name(), ".partial-")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		switch d.Name() {
		case planFile, recordFile, foreignFile, foreignResult, run.SearchFile:
			if d.Name() == run.SearchFile && !run.IsSearch(path) {
				return nil
			}
			if dir := filepath.Dir(path); len(dirs) == 0 || dirs[len(dirs)-1] != dir {
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
}

// plan reads the plan of a directory once; nil if there is none.
func (l *loader) plan(dir string) *planned {
	if p, ok := l.plans[dir]; ok {
		return p
	}
	l.plans[dir] = nil
	data, err := regular.ReadFile(filepath.Join(dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p := &planned{loads: map[string]*plan.Load{}, err: err}
	l.plans[dir] = p
	if err != nil {
		return p
	}
	if p.Plan, p.err = plan.Decode(data); p.err != nil {
		return p
	}
	for i := range p.Loads {
		load := &p.Loads[i]
		rel, err := filepath.Rel(p.Dir, load.Dir) // the whole may have been moved
		if err != nil || !filepath.IsLocal(strings.TrimPrefix(rel, "../")) {
			p.err = fmt.Errorf("load %q is neither inside its run directory nor beside it: %s", load.Name, load.Dir)
			return p
		}
		at := filepath.Join(dir, rel)
		p.loads[at] = load
		l.loads[at] = owner{p, load, dir}
	}
	return p
}

// owner finds the plan that speaks of a directory: its own, one above it, or that
// of another point of the sweep, with which it shares a server.
func (l *loader) owner(dir string) (owner, bool) {
	for at, level := dir, 0; level < 3; at, level = filepath.Dir(at), level+1 {
		l.plan(at)
	}
	if o, ok := l.loads[dir]; ok {
		return o, true
	}
	for at, level := dir, 0; level < 3; at, level = filepath.Dir(at), level+1 {
		above := filepath.Dir(at)
		if l.looked[above] {
			continue
		}
		l.looked[above] = true
		beside, err := filepath.Glob(filepath.Join(escapeGlob(above), "*", planFile))
		if err != nil {
			break
		}
		for _, file := range beside {
			l.plan(filepath.Dir(file))
		}
	}
	o, ok := l.loads[dir]
	return o, ok
}

// escapeGlob makes a path match itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// run adds the run of one directory.
func (l *loader) run(dir string) {
	if l.seen[dir] {
		return
	}
	r := Run{Dir: dir, Case: place(dir), Job: dir, Series: filepath.Dir(dir)}
	r.Result, r.Problem = record(dir)
	own := l.plan(dir)
	switch o, ok := l.owner(dir); {
	case ok:
		r.asPlanned(o)
	case own != nil && own.err == nil && r.Result == nil:
		return // its loads lie elsewhere
	default:
		r.asRecorded()
		if r.Result != nil && r.Result.Provenance.From() == sweepProgram {
			r.Job = filepath.Dir(dir) // the runs of a combination share a server
		}
	}
	if own != nil && own.err != nil && r.Result == nil {
		r.Problem = own.err.Error()
	}
	if r.Case.Step > 0 {
		l.reward(&r)
	}
	l.add(r)
}

func (l *loader) add(r Run) {
	l.seen[r.Dir] = true
	r.order()
	l.runs = append(l.runs, r)
}

// NotCollected is the problem of a run that has no record yet.
const NotCollected = "no result.json yet: profllm collect writes it"

// record reads result.json, or says why it cannot be read.
func record(dir string) (*result.Result, string) {
	data, err := regular.ReadFile(filepath.Join(dir, recordFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, NotCollected
	case err != nil:
		return nil, err.Error()
	}
	r, err := result.Decode(data)
	if err != nil {
		return nil, err.Error()
	}
	if why := validity.Contradiction(r); why != "" {
		return nil, "result.json was changed after it was judged; profllm collect writes the record again: " + why
	}
	r.Redact() // it may be older than the rules
	return r, ""
}
