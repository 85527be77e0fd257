package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/conf"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/scenarios"
	"github.com/profllm/profllm/templates"
)

// siteFlags say where the cluster is described.
type siteFlags struct {
	System    string `aliases:"system-config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; without one, Slurm is asked."`
	OutputDir string `placeholder:"DIR" help:"Parent of the result directories; default: the system's output_path."`
}

// planFlags are what makes a plan of a scenario.
type planFlags struct {
	makeFlags
	Single   bool   `name:"single-sbatch" help:"Everything in one allocation, one run after the other."`
	Continue string `placeholder:"DIR" type:"existingdir" help:"Go on with the sweeps of an earlier execution: its points are not tried again, and its results guide random and tpe."`
}

// makeFlags are what every plan is made by.
type makeFlags struct {
	siteFlags
	definitionFlags
	Launcher  string `enum:"${launchers}" default:"" help:"Replaces every launcher: ${launcher_list}."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in ones."`
	Time      string `placeholder:"RFC3339" help:"Use this time instead of now: it names the directory and the run ids."`

	live bool // ask Slurm which nodes of a group are free
}

// definitionFlags say where the files are that a scenario refers to.
type definitionFlags struct {
	TestsDir string `placeholder:"DIR" type:"existingdir" help:"Folder of test files, subfolders included; default: tests, test or ../test beside the scenario."`
	HookDir  string `placeholder:"DIR" type:"existingdir" help:"Folder of hooks, their tests in test; default: conf/hook here, or hook, ../hook or ../../hook beside the scenario."`
}

// planned is a scenario, ready to print or to submit.
type planned struct {
	Name        string
	Digest      string
	Root        string
	Created     time.Time
	Simulated   bool
	Local       bool // a rehearsal
	Launcher    string
	Single      bool
	WorkDir     string
	Runs        []run.Printed
	Batches     []run.PrintedBatch
	Continued   string // the execution whose sweeps go on here
	Skipped     []run.Skipped
	Definitions map[string][]byte
	Missing     []stage.Item // images that the plans expect in files, and that are not there
	Confirm     *run.Confirmation
}

