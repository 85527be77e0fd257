package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
)

type lockCmd struct {
	Run_ string `arg:"" name:"run" type:"existingdir" help:"A run directory, or the directory of a scenario for all of its runs."`
	Save string `placeholder:"FILE" help:"Write to this file; default: standard output."`
}

// Run writes the lock of what was planned and, as far as records say it, found.
func (c lockCmd) Run(a *app) error {
	f, err := a.lock(c.Run_)
	if err != nil {
		return err
	}
	data, err := f.Encode()
	if err != nil {
		return err
	}
	if c.Save != "" {
		return run.WriteFile(c.Save, data, 0o644)
	}
	_, err = a.stdout.Write(data)
	return err
}

// lock reads what a run directory, or that of a scenario, was planned from.
func (a *app) lock(dir string) (*lockfile.File, error) {
	root := run.Root(dir)
	if root == "" {
		return nil, fail(exitUsage, fmt.Errorf("%s is neither a run of profllm nor the directory of a scenario\n\thint: give what a submission or a rehearsal made, as results/NAME_TIME", dir))
	}
	sc, err := run.ReadScenario(root)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	if sc.Continues != "" {
		return nil, fail(exitUsage, fmt.Errorf("%s goes on with the sweeps of %s: its points follow from results, which no lock holds\n\thint: profllm lock %s", dir, sc.Continues, sc.Continues))
	}
	if sc.Confirm != nil {
		return nil, fail(exitUsage, fmt.Errorf("%s is of a confirmation, whose runs are of two scenarios, and a lock is of one\n\thint: profllm confirm %s %s makes the same pairs of the definitions that are kept there",
			dir, filepath.Join(root, catalog.Sides[0]), filepath.Join(root, catalog.Sides[1])))
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
		f.Runs, f.Profllm, f.Git = append(f.Runs, r), p.Version, p.Source.Git
	}
	if len(f.Runs) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("%s is no run of the scenario in %s\n\thint: profllm lock %s", dir, root, filepath.Join(root, first(sc.Runs...))))
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
		a.logf("note: %s has no record, so that the engine's version is not locked: profllm collect %s", relative(dir), relative(dir))
	case err != nil:
		return r, err
	default:
		rec, err := result.Decode(data)
		if err != nil {
			return r, fmt.Errorf("%s: %w", dir, err)
		}
		if x := rec.Provenance; x != nil {
			r.EngineVersion, r.Fingerprint = x.EngineVersion, x.Fingerprint
			r.ModelRevision, r.ImageDigest = first(x.ModelRevision, r.ModelRevision), first(x.ImageDigest, r.ImageDigest)
		}
	}
	if r.Image != "" && r.ImageDigest == "" && !p.Simulated {
		a.logf("note: no digest of image %s is known: the name may come to mean another image (profllm stage, or a name with @sha256:…)", r.Image)
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
			a.logf("warning: %s holds what looks like a secret, and so does the lock: write { env = … } or { file = … } before you give it to anybody", relative(name))
		}
		files = append(files, lockfile.Definition{Name: filepath.ToSlash(rel), Text: string(data)})
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fail(exitUsage, fmt.Errorf("%w\n\thint: the definitions are not kept with runs of CloudAI, or of the first versions of profllm", err))
	}
	return files, err
}

// loadLock reads the definitions of a lock.
func loadLock(file string, data []byte) (*scenario.Scenario, *definitions, error) {
	f, err := lockfile.Parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	d := &definitions{lock: f}
	for _, x := range f.Files {
		in := scenario.File{Name: file + "/" + x.Name, Data: []byte(x.Text)}
		switch dir := path.Dir(x.Name); {
		case x.Name == scenarioCopy:
			d.top = in
		case x.Name == systemCopy:
			d.site = in.Data
		case dir == "hook":
			d.hooks.Scenarios = append(d.hooks.Scenarios, in)
		default:
			if below, ok := belowIn(dir, "hook/test"); ok {
				in.Below = below
				d.hooks.Tests = append(d.hooks.Tests, in)
			} else if below, ok := belowIn(dir, "tests"); ok {
				in.Below = below
				d.tests = append(d.tests, in)
			}
		}
	}
	if d.top.Name == "" {
		return nil, nil, fmt.Errorf("%s: the lock holds no %s\n\thint: write it again: profllm lock RUN", file, scenarioCopy)
	}
	s, err := scenario.Load(d.top, d.tests, d.hooks)
	return s, d, err
}

