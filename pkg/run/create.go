package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
)

// Printed is a run with its script and the scripts of its hooks: first those before the
// run, then those after it.
type Printed struct {
	Plan   *plan.Plan
	Script []byte
	Hooks  [][]byte
}

// PrintedBatch is a batch with its script.
type PrintedBatch struct {
	Batch  *plan.Batch
	Script []byte
}

// Create makes the directory of a scenario with everything that is known before
// submission. The directory is built under another name and renamed, so it appears whole
// or not at all. If it exists already, the error is fs.ErrExist.
func Create(root string, s Scenario, runs []Printed, batches []PrintedBatch) (err error) {
	if exists(root) {
		return fmt.Errorf("create %s: %w", root, fs.ErrExist)
	}
	if s.Units, err = order(root, runs, batches); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	temp, err := unfinishedDir(root)
	if err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if s.Runs, err = fillAll(root, temp, runs, batches); err != nil {
		return err
	}
	for name, kept := range s.Definitions {
		file := filepath.Join(temp, DefinitionDir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := WriteFile(file, kept.Data, kept.Mode); err != nil {
			return err
		}
	}
	if err := WriteJSON(filepath.Join(temp, ScenarioFile), s); err != nil {
		return err
	}
	if err := durable.Rename(temp, root); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(root)); err != nil {
		return errors.Join(err, os.RemoveAll(root)) // nothing of it was submitted yet
	}
	return nil
}

