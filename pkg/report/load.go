package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
)

// Files that a report reads.
const (
	recordFile     = "result.json"
	planFile       = "plan.json"
	foreignFile    = "test-run.toml" // CloudAI's record of a run
	foreignResult  = "vllm-bench.json"
	trajectoryFile = "trajectory.csv"
)

// Run is one record, where it was found, and what was asked for.
type Run struct {
	Dir      string // as the path was given
	Case     Case
	Result   *result.Result    // nil if there is none that can be read
	Problem  string            // why there is none
	Settings map[string]string // by key, as CloudAI spells it: NUM_NODES, cmd_args.…, bench_cmd_args.…, extra_env_vars.…
	Values   []Setting         // what a sweep chose, in its order
	Reward   *float64          // of the sweep's trajectory

	job     string // the runs of one job have the same
	series  string // the points of one sweep have the same
	gpus    int    // that the job held, used or not; 0: not known
	ordinal []string
}

// Case says which point of a scenario a run is.
type Case struct {
	Scenario  string `json:"scenario,omitempty"`
	Test      string `json:"test"`
	Iteration int    `json:"iteration"`
	Step      int    `json:"step,omitempty"`  // from 1; 0: no point of a sweep
	Phase     string `json:"phase,omitempty"` // of a test with several loads
}

// String is the test's id, with what tells its runs apart.
func (c Case) String() string {
	s := c.Test
	if c.Phase != "" {
		s += " " + c.Phase
	}
	if c.Iteration > 0 {
		s += fmt.Sprintf(" iter=%d", c.Iteration)
	}
	if c.Step > 0 {
		s += fmt.Sprintf(" step=%d", c.Step)
	}
	return s
}

// Setting is one value of the configuration.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (s Setting) String() string { return s.Key + "=" + s.Value }

// Load reads every record at or below the paths, which may also name records.
// A run without a record, and a record that cannot be read, is a Run that says
// so. The order is that of the directories, numbers by their value.
func Load(paths ...string) ([]Run, error) {
	l := loader{seen: map[string]bool{}, plans: map[string]*planned{}, rewards: map[string]map[int]float64{}}
	for _, path := range paths {
		if filepath.Base(path) == recordFile {
			path = filepath.Dir(path)
		}
		path = filepath.Clean(path)
		if d, err := os.Lstat(path); err == nil && d.Mode()&fs.ModeSymlink != 0 {
			if path, err = filepath.EvalSymlinks(path); err != nil {
				return nil, err
			}
		}
		if err := l.walk(path); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(l.runs, func(a, b Run) int { return slices.CompareFunc(a.ordinal, b.ordinal, natural) })
	return l.runs, nil
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

type loader struct {
	runs    []Run
	seen    map[string]bool
	plans   map[string]*planned // by directory; nil: none there
	rewards map[string]map[int]float64
}

// planned is a plan and the directories of its loads, as they are now.
type planned struct {
	*plan.Plan
	loads map[string]*plan.Load
	err   error
}

// inside are the directories of a run that hold no runs of their own.
var inside = []string{"raw", "logs", "attempts", "pre_test", "post_test", "telemetry", "bin"}

// part reports whether a directory belongs to the run above it.
func part(dir string) bool {
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

func (l *loader) walk(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		dir := filepath.Dir(path)
		switch d.Name() {
		case planFile:
			l.planned(dir)
		case recordFile, foreignFile, foreignResult:
			l.run(dir)
		}
		return nil
	})
}

// planned adds the run of every load of a plan.
func (l *loader) planned(dir string) {
	p := l.plan(dir)
	if p.err != nil {
		l.run(dir)
		return
	}
	for at := range p.loads {
		l.run(at)
	}
}

// plan reads the plan of a directory once; nil if there is none.
func (l *loader) plan(dir string) *planned {
	if p, ok := l.plans[dir]; ok {
		return p
	}
	l.plans[dir] = nil
	data, err := os.ReadFile(filepath.Join(dir, planFile))
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
		rel, err := filepath.Rel(p.Dir, p.Loads[i].Dir) // the whole may have been moved
		if err != nil || !filepath.IsLocal(rel) {
			p.err = fmt.Errorf("load %q lies outside of its run: %s", p.Loads[i].Name, p.Loads[i].Dir)
			return p
		}
		p.loads[filepath.Join(dir, rel)] = &p.Loads[i]
	}
	return p
}

// run adds the run of one directory.
func (l *loader) run(dir string) {
	if l.seen[dir] {
		return
	}
	r := Run{Dir: dir, Case: place(dir), job: dir, series: filepath.Dir(dir)}
	r.Result, r.Problem = record(dir)
	covered := false
	for _, at := range []string{dir, filepath.Dir(dir)} {
		p := l.plan(at)
		if p == nil || p.err != nil {
			continue
		}
		if load := p.loads[dir]; load != nil {
			r.asPlanned(p.Plan, load, at)
			covered = true
		} else if at == dir && r.Result == nil { // its loads lie below
			return
		}
		break
	}
	if !covered {
		r.asRecorded()
	}
	if p := l.plan(dir); p != nil && p.err != nil && r.Result == nil {
		r.Problem = p.err.Error()
	}
	if r.Case.Step > 0 {
		r.Reward = l.reward(r.series, r.Case.Step)
	}
	l.add(r)
}

func (l *loader) add(r Run) {
	l.seen[r.Dir] = true
	r.ordinal = strings.Split(filepath.ToSlash(r.Dir), "/")
	l.runs = append(l.runs, r)
}

// record reads result.json, or says why it cannot be read.
func record(dir string) (*result.Result, string) {
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "no result.json yet: profllm collect writes it"
	case err != nil:
		return nil, err.Error()
	}
	r, err := result.Decode(data)
	if err != nil {
		return nil, err.Error()
	}
	return r, ""
}

var stamp = regexp.MustCompile(`_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}$`)

// place reads a case from a path: <scenario>_<time>/<test>/<iteration>[/<step>].
// Anything else is a test by the name of its directory.
func place(dir string) Case {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	elems := strings.Split(filepath.ToSlash(dir), "/")
	var numbers []int
	for len(elems) > 1 && len(numbers) < 2 {
		n, err := strconv.Atoi(elems[len(elems)-1])
		if err != nil || n < 0 {
			break
		}
		numbers = append([]int{n}, numbers...)
		elems = elems[:len(elems)-1]
	}
	c := Case{Test: elems[len(elems)-1]}
	if len(elems) > 1 && stamp.MatchString(elems[len(elems)-2]) {
		c.Scenario = stamp.ReplaceAllString(elems[len(elems)-2], "")
	}
	if len(numbers) > 0 {
		c.Iteration = numbers[0]
	}
	if len(numbers) > 1 {
		c.Step = numbers[1]
	}
	return c
}

// asPlanned takes from the plan what the record does not say.
func (r *Run) asPlanned(p *plan.Plan, load *plan.Load, dir string) {
	r.Case = Case{Scenario: p.Scenario, Test: p.Test, Iteration: p.Iteration}
	r.job, r.gpus = dir, p.Job.Nodes*p.Job.GPUsPerNode
	swept := p.Step > 0 || len(load.Values) > 0
	switch n, err := strconv.Atoi(filepath.Base(r.Dir)); {
	case swept && err == nil:
		r.Case.Step = n
	case swept:
		r.Case.Step = p.Step
	default:
		r.Case.Phase = load.Name
	}
	r.Settings = plannedSettings(p, load)
	for _, v := range load.Values {
		r.Values = append(r.Values, Setting{settingKey(v.Path), asText(v.Value)})
	}
}
