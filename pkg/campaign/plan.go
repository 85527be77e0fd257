package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/manifest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/stage"
	"github.com/profllm/profllm/pkg/trajectory"
	"github.com/profllm/profllm/templates"
)

// Options say how a scenario is planned.
type Options struct {
	System    string // the system file; "" asks Slurm, or means the built-in site of a simulation
	OutputDir string // parent of the result directories; "" means the system's
	Folders   definition.Folders
	Launcher  string    // replaces every launcher
	Templates string    // folder of templates that replace or extend the built-in ones
	Time      time.Time // names the directory and the run ids; zero means now
	Simulate  bool      // the engine is simulated
	Single    bool      // everything in one allocation, one run after the other
	Continue  string    // an earlier execution, with whose sweeps this one goes on
	Live      bool      // ask Slurm which nodes of a group are free
	Here      bool      // for this machine, without a scheduler
	Kube      bool      // for Kubernetes, of which only a system file tells

	Serve *planner.Serve // only the servers of one test; nil: everything

	// Made is a scenario in place of a file's, whose name messages have; nil: the file is read.
	Made *scenario.File

	GPUsPerNode int // replaces that of the system; 0: nothing
	Nodes       int // most that a test may use; 0: no limit
}

// Planned is a scenario, ready to print or to submit.
type Planned struct {
	Scenario    string // as the user named it, for hints
	Name        string
	Digest      string
	Root        string
	Created     time.Time
	Simulated   bool
	Local       bool   // run on this machine
	Held        *Held  // the allocation whose steps its jobs are; nil for none
	Verb        string // of the command that runs it there; "" is rehearse
	Standalone  bool   // the system has no scheduler
	Kubernetes  bool   // the runs are objects of Kubernetes
	Launcher    string
	Single      bool
	WorkDir     string
	Runs        []run.Printed
	Batches     []run.PrintedBatch
	Continued   string // the execution whose sweeps go on here
	Skipped     []run.Skipped
	Definitions map[string]run.Copy
	Missing     []stage.Item // images that the plans expect in files, and that are not there
	Confirm     *run.Confirmation
	Speed       int // of the rehearsal that a lock is of; 0: nothing is said

	staging string // the command that stages its images

	again func() (*Planned, error) // plans it under the next free name; nil if the user gave the name's time
}

// ForSlurm refuses what is planned for a machine without a scheduler.
func (p *Planned) ForSlurm() error {
	if p.Kubernetes {
		return as(Usage, fmt.Errorf("the system's scheduler is \"kubernetes\", not Slurm\n\thint: profllm kube dry-run %s",
			shell.Quote(p.Scenario)))
	}
	if !p.Standalone {
		return nil
	}
	return as(Usage, fmt.Errorf("the system's scheduler is \"standalone\", which is one machine without Slurm\n\thint: profllm run %s",
		shell.Quote(p.Scenario)))
}

// ForKubernetes refuses what is planned for another place.
func (p *Planned) ForKubernetes() error {
	if p.Kubernetes {
		return nil
	}
	return as(Usage, errors.New("the system's scheduler is not \"kubernetes\"\n\thint: name a system file with scheduler = \"kubernetes\" (--system FILE or $PROFLLM_SYSTEM)"))
}

// Plan reads the definitions, plans every run and renders its script.
func (c *Client) Plan(ctx context.Context, file string, f Options) (*Planned, error) {
	s, defs, err := definitions(file, f)
	if err != nil {
		return nil, err
	}
	f.Simulate = f.Simulate || defs.Lock != nil && defs.Lock.Simulated
	held, err := c.held(s, f)
	if err != nil {
		return nil, err
	}
	sys, err := c.planSystem(ctx, defs, f, held)
	if err != nil {
		return nil, err
	}
	o, err := c.newOptions(ctx, s.Name, defs.Lock, f, sys)
	if err != nil {
		return nil, err
	}
	var absent []stage.Item
	if o.Images, absent, err = stagedImages(s.All(), sys, o); err != nil {
		return nil, err
	}
	p := &Planned{
		Scenario: file, Name: s.Name, Digest: defs.Digest(), Definitions: defs.Copies(fileOf(sys)),
		Root: planner.Root(s, o), Created: o.Created, Simulated: f.Simulate,
		Standalone: sys.Standalone(), Kubernetes: sys.Kube() != nil, Held: held,
		Launcher: o.Launcher, Single: o.Single, WorkDir: o.WorkDir, staging: c.staging(file, f),
	}
	if f.Time.IsZero() {
		p.again = func() (*Planned, error) { return c.silent().Plan(ctx, file, f) }
	}
	if sys.CacheDockerImagesLocally {
		p.Missing, absent = absent, nil
	}
	if err := c.lookUp(ctx, s, f, p, &o); err != nil {
		return nil, err
	}
	set, err := planner.Plans(s, sys, o)
	if err != nil {
		return nil, as(Definition, err)
	}
	if err := c.leaveOut(p, set, f); err != nil {
		return nil, err
	}
	c.noteSources(ctx, set.Plans, s, defs, sys, o)
	if err := c.fits(set.Plans, f, held); err != nil {
		return nil, err
	}
	if err := c.printed(p, set, f.Templates); err != nil {
		return nil, err
	}
	if err := c.followLock(defs.Lock, p, layers(f.Templates)); err != nil {
		return nil, err
	}
	if !f.Simulate {
		c.noteFetched(absent, p.staging) // last: a plan that is refused fetches nothing
	}
	return p, nil
}

