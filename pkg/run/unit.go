package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
)

// Unit is one submission: a run, or a batch of runs. Its directory holds
// plan.json or batch.json, the script, and what is known of its job.
type Unit struct {
	Dir   string
	Plan  *plan.Plan  // nil for a batch
	Batch *plan.Batch // nil for a run
}

// Carries says what a batch carries, "" of a run.
func (u *Unit) Carries() string {
	if u.Batch == nil {
		return ""
	}
	return fmt.Sprintf("%s of %s", u.Kind(), quantity.Count(len(u.Batch.Runs), "run"))
}

// ReadUnit reads a run directory or that of a batch.
func ReadUnit(dir string) (*Unit, error) {
	data, err := ReadFile(filepath.Join(dir, BatchFile))
	if errors.Is(err, fs.ErrNotExist) {
		p, err := ReadPlan(dir)
		return &Unit{Dir: dir, Plan: p}, err
	}
	if err != nil {
		return nil, err
	}
	b, err := plan.DecodeBatch(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, BatchFile), err)
	}
	u := &Unit{Dir: dir, Batch: b}
	root := filepath.Dir(filepath.Dir(dir))
	for _, at := range u.Runs() {
		if rel, err := filepath.Rel(root, at); err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("read %s: the run %s lies outside of the scenario's directory", filepath.Join(dir, BatchFile), at)
		}
	}
	return u, nil
}

// Job is what the scheduler is asked for.
func (u *Unit) Job() *plan.Job {
	if u.Batch != nil {
		return &u.Batch.Job
	}
	return &u.Plan.Job
}

// RunID is in the name of the job.
func (u *Unit) RunID() string {
	if u.Batch != nil {
		return u.Batch.RunID
	}
	return u.Plan.RunID
}

// Kind is plan.Array or plan.Sequence, "" for a run.
func (u *Unit) Kind() string {
	if u.Batch != nil {
		return u.Batch.Kind
	}
	return ""
}

// OnKubernetes reports whether the unit is a run whose job is one of Kubernetes.
func (u *Unit) OnKubernetes() bool { return u.Plan != nil && u.Plan.Kubernetes != nil }

// Script is the file that the scheduler is given: the script, or a manifest.
func (u *Unit) Script() string {
	if u.OnKubernetes() {
		return ManifestFile
	}
	return ScriptFile
}

// Verbs is the group of profllm's commands for the jobs of a run or a scenario in a directory: slurm, or
// kube.
func Verbs(dir string) string {
	dirs := []string{dir}
	if s, err := ReadScenario(dir); err == nil && len(s.Runs) > 0 {
		dirs = append(dirs, filepath.Join(dir, s.Runs[0]))
	}
	for _, d := range dirs {
		if found(filepath.Join(d, ManifestFile)) {
			return "kube"
		}
	}
	return "slurm"
}

// Runs lists the run directories that the job carries, in the order of tasks. The paths
// are current, since a scenario's directory may have been moved.
func (u *Unit) Runs() []string {
	if u.Batch == nil {
		return []string{u.Dir}
	}
	was, is := filepath.Dir(filepath.Dir(u.Batch.Dir)), filepath.Dir(filepath.Dir(u.Dir))
	dirs := make([]string, len(u.Batch.Runs))
	for i, dir := range u.Batch.Runs {
		if rel, err := filepath.Rel(was, dir); err == nil {
			dir = filepath.Join(is, rel)
		}
		dirs[i] = dir
	}
	return dirs
}

// JobID is the id of the job that executes run i: in an array, of its task.
func (u *Unit) JobID(id string, i int) string {
	if id != "" && u.Kind() == plan.Array {
		return id + "_" + strconv.Itoa(i)
	}
	return id
}

// BaseID is the id of the array that a task belongs to; other ids are returned unchanged.
func BaseID(id string) string {
	base, _, _ := strings.Cut(id, "_")
	return base
}

// Book finds the unit that carries each run: the newest batch that lists the run, or the
// run itself. It reads a scenario's batches once, and a submission when it is asked for.
// The zero value is ready to use.
type Book struct {
	roots map[string]string  // of the folder of a run; "" for none
	known map[string]bool    // roots whose batches are read
	runs  map[string]carrier // by run directory
}

type carrier struct {
	unit *Unit
	task int
}

// of returns the batch that carries a run, or nothing if it goes by itself.
func (b *Book) of(dir string) (carrier, error) {
	root := b.root(filepath.Dir(dir))
	if root == "" {
		return carrier{}, nil
	}
	if !b.known[root] {
		numbers, err := Batches(root)
		if err != nil {
			return carrier{}, err
		}
		for _, n := range numbers {
			u, err := ReadUnit(filepath.Join(root, BatchDir, strconv.Itoa(n)))
			if err != nil {
				return carrier{}, err
			}
			for i, r := range u.Runs() {
				b.runs[r] = carrier{u, i}
			}
		}
		b.known[root] = true
	}
	return b.runs[dir], nil
}

// root finds the scenario above a folder.
func (b *Book) root(dir string) string {
	if b.roots == nil {
		b.roots, b.known, b.runs = map[string]string{}, map[string]bool{}, map[string]carrier{}
	}
	if root, ok := b.roots[dir]; ok {
		return root
	}
	root := ""
	if parent := filepath.Dir(dir); exists(filepath.Join(dir, ScenarioFile)) {
		root = dir
	} else if parent != dir {
		root = b.root(parent)
	}
	b.roots[dir] = root
	return root
}

// Unit is the directory of the unit that carries a run.
func (b *Book) Unit(dir string) (string, error) {
	c, err := b.of(dir)
	if err != nil || c.unit == nil {
		return dir, err
	}
	return c.unit.Dir, nil
}

// Submission says which job executes a run, given what is known of its unit.
func (b *Book) Submission(dir string, unit Submission) Submission {
	if c := b.runs[dir]; c.unit != nil {
		unit.Batch, unit.Kind = c.unit.Dir, c.unit.Kind()
		unit.JobID = c.unit.JobID(unit.JobID, c.task)
	}
	return unit
}

// ReadSubmission says which job executes a run. Without one it is fs.ErrNotExist.
func (b *Book) ReadSubmission(dir string) (Submission, error) {
	unit, err := b.Unit(dir)
	if err != nil {
		return Submission{}, err
	}
	var s Submission
	err = ReadJSON(filepath.Join(unit, SubmitFile), &s)
	return b.Submission(dir, s), err
}

// NoJob says why no verdict will come of a run without one: Slurm refused its job, for the reason
// that comes behind, or none was submitted. "" for every other run.
func (b *Book) NoJob(dir string) (word, reason string) {
	sub, err := b.ReadSubmission(dir)
	switch {
	case sub.Refused != "":
		return "refused", sub.Refused
	case sub.JobID != "", err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", ""
	}
	if ok, err := ReadRecord(filepath.Join(dir, ClaimFile), new(Claim)); ok || err != nil {
		return "", ""
	}
	return "not submitted", ""
}
