// Package locker makes the lock file of what was submitted or rehearsed, from what lies in its
// directory: the plans and scripts, the definitions that are kept with them, and the records.
package locker

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// NotLockableError says why there is no lock file of a directory.
type NotLockableError struct{ Err error }

func (e *NotLockableError) Error() string { return e.Err.Error() }

func (e *NotLockableError) Unwrap() error { return e.Err }

func notLockable(format string, args ...any) error {
	return &NotLockableError{fmt.Errorf(format, args...)}
}

// Options say how messages are given.
type Options struct {
	Relative func(path string) string         // shortens paths in messages
	Log      func(format string, args ...any) // hears what the lock file lacks, and that it holds secrets
}

// Lock makes the lock file of a run's directory, or of a scenario's for all of its runs: what
// was planned and, as far as records say it, found.
func Lock(dir string, o Options) (*lockfile.File, error) {
	root := run.Root(dir)
	if root == "" {
		return nil, notLockable("%s is neither a run of profllm nor the directory of a scenario\n\thint: "+
			"name the directory of a submission or a rehearsal, such as results/NAME_TIME", dir)
	}
	sc, err := lockable(dir, root)
	if err != nil {
		return nil, err
	}
	f := &lockfile.File{
		Scenario: sc.Name, Simulated: sc.Simulated, Launcher: sc.Launcher, Single: sc.Single, WorkDir: sc.WorkDir,
	}
	var load run.LoadMark // of a point that shares another's service
	if run.ReadJSON(filepath.Join(dir, run.LoadFile), &load) == nil {
		dir = filepath.Join(dir, load.Run)
	}
	at, err := filepath.Rel(root, filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	for _, rel := range sc.Runs {
		if at != "." && rel != at {
			continue
		}
		p, err := run.ReadPlan(filepath.Join(root, rel))
		if err != nil {
			return nil, &NotLockableError{err}
		}
		r, err := o.run(filepath.Join(root, rel), rel, p)
		if err != nil {
			return nil, err
		}
		if p.Rehearsal != nil {
			f.Speed = p.Rehearsal.Speed
		}
		f.Runs, f.Profllm, f.Git = append(f.Runs, r), p.Version, p.Source.Git
	}
	if len(f.Runs) == 0 {
		return nil, notLockable("%s is not a run of the scenario in %s\n\thint: profllm lock %s",
			dir, root, filepath.Join(root, cmp.Or(sc.Runs...)))
	}
	f.Whole = len(f.Runs) == len(sc.Runs)
	f.Files, err = o.definitions(filepath.Join(root, run.DefinitionDir))
	return f, err
}

// lockable reads the scenario of a directory, and refuses one that a lock file cannot reproduce.
func lockable(dir, root string) (run.Scenario, error) {
	sc, err := run.ReadScenario(root)
	switch {
	case err != nil:
		return sc, &NotLockableError{err}
	case sc.Continues != "":
		return sc, notLockable("%s continues the sweeps of %s: its points depend on results, "+
			"which a lock file does not contain\n\thint: profllm lock %s", dir, sc.Continues, sc.Continues)
	case sc.Confirm != nil:
		return sc, notLockable("%s belongs to a confirmation, whose runs are of two scenarios, but a lock file is of one\n"+
			"\thint: profllm confirm %s %s repeats the pairs from the definitions kept there",
			dir, filepath.Join(root, planner.Sides[0]), filepath.Join(root, planner.Sides[1]))
	}
	return sc, nil
}

// run is one run: its plan, and what its record says was found.
func (o Options) run(dir, rel string, p *plan.Plan) (lockfile.Run, error) {
	r := lockfile.Run{
		RunID: p.RunID, Test: p.Test, Iteration: p.Iteration, Step: p.Step, Engine: p.Workload,
		Model: p.Config.Model, ModelRevision: p.Source.ModelRevision,
		Image: p.Image, ImageDigest: p.ImageDigest, Settings: lockfile.Table(p.Settings(&p.Loads[0])),
	}
	heads := map[string]string{}
	for _, c := range p.Source.Repositories {
		heads[c.URL] = c.Commit
	}
	r.Repositories = lockfile.Table(heads)
	planned, err := readPlanned(dir, lockfile.RootOf(p, rel), p)
	if err != nil {
		return r, err
	}
	if r.Plan, r.Script, err = planned.Printed(); err != nil {
		return r, err
	}
	if err := o.addFound(&r, dir, p); err != nil {
		return r, err
	}
	if r.Image != "" && r.ImageDigest == "" && !p.Simulated {
		o.Log("note: the digest of image %s is not known, so the name may point to another image later "+
			"(use profllm stage, or a name with @sha256:…)", r.Image)
	}
	return r, nil
}

// addFound adds what the record of a run says was found: the engine's version, the model's
// revision and the image's digest.
func (o Options) addFound(r *lockfile.Run, dir string, p *plan.Plan) error {
	below, err := filepath.Rel(p.Dir, p.Loads[0].Dir)
	if err != nil {
		return err
	}
	data, err := regular.ReadFile(filepath.Join(dir, below, run.ResultFile))
	if errors.Is(err, fs.ErrNotExist) {
		o.Log("note: %[1]s has no record, so the engine's version is not locked: run profllm collect %[1]s",
			o.Relative(dir))
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := result.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if x := rec.Provenance; x != nil {
		r.EngineVersion, r.Fingerprint = x.EngineVersion, x.Fingerprint
		r.ModelRevision, r.ImageDigest = cmp.Or(x.ModelRevision, r.ModelRevision), cmp.Or(x.ImageDigest, r.ImageDigest)
	}
	return nil
}

// readPlanned reads a run and its hooks as they were printed.
func readPlanned(dir, root string, p *plan.Plan) (lockfile.Planned, error) {
	out := lockfile.Planned{Plan: p, Root: root}
	var err error
	if out.Script, err = regular.ReadFile(filepath.Join(dir, run.ScriptFile)); err != nil {
		return out, err
	}
	for _, h := range slices.Concat(p.PreTest, p.PostTest) {
		rel, err := filepath.Rel(p.Dir, h.Dir)
		if err != nil {
			return out, err
		}
		hook, err := run.ReadPlan(filepath.Join(dir, rel))
		if err != nil {
			return out, err
		}
		printed, err := readPlanned(filepath.Join(dir, rel), root, hook)
		if err != nil {
			return out, err
		}
		out.Hooks = append(out.Hooks, printed)
	}
	return out, nil
}

// definitions reads the definitions that are kept with the results.
func (o Options) definitions(dir string) ([]lockfile.Definition, error) {
	var files []lockfile.Definition
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := regular.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if redact.Shaped(string(data)) {
			o.Log("warning: %s seems to contain a secret, and so does the lock file: "+
				"write { env = … } or { file = … } before you share it", o.Relative(name))
		}
		files = append(files, lockfile.Definition{Name: filepath.ToSlash(rel), Text: string(data)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = notLockable("%w\n\thint: runs of CloudAI and of the first versions of profllm have no stored definitions",
			err)
	}
	return files, err
}