// definitions reads what is planned. A lock file is of measurements, so no server is kept up with it.
func definitions(file string, f Options) (*scenario.Scenario, *definition.Files, error) {
	s, defs, err := load(file, f)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, as(Usage, err)
	case err != nil:
		return nil, nil, as(Definition, err)
	case defs.Lock != nil && f.Serve != nil:
		return nil, nil, as(Usage,
			fmt.Errorf("%s is a lock file, which reproduces measurements\n\thint: name the scenario", file))
	}
	return s, defs, nil
}

// newOptions are those of a new execution, by the flags and the lock file, if there is one.
func (c *Client) newOptions(
	ctx context.Context, name string, l *lockfile.File, f Options, sys *config.System,
) (planner.Options, error) {
	o, err := c.options(f, sys)
	if err != nil {
		return o, err
	}
	if err := c.newName(ctx, name, f, &o); err != nil {
		return o, err
	}
	o.Single, o.Serve = f.Single, f.Serve
	if l != nil {
		o.Launcher, o.WorkDir = cmp.Or(f.Launcher, l.Launcher), cmp.Or(l.WorkDir, o.WorkDir)
		o.Single = f.Single || l.Single
	}
	return o, nil
}

// lookUp finds what a plan depends on besides its definitions: the states of Slurm's nodes, and the
// points of the execution that it continues.
func (c *Client) lookUp(
	ctx context.Context, s *scenario.Scenario, f Options, p *Planned, o *planner.Options,
) (err error) {
	if err := c.inventory(ctx, s, f, o); err != nil || f.Continue == "" {
		return err
	}
	if p.Continued, err = filepath.Abs(f.Continue); err != nil {
		return err
	}
	if o.History, err = trajectory.History(s, p.Continued); err != nil {
		return as(Usage, err)
	}
	return nil
}

// inventory asks Slurm for the states of its nodes, once, if a scenario names groups of nodes.
func (c *Client) inventory(ctx context.Context, s *scenario.Scenario, f Options, o *planner.Options) (err error) {
	if !f.Live || !s.NodeGroups() || o.Inventory != nil {
		return nil
	}
	if o.Inventory, err = c.Slurm().Inventory(ctx); err != nil {
		return as(NotSubmitted, fmt.Errorf("ask Slurm for the states of its nodes: %w", err))
	}
	return nil
}

// leaveOut notes the points that cannot be planned. The error says that no point is left to try.
func (c *Client) leaveOut(p *Planned, set *planner.Set, f Options) error {
	for _, skipped := range set.Skipped {
		p.Skipped = append(p.Skipped,
			run.Skipped{Test: skipped.Test, Step: skipped.Step, Values: skipped.Values, Why: skipped.Err.Error()})
		c.note("test %s, point %d (%s) is left out: %v", skipped.Test, skipped.Step, skipped.Label, skipped.Err)
	}
	if len(set.Plans) == 0 {
		return as(Usage, fmt.Errorf("%s: every point of its sweeps was tried", c.relative(f.Continue)))
	}
	return nil
}

// load reads a scenario, unless it is given.
func load(file string, f Options) (*scenario.Scenario, *definition.Files, error) {
	if f.Made != nil {
		return definition.Made(*f.Made)
	}
	return definition.Load(file, f.Folders)
}

// CanPlan reports whether any scenario can be planned: the system and the options are in order.
func (c *Client) CanPlan(ctx context.Context, f Options) error {
	sys, err := c.System(ctx, f.System, f.Simulate)
	if err == nil {
		_, err = c.options(f, sys)
	}
	return err
}

