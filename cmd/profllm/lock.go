package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

type lockCmd struct {
	placeFlags
	outputFlag
	Run_ string `arg:"" optional:"" name:"run" help:"A run directory, or the directory of a scenario for all of its runs; default: the only one in the results folder."`
	Save string `placeholder:"FILE" help:"Write to this file; default: standard output."`
}

// Run writes the lock of what was planned and, as far as records say it, found.
func (c lockCmd) Run(ctx context.Context, a *app) error {
	dir, err := c.scenario(ctx, a, c.Run_)
	if err != nil {
		return err
	}
	f, err := a.lock(dir)
	if err != nil {
		return err
	}
	data, err := f.Encode()
	if err != nil {
		return err
	}
	if c.Save != "" {
		if err := run.WriteFile(c.Save, data, 0o644); err != nil {
			return err
		}
	}
	if a.json() {
		d := document.NewLock(f)
		if c.Save == "" {
			d.Text = string(data)
		} else {
			d.File = absolute(c.Save)
		}
		a.answers(d)
		return nil
	}
	if c.Save == "" {
		_, err = a.stdout.Write(data)
	}
	return err
}

// lock reads what a run directory, or that of a scenario, was planned from.
func (a *app) lock(dir string) (*lockfile.File, error) {
	root := run.Root(dir)
	if root == "" {
		return nil, fail(exitUsage, fmt.Errorf("%s is neither a run of profllm nor the directory of a scenario\n\thint: name the directory of a submission or a rehearsal, such as results/NAME_TIME", dir))
	}
	sc, err := run.ReadScenario(root)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	if sc.Continues != "" {
		return nil, fail(exitUsage, fmt.Errorf("%s continues the sweeps of %s: its points depend on results, which a lock file does not contain\n\thint: profllm lock %s", dir, sc.Continues, sc.Continues))
	}
	if sc.Confirm != nil {
		return nil, fail(exitUsage, fmt.Errorf("%s belongs to a confirmation, whose runs are of two scenarios, but a lock file is of one\n\thint: profllm confirm %s %s repeats the pairs from the definitions kept there",
			dir, filepath.Join(root, planner.Sides[0]), filepath.Join(root, planner.Sides[1])))
	}
	f := &lockfile.File{Scenario: sc.Name, Simulated: sc.Simulated, Launcher: sc.Launcher, Single: sc.Single, WorkDir: sc.WorkDir}
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
			return nil, fail(exitUsage, err)
		}
		r, err := a.lockedRun(filepath.Join(root, rel), rel, p)
		if err != nil {
			return nil, err
		}
		if p.Rehearsal != nil {
			f.Speed = p.Rehearsal.Speed
		}
		f.Runs, f.Profllm, f.Git = append(f.Runs, r), p.Version, p.Source.Git
	}
	if len(f.Runs) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("%s is not a run of the scenario in %s\n\thint: profllm lock %s", dir, root, filepath.Join(root, cmp.Or(sc.Runs...))))
	}
	f.Whole = len(f.Runs) == len(sc.Runs)
	f.Files, err = a.lockedFiles(filepath.Join(root, run.DefinitionDir))
	return f, err
}

// lockedRun is one run: its plan, and what its record says was found.
func (a *app) lockedRun(dir, rel string, p *plan.Plan) (lockfile.Run, error) {
	r := lockfile.Run{
		RunID: p.RunID, Test: p.Test, Iteration: p.Iteration, Step: p.Step, Engine: p.Workload, Model: p.Config.Model, ModelRevision: p.Source.ModelRevision,
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
	below, err := filepath.Rel(p.Dir, p.Loads[0].Dir)
	if err != nil {
		return r, err
	}
	data, err := regular.ReadFile(filepath.Join(dir, below, run.ResultFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.logf("note: %s has no record, so the engine's version is not locked: run profllm collect %s", relative(dir), relative(dir))
	case err != nil:
		return r, err
	default:
		rec, err := result.Decode(data)
		if err != nil {
			return r, fmt.Errorf("%s: %w", dir, err)
		}
		if x := rec.Provenance; x != nil {
			r.EngineVersion, r.Fingerprint = x.EngineVersion, x.Fingerprint
			r.ModelRevision, r.ImageDigest = cmp.Or(x.ModelRevision, r.ModelRevision), cmp.Or(x.ImageDigest, r.ImageDigest)
		}
	}
	if r.Image != "" && r.ImageDigest == "" && !p.Simulated {
		a.logf("note: the digest of image %s is not known, so the name may point to another image later (use profllm stage, or a name with @sha256:…)", r.Image)
	}
	return r, nil
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

// lockedFiles reads the definitions that are kept with the results.
func (a *app) lockedFiles(dir string) ([]lockfile.Definition, error) {
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
			a.logf("warning: %s seems to contain a secret, and so does the lock file: write { env = … } or { file = … } before you share it", relative(name))
		}
		files = append(files, lockfile.Definition{Name: filepath.ToSlash(rel), Text: string(data)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fail(exitUsage, fmt.Errorf("%w\n\thint: runs of CloudAI and of the first versions of profllm have no stored definitions", err))
	}
	return files, err
}