// plan reads the definitions, plans every run and renders its script.
func (a *app) plan(file string, f planFlags, simulate bool) (*planned, error) {
	s, defs, err := loadScenario(file, f.definitionFlags)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitUsage, err)
	}
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	if defs.lock != nil {
		simulate = simulate || defs.lock.Simulated
	}
	sys, err := a.systemOf(defs, f.System, simulate)
	if err != nil {
		return nil, err
	}
	o, err := a.options(f.makeFlags, sys, simulate)
	if err != nil {
		return nil, err
	}
	if err := a.newName(s.Name, f.makeFlags, &o); err != nil {
		return nil, err
	}
	o.Single = f.Single
	if l := defs.lock; l != nil {
		o.Launcher, o.Single, o.WorkDir = first(f.Launcher, l.Launcher), f.Single || l.Single, first(l.WorkDir, o.WorkDir)
	}
	var absent []stage.Item
	if o.Images, absent, err = stagedImages(s.All(), sys, o); err != nil {
		return nil, err
	}
	p := &planned{
		Name: s.Name, Digest: defs.digest(), Definitions: defs.copies(sys.Source), Root: catalog.Root(s, o), Created: o.Created, Simulated: simulate,
		Launcher: o.Launcher, Single: o.Single, WorkDir: o.WorkDir,
	}
	switch {
	case sys.CacheDockerImagesLocally:
		p.Missing = absent
	case !simulate:
		a.noteFetched(absent, file)
	}
	if f.live && s.NodeGroups() {
		if o.Inventory, err = a.slurm().Inventory(a.ctx); err != nil {
			return nil, fail(exitNotSubmit, fmt.Errorf("ask Slurm for the states of its nodes: %w", err))
		}
	}
	if f.Continue != "" {
		if p.Continued, err = filepath.Abs(f.Continue); err != nil {
			return nil, err
		}
		if o.History, err = history(s, p.Continued); err != nil {
			return nil, fail(exitUsage, err)
		}
	}
	set, err := catalog.Plans(s, sys, o)
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	for _, skipped := range set.Skipped {
		p.Skipped = append(p.Skipped, run.Skipped{Test: skipped.Test, Step: skipped.Step, Values: skipped.Values, Why: skipped.Err.Error()})
		a.logf("note: test %s, point %d (%s) is left out: %v", skipped.Test, skipped.Step, skipped.Label, skipped.Err)
	}
	if len(set.Plans) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("%s: nothing is left to try", relative(f.Continue)))
	}
	a.noteSources(set.Plans, s, defs, sys, o)
	if err := a.printed(p, set, f.Templates); err != nil {
		return nil, err
	}
	if defs.lock != nil {
		if err := a.obey(defs.lock, p, layers(f.Templates)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// options are what every plan needs beside its definitions and the site's images.
func (a *app) options(f makeFlags, sys *config.System, simulate bool) (o catalog.Options, err error) {
	o = catalog.Options{Version: version(), Created: a.now(), Simulated: simulate, Launcher: f.Launcher}
	if f.Time != "" {
		if o.Created, err = time.Parse(time.RFC3339, f.Time); err != nil {
			return o, fail(exitUsage, fmt.Errorf("--time: %w", err))
		}
	}
	if o.WorkDir, err = os.Getwd(); err != nil {
		return o, err
	}
	if o.Output, err = filepath.Abs(first(f.OutputDir, sys.OutputPath)); err != nil {
		return o, err
	}
	if o.Binary = sys.Binary; o.Binary == "" {
		o.Binary, err = executable()
	}
	return o, err
}

// newName sees to it that no directory has the name that a submission gets, unless the user gave its time: one that
// follows another within a second waits for the next.
func (a *app) newName(name string, f makeFlags, o *catalog.Options) error {
	for f.Time == "" {
		if _, err := os.Lstat(catalog.Execution(name, *o)); err != nil {
			return nil // what is wrong with it is said where it is made
		}
		o.Created = o.Created.Truncate(time.Second).Add(time.Second)
		select {
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-time.After(o.Created.Sub(a.now())):
		}
	}
	return nil
}

// printed adds the scripts of what was planned, and says the notes of the plans.
func (a *app) printed(p *planned, set *catalog.Set, templates string) error {
	printed := layers(templates)
	if err := render.CheckLayer(printed[0]); err != nil {
		return fail(exitDefinition, err)
	}
	if err := p.print(set.Plans, set.Batches, printed); err != nil {
		return fail(exitDefinition, err)
	}
	said := map[string]bool{}
	for _, pl := range set.Plans {
		for _, note := range pl.Notes {
			if !said[note] {
				a.logf("note: %s", note)
			}
			said[note] = true
		}
	}
	if !p.Simulated {
		a.noteUnexported(p)
	}
	return nil
}

// noteUnexported names the variables of this shell that tune communication and
// that no job will have: with other numbers than a run by hand the cause would be
// looked for in vain.
func (a *app) noteUnexported(p *planned) {
	carried := p.carried()
	var names []string
	for i := range p.Runs {
		r := &p.Runs[i]
		job := &r.Plan.Job
		if b := carried[r.Plan.Dir]; b != nil {
			job = &b.Job
		}
		names = append(names, r.Unexported(job, a.environ)...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		a.logf("note: set in this shell, and not given to the jobs: %s\n\thint: export = [\"%s\"] in the system file or in [Tests.slurm] passes on what is set here; extra_env_vars sets it in the test",
			strings.Join(names, ", "), strings.Join(names, `", "`))
	}
}

// layers are the folders of templates, the user's first.
func layers(dir string) []fs.FS {
	if dir == "" {
		return []fs.FS{templates.FS}
	}
	return []fs.FS{regular.DirFS(dir), templates.FS}
}

// print renders the scripts of runs, of their hooks, and of batches.
func (p *planned) print(plans []*plan.Plan, batches []*plan.Batch, layers []fs.FS) error {
	for _, pl := range plans {
		printed := run.Printed{Plan: pl}
		var err error
		if printed.Script, err = render.Script(pl, layers...); err != nil {
			return fmt.Errorf("test %s: %w", pl.Test, err)
		}
		for _, h := range append(append([]plan.Hook(nil), pl.PreTest...), pl.PostTest...) {
			script, err := render.Script(h.Plan, layers...)
			if err != nil {
				return fmt.Errorf("test %s, hook %s: %w", pl.Test, h.Name, err)
			}
			printed.Hooks = append(printed.Hooks, script)
		}
		p.Runs = append(p.Runs, printed)
	}
	for _, b := range batches {
		script, err := render.BatchScript(b, layers...)
		if err != nil {
			return fmt.Errorf("batch %s: %w", b.RunID, err)
		}
		p.Batches = append(p.Batches, run.PrintedBatch{Batch: b, Script: script})
	}
	return nil
}

// first is the first of values that is not the zero value.
func first[T comparable](values ...T) T {
	var none T
	for _, v := range values {
		if v != none {
			return v
		}
	}
	return none
}

// loadScenario reads a scenario, its test files and its hooks. The name "demo"
// that is no file is the built-in one.
func loadScenario(file string, f definitionFlags) (*scenario.Scenario, *definitions, error) {
	data, err := regular.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && file == scenarios.Demo {
		data, err = fs.ReadFile(scenarios.FS, scenarios.Demo+".toml")
		file = "scenarios/" + scenarios.Demo + ".toml"
	}
	if err != nil {
		return nil, nil, err
	}
	if lockfile.Is(data) {
		return loadLock(file, data)
	}
	d := &definitions{top: scenario.File{Name: file, Data: data}}
	beside := filepath.Dir(file)
	testsDir := first(f.TestsDir, folder(beside, "tests", "test", "../test"))
	if d.tests, err = readTOML(testsDir); err != nil {
		return nil, nil, err
	}
	hookDir := first(f.HookDir, folder(".", "conf/hook"), folder(beside, "hook", "../hook", "../../hook"))
	hookTests := ""
	if hookDir != "" {
		if d.hooks.Scenarios, err = readTOML(hookDir); err != nil {
			return nil, nil, err
		}
		hookTests = folder(hookDir, "test", "tests")
		if d.hooks.Tests, err = readTOML(hookTests); err != nil {
			return nil, nil, err
		}
	}
	s, err := scenario.Load(d.top, d.tests, d.hooks)
	if err != nil { // a test may lie in a subfolder; most scenarios need no look there
		if s, err = d.loadBelow(testsDir, hookTests); err != nil {
			return nil, nil, err
		}
	}
	return s, d, checkMetrics(s)
}

// loadBelow loads the scenario with the tests in subfolders too, and keeps of these
// what it refers to.
func (d *definitions) loadBelow(testsDir, hookTests string) (*scenario.Scenario, error) {
	tests, err := readBelow(testsDir)
	if err != nil {
		return nil, err
	}
	hooks, err := readBelow(hookTests)
	if err != nil {
		return nil, err
	}
	d.tests, d.hooks.Tests = append(d.tests, tests...), append(d.hooks.Tests, hooks...)
	s, err := scenario.Load(d.top, d.tests, d.hooks)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, t := range s.All() {
		used[t.Table.PosOf("test_template_name").File] = true
	}
	idle := func(f scenario.File) bool { return f.Below != "" && !used[f.Name] }
	d.tests, d.hooks.Tests = slices.DeleteFunc(d.tests, idle), slices.DeleteFunc(d.hooks.Tests, idle)
	return s, nil
}

// checkMetrics looks for the metrics that repeats are to be precise in.
func checkMetrics(s *scenario.Scenario) error {
	var c source.Complaints
	for _, t := range s.All() {
		if t.Repeat.Until == nil {
			continue
		}
		for _, name := range t.Repeat.Until.Metrics {
			if _, err := report.FindMetric(name); err != nil {
				c.Addf(t.Repeat.Pos, "repeat of test %q: %v", t.ID, err)
			}
		}
	}
	return c.Err()
}

// definitions are the files a scenario was read from.
type definitions struct {
	top   scenario.File
	tests []scenario.File
	hooks scenario.HookFiles
	lock  *lockfile.File // they come from, nil for files
	site  []byte         // of a lock: its system file
}

// digest tells one version of the files from another.
func (d *definitions) digest() string {
	h := sha256.New()
	for _, f := range slices.Concat(d.tests, d.hooks.Scenarios, d.hooks.Tests, []scenario.File{d.top}) {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// The names of copied files. A scenario finds the others from its own place.
const (
	scenarioCopy = "scenario.toml"
	systemCopy   = "system.toml"
)

// copies are the files as they are kept with the results.
func (d *definitions) copies(system []byte) map[string][]byte {
	files := map[string][]byte{scenarioCopy: d.top.Data, systemCopy: system}
	for dir, list := range map[string][]scenario.File{"tests": d.tests, "hook": d.hooks.Scenarios, "hook/test": d.hooks.Tests} {
		for _, f := range list {
			files[path.Join(dir, f.Below, filepath.Base(f.Name))] = f.Data
		}
	}
	return files
}

// folder is the first of the names below dir that is a folder, or "".
func folder(dir string, names ...string) string {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return path
		}
	}
	return ""
}

// readTOML reads the TOML files of a folder; none for "".
func readTOML(dir string) ([]scenario.File, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		return nil, err
	}
	files := make([]scenario.File, len(names))
	for i, name := range names {
		data, err := regular.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[i] = scenario.File{Name: name, Data: data}
	}
	return files, nil
}

// readBelow reads the TOML files in subfolders of a folder: a folder for each kind of
// GPU is common. Folders with a leading dot are editors' and git's.
func readBelow(dir string) ([]scenario.File, error) {
	if dir == "" {
		return nil, nil
	}
	var files []scenario.File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == dir || !d.IsDir():
			return err
		case strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		more, err := readTOML(name)
		for i := range more {
			more[i].Below = filepath.ToSlash(below)
		}
		files = append(files, more...)
		return err
	})
	return files, err
}