// fillAll writes runs and batches, whose directories are below root, below temp. It returns the
// runs' directories as they are below root.
func fillAll(root, temp string, runs []Printed, batches []PrintedBatch) ([]string, error) {
	var dirs []string
	for _, r := range runs {
		rel, err := filepath.Rel(root, r.Plan.Dir)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, rel)
		if err := Fill(filepath.Join(temp, rel), r.Plan, r.Script, r.Hooks...); err != nil {
			return nil, err
		}
	}
	for _, b := range batches {
		rel, err := filepath.Rel(root, b.Batch.Dir)
		if err != nil {
			return nil, err
		}
		if err := FillBatch(filepath.Join(temp, rel), b.Batch, b.Script); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// Whole makes a directory that appears with all its files or not at all: fill writes the
// files under another name. If the directory exists already, the error is fs.ErrExist.
func Whole(dir string, fill func(temp string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	temp, err := unfinishedDir(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // once renamed there is nothing
	if err := folders(temp); err != nil {
		return err
	}
	if err := fill(temp); err != nil {
		return err
	}
	return durable.Move(temp, dir)
}

// unfinishedDir is the name under which this command builds a directory. Those
// beside it that killed commands of this host left are removed.
func unfinishedDir(target string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	parent, mark := filepath.Dir(target), partial+host+"-"
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		_, word, found := strings.Cut(e.Name(), mark)
		pid, err := strconv.Atoi(word)
		// Of this process it is that of an earlier one with the same number.
		if found && err == nil && e.IsDir() && (pid == os.Getpid() || !process.Exists(pid)) {
			if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%s%s%d", target, mark, os.Getpid()), nil
}

// order lists what is submitted, below root: each unit behind those it waits
// for, and else in the order of the runs.
func order(root string, runs []Printed, batches []PrintedBatch) ([]string, error) {
	carrier, waits := map[string]string{}, map[string][]plan.After{} // by run, by unit
	for _, b := range batches {
		waits[b.Batch.Dir] = b.Batch.Job.After
		for _, dir := range b.Batch.Runs {
			carrier[dir] = b.Batch.Dir
		}
	}
	for _, r := range runs {
		if carrier[r.Plan.Dir] == "" {
			carrier[r.Plan.Dir] = r.Plan.Dir
			waits[r.Plan.Dir] = r.Plan.Job.After
		}
	}
	var units []string
	const open, done = 1, 2
	seen := map[string]int{}
	var visit func(unit string) error
	visit = func(unit string) error {
		switch seen[unit] {
		case open:
			return fmt.Errorf("%s waits for itself", unit)
		case done:
			return nil
		}
		seen[unit] = open
		for _, a := range waits[unit] {
			if parent := carrier[a.Dir]; parent != "" && parent != unit {
				if err := visit(parent); err != nil {
					return fmt.Errorf("%w\n\tthrough %s", err, unit)
				}
			}
		}
		seen[unit] = done
		rel, err := filepath.Rel(root, unit)
		units = append(units, rel)
		return err
	}
	for _, r := range runs {
		if err := visit(carrier[r.Plan.Dir]); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// Fill makes one run directory, with those of its hooks and loads; dir replaces p.Dir.
func Fill(dir string, p *plan.Plan, script []byte, hooks ...[]byte) error {
	if err := folders(dir); err != nil {
		return err
	}
	data, err := p.Encode()
	if err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, PlanFile), data, 0o644); err != nil {
		return err
	}
	for i := range p.Loads {
		if err := fillLoad(dir, p, &p.Loads[i]); err != nil {
			return err
		}
	}
	for i, h := range hooksOf(p) {
		if h.Plan == nil || i >= len(hooks) {
			return fmt.Errorf("%s: the hook %q has no plan or no script", p.Dir, h.Name)
		}
		if err := Fill(movedPath(dir, p, h.Dir), h.Plan, hooks[i]); err != nil {
			return err
		}
	}
	if p.Kubernetes != nil {
		return WriteFile(filepath.Join(dir, ManifestFile), script, 0o644)
	}
	return WriteFile(filepath.Join(dir, ScriptFile), script, 0o755)
}

// LoadMark is load.json: it names the run to which a load's directory belongs.
type LoadMark struct {
	Schema string `json:"schema"` // profllm.load/1
	RunID  string `json:"run_id"`
	Name   string `json:"name"`
	Run    string `json:"run"` // the run directory, relative to this one
}

func fillLoad(dir string, p *plan.Plan, l *plan.Load) error {
	if l.Dir == p.Dir || l.Dir == "" {
		return nil
	}
	at := movedPath(dir, p, l.Dir)
	if err := folders(at); err != nil {
		return err
	}
	back, err := filepath.Rel(at, dir)
	if err != nil {
		return err
	}
	return WriteJSON(filepath.Join(at, LoadFile),
		LoadMark{Schema: "profllm.load/1", RunID: l.RunID, Name: l.Name, Run: back})
}

func folders(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, RawDir), 0o755); err != nil {
		return err // the other has the same, most often
	}
	return os.MkdirAll(filepath.Join(dir, LogDir), 0o755)
}

// hooksOf lists the hooks of a plan: those before it, then those after it.
func hooksOf(p *plan.Plan) []plan.Hook {
	return append(append([]plan.Hook(nil), p.PreTest...), p.PostTest...)
}

// movedPath is where a directory of a plan lies if the run's is dir.
func movedPath(dir string, p *plan.Plan, path string) string {
	rel, err := filepath.Rel(p.Dir, path)
	if err != nil {
		return path
	}
	return filepath.Join(dir, rel)
}

// FillBatch makes the directory of a batch; dir replaces b.Dir.
func FillBatch(dir string, b *plan.Batch, script []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := WriteJSON(filepath.Join(dir, BatchFile), b); err != nil {
		return err
	}
	list := strings.Join(b.Runs, "\n") + "\n"
	if strings.Count(list, "\n") != len(b.Runs) {
		return fmt.Errorf("%s: the name of a run directory contains a newline", dir)
	}
	if err := WriteFile(filepath.Join(dir, RunsFile), []byte(list), 0o644); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, ScriptFile), script, 0o755)
}

// AddBatch makes the directory of one more batch of a scenario, whole or not at all. If
// another command has already used this number, the error is fs.ErrExist.
func AddBatch(b *plan.Batch, script []byte) error {
	temp, err := unfinishedDir(b.Dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := FillBatch(temp, b, script); err != nil {
		return err
	}
	return durable.Move(temp, b.Dir)
}

// Batches lists the numbers of a scenario's batches, ascending.
func Batches(root string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(root, BatchDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && strconv.Itoa(n) == e.Name() {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}
