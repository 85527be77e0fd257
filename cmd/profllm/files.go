package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/conf"
	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/scheduler/slurm"
	"github.com/profllm/profllm/scenarios"
	"github.com/profllm/profllm/templates"
)

// siteFlags say where the cluster is described.
type siteFlags struct {
	System    string `aliases:"system-config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; without one, Slurm is asked."`
	OutputDir string `placeholder:"DIR" help:"Parent of the result directories; default: the system's output_path."`
}

// planFlags are what makes a plan.
type planFlags struct {
	siteFlags
	definitionFlags
	Single    bool   `name:"single-sbatch" help:"Everything in one allocation, one run after the other."`
	Launcher  string `enum:",pyxis,bare" default:"" help:"Replaces every launcher: pyxis or bare."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in ones."`
	Time      string `placeholder:"RFC3339" help:"Use this time instead of now: it names the directory and the run ids."`

	live bool // ask Slurm which nodes of a group are free
}

// definitionFlags say where the files are that a scenario refers to.
type definitionFlags struct {
	TestsDir string `placeholder:"DIR" type:"existingdir" help:"Folder of test files; default: tests, test or ../test beside the scenario."`
	HookDir  string `placeholder:"DIR" type:"existingdir" help:"Folder of hooks, their tests in test; default: conf/hook here, or hook, ../hook or ../../hook beside the scenario."`
}

// planned is a scenario, ready to print or to submit.
type planned struct {
	Name    string
	Digest  string
	Root    string
	Created time.Time
	Plans   []*plan.Plan
	Batches []*plan.Batch
	Scripts [][]byte
}

// plan reads the definitions, plans every run and renders its script.
func (a *app) plan(file string, f planFlags, simulate bool) (*planned, error) {
	s, files, err := loadScenario(file, f.definitionFlags)
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	sys, err := a.system(f.System, simulate)
	if err != nil {
		return nil, err
	}
	o := catalog.Options{Version: version(), Created: a.now(), Simulated: simulate, Launcher: f.Launcher, Single: f.Single}
	if f.Time != "" {
		if o.Created, err = time.Parse(time.RFC3339, f.Time); err != nil {
			return nil, fail(exitUsage, fmt.Errorf("--time: %w", err))
		}
	}
	if o.WorkDir, err = os.Getwd(); err != nil {
		return nil, err
	}
	if o.Output, err = filepath.Abs(first(f.OutputDir, sys.OutputPath)); err != nil {
		return nil, err
	}
	if o.Binary = sys.Binary; o.Binary == "" {
		if o.Binary, err = executable(); err != nil {
			return nil, err
		}
	}
	p := &planned{Name: s.Name, Digest: digest(files), Root: catalog.Root(s, o), Created: o.Created}
	if f.live && s.NodeGroups() {
		if o.Inventory, err = a.slurm().Inventory(a.ctx); err != nil {
			return nil, fail(exitNotSubmit, fmt.Errorf("ask Slurm for the states of its nodes: %w", err))
		}
	}
	set, err := catalog.Plans(s, sys, o)
	if err != nil {
		return nil, fail(exitDefinition, err)
	}
	p.Plans, p.Batches = set.Plans, set.Batches
	for _, skipped := range set.Skipped {
		a.logf("note: test %s, point %d (%s) is left out: %v", skipped.Test, skipped.Step, skipped.Label, skipped.Err)
	}
	layers := []fs.FS{templates.FS}
	if f.Templates != "" {
		layers = append([]fs.FS{os.DirFS(f.Templates)}, layers...)
	}
	for _, run := range p.Plans {
		script, err := render.Script(run, layers...)
		if err != nil {
			return nil, fail(exitDefinition, fmt.Errorf("test %s: %w", run.Test, err))
		}
		p.Scripts = append(p.Scripts, script)
		for _, note := range run.Notes {
			a.logf("note: %s", note)
		}
	}
	return p, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// loadScenario reads a scenario, its test files and its hooks. The name "demo"
// that is no file is the built-in one.
func loadScenario(file string, f definitionFlags) (*scenario.Scenario, []scenario.File, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && file == scenarios.Demo {
		data, err = fs.ReadFile(scenarios.FS, scenarios.Demo+".toml")
		file = "scenarios/" + scenarios.Demo + ".toml"
	}
	if err != nil {
		return nil, nil, err
	}
	top := scenario.File{Name: file, Data: data}
	beside := filepath.Dir(file)
	tests, err := readTOML(first(f.TestsDir, folder(beside, "tests", "test", "../test")))
	if err != nil {
		return nil, nil, err
	}
	var hooks scenario.HookFiles
	if dir := first(f.HookDir, folder(".", "conf/hook"), folder(beside, "hook", "../hook", "../../hook")); dir != "" {
		if hooks.Scenarios, err = readTOML(dir); err != nil {
			return nil, nil, err
		}
		if hooks.Tests, err = readTOML(folder(dir, "test", "tests")); err != nil {
			return nil, nil, err
		}
	}
	s, err := scenario.Load(top, tests, hooks)
	return s, slices.Concat(tests, hooks.Scenarios, hooks.Tests, []scenario.File{top}), err
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
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[i] = scenario.File{Name: name, Data: data}
	}
	return files, nil
}

// system reads the system file, or asks Slurm. A rehearsal falls back to the
// built-in site of simulated nodes.
func (a *app) system(file string, simulate bool) (*config.System, error) {
	if file != "" {
		data, err := os.ReadFile(file)
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
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return path
}