// options are what every plan needs beside its definitions and the site's images.
func (c *Client) options(f Options, sys *config.System) (o planner.Options, err error) {
	o = planner.Options{Version: c.Version, Created: f.Time, Simulated: f.Simulate, Launcher: f.Launcher,
		WorkDir: c.WorkDir}
	if f.Time.IsZero() {
		o.Created = c.Now()
	}
	if c.WorkDir == "" {
		return o, errors.New("the working directory was removed or cannot be read")
	}
	if o.Output, err = filepath.Abs(cmp.Or(f.OutputDir, sys.OutputPath)); err != nil {
		return o, err
	}
	what := "output_path of the system"
	if f.OutputDir != "" {
		what = "--output-dir"
	}
	if err := c.CheckFolder(what, o.Output); err != nil {
		return o, err
	}
	if sys.Standalone() {
		o.ImageLauncher = containerProgram()
	}
	if o.Binary = cmp.Or(sys.Binary, c.Executable); o.Binary == "" {
		return o, errors.New("the path of this program is unknown, but jobs need it")
	}
	return o, nil
}

// CheckFolder refuses a folder to write to that is a file, or a link to nothing, before anything
// is done; what names the setting.
func (c *Client) CheckFolder(what, dir string) error {
	if link, target := dangling(dir); link != "" {
		return as(Usage, fmt.Errorf("%s: %s is a symbolic link to %s, which does not exist\n\thint: make that folder, or name another",
			what, c.relative(link), target))
	}
	if info, err := os.Stat(dir); errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return as(Usage, fmt.Errorf("%s is a file, or lies below one: %s\n\thint: name a folder", what, c.relative(dir)))
	}
	return nil
}

// newName sees to it that no directory has the name that a submission gets, unless the user
// gave its time: one that follows another within a second waits for the next.
func (c *Client) newName(ctx context.Context, name string, f Options, o *planner.Options) error {
	for f.Time.IsZero() {
		if _, err := os.Lstat(planner.Execution(name, *o)); err != nil {
			return nil // what is wrong with it is said where it is made
		}
		o.Created = o.Created.Truncate(time.Second).Add(time.Second)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.Created.Sub(c.Now())):
		}
	}
	return nil
}

// printed adds the scripts of what was planned, and says the notes of the plans.
func (c *Client) printed(p *Planned, set *planner.Set, templates string) error {
	printed := layers(templates)
	if err := render.CheckLayer(printed[0]); err != nil {
		return as(Definition, err)
	}
	if err := p.Render(set.Plans, set.Batches, printed); err != nil {
		return as(Definition, err)
	}
	said := map[string]bool{}
	for _, pl := range set.Plans {
		for _, note := range pl.Notes {
			if !said[note] {
				c.note("%s", note)
			}
			said[note] = true
		}
	}
	switch {
	case p.Simulated:
		return c.checkKnobs(p)
	case !p.Kubernetes:
		c.noteUnexported(p)
	}
	return nil
}

// noteUnexported names the variables of this shell that tune communication and
// that no job will have: with other numbers than a run by hand the cause would be
// looked for in vain.
func (c *Client) noteUnexported(p *Planned) {
	carried := p.Carried()
	var names []string
	for i := range p.Runs {
		r := &p.Runs[i]
		job := &r.Plan.Job
		if b := carried[r.Plan.Dir]; b != nil {
			job = &b.Job
		}
		names = append(names, r.Unexported(job, c.Environ)...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		c.note("set in this shell, but not passed to the jobs:  %s\n\thint: export = [\"%s\"] in the system file or in [Tests.slurm] passes the value of this shell; extra_env_vars sets a value in the test",
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

// Render renders the scripts of runs, of their hooks, and of batches.
func (p *Planned) Render(plans []*plan.Plan, batches []*plan.Batch, layers []fs.FS) error {
	for _, pl := range plans {
		printed := run.Printed{Plan: pl}
		var err error
		if pl.Kubernetes != nil {
			printed.Script, err = manifest.Render(pl)
		} else {
			printed.Script, err = render.Script(pl, layers...)
		}
		if err != nil {
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

// Carried says which batch carries a run directory, if one does.
func (p *Planned) Carried() map[string]*plan.Batch {
	by := map[string]*plan.Batch{}
	for _, b := range p.Batches {
		for _, dir := range b.Batch.Runs {
			by[dir] = b.Batch
		}
	}
	return by
}