// belowIn is the path of a folder relative to one that it is or lies in.
func belowIn(dir, in string) (below string, ok bool) {
	below, ok = strings.CutPrefix(dir+"/", in+"/")
	return strings.TrimSuffix(below, "/"), ok
}

// systemOf reads the system file of a lock, or the one that is named.
func (a *app) systemOf(d *definitions, file string, simulate bool) (*config.System, error) {
	if d.lock == nil || d.site == nil {
		return a.system(file, simulate)
	}
	if file != "" {
		a.logf("note: the lock's own system file is used, not %s", relative(file))
	}
	sys, err := parseSystem(path.Dir(d.top.Name)+"/"+systemCopy, d.site)
	return sys, fail(exitDefinition, err)
}

// obey leaves of a plan what is locked, and refuses it if anything is not as it was.
func (a *app) obey(f *lockfile.File, p *planned, layers []fs.FS) error {
	if p.Simulated != f.Simulated {
		a.logf("note: the lock is of measured runs: a simulation of them is not compared with it")
	} else {
		var list []lockfile.Planned
		for _, r := range p.Runs {
			one := lockfile.Planned{Plan: r.Plan, Script: r.Script, Root: p.Root}
			for i, h := range slices.Concat(r.Plan.PreTest, r.Plan.PostTest) {
				one.Hooks = append(one.Hooks, lockfile.Planned{Plan: h.Plan, Script: r.Hooks[i], Root: p.Root})
			}
			list = append(list, one)
		}
		differs, err := f.Compare(list)
		if err != nil {
			return err
		}
		if len(differs) > 0 {
			text := make([]string, len(differs))
			for i, d := range differs {
				text[i] = d.String()
			}
			hint := "put back what differs, or submit the scenario itself"
			if f.Profllm != version() {
				hint += fmt.Sprintf("; profllm %s planned it, this is %s", f.Profllm, version())
			}
			return fail(exitNotSubmit, fmt.Errorf("not as it was locked:\n\t%s\n\thint: %s", strings.Join(text, "\n\t"), hint))
		}
	}
	alone := p.only(f)
	for _, r := range alone {
		a.logf("note: %s is submitted alone: the runs that it waited for, or ended with, are not locked", r.Plan.Test)
		var err error
		if r.Script, err = render.Script(r.Plan, layers...); err != nil {
			return fmt.Errorf("test %s: %w", r.Plan.Test, err)
		}
	}
	return nil
}

// only leaves the locked runs, with what must be found again in their plans, and
// without what carried the others. It returns those that lost runs to wait for.
func (p *planned) only(f *lockfile.File) (alone []*run.Printed) {
	kept := map[string]bool{}
	p.Runs = slices.DeleteFunc(p.Runs, func(r run.Printed) bool {
		l := f.Of(r.Plan)
		if l != nil {
			r.Plan.Locked = &plan.Locked{RunID: l.RunID, EngineVersion: l.EngineVersion, ImageDigest: l.ImageDigest, ModelRevision: l.ModelRevision}
			kept[r.Plan.Dir] = true
		}
		return l == nil
	})
	if f.Whole {
		return nil
	}
	p.Batches = nil
	for i := range p.Runs {
		job := &p.Runs[i].Plan.Job
		other := func(dir string) bool { return !kept[dir] }
		before := len(job.After) + len(job.Until)
		job.After = slices.DeleteFunc(job.After, func(x plan.After) bool { return other(x.Dir) })
		job.Until = slices.DeleteFunc(job.Until, other)
		if len(job.After)+len(job.Until) < before {
			alone = append(alone, &p.Runs[i])
		}
	}
	return alone
}