// system reads the system file, or asks Slurm. A rehearsal falls back to the
// built-in site of simulated nodes.
func (a *app) system(file string, simulate bool) (*config.System, error) {
	if file != "" {
		data, err := regular.ReadFile(file)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		sys, err := parseSystem(file, data)
		return sys, fail(exitDefinition, err)
	}
	if simulate {
		sys, err := config.Parse("conf/local.toml", conf.Local)
		return sys, fail(exitDefinition, err)
	}
	sys, err := a.askSlurm()
	if sys != nil {
		sys.Source = []byte(sys.TOML())
	}
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("no system file, and Slurm does not answer: %w\n\thint: give --system FILE; on a login node, profllm init writes one", err))
	}
	return sys, nil
}

// parseSystem reads a system file, and puts its signatures to the checks of the
// built-in ones.
func parseSystem(file string, data []byte) (*config.System, error) {
	sys, err := config.Parse(file, data)
	if err != nil {
		return nil, err
	}
	_, err = collect.Causes(plan.Signatures(sys))
	return sys, err
}

func (a *app) slurm() *slurm.Slurm { return slurm.New(a.environ, a.now) }

func (a *app) askSlurm() (*config.System, error) {
	sinfo, scontrol, err := a.slurm().Describe(a.ctx)
	if err != nil {
		return nil, err
	}
	return config.FromSlurm(sinfo, scontrol)
}

type initCmd struct {
	File string `arg:"" optional:"" help:"Where to write; default: standard output."`
}

func (c initCmd) Run(a *app) error {
	sys, err := a.askSlurm()
	if err != nil {
		return fail(exitUsage, fmt.Errorf("ask Slurm: %w", err))
	}
	if c.File == "" {
		_, err := fmt.Fprint(a.stdout, sys.TOML())
		return err
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(exitUsage, err)
	}
	_, err = f.WriteString(sys.TOML())
	return errors.Join(err, f.Close())
}

// isRunDir reports whether a path holds a plan.
func isRunDir(path string) bool {
	_, err := os.Stat(filepath.Join(path, "plan.json"))
	return err == nil
}

func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	return relativeTo(wd, path)
}

func relativeTo(wd, path string) string {
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return path
}
