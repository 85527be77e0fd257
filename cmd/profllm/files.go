package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
)

// siteFlags say where the cluster is described.
type siteFlags struct {
	System    string `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; default: ask Slurm, or for run and serve this machine."`
	OutputDir string `placeholder:"DIR" help:"Parent of the result directories; default: the system's output_path."`
}

// planFlags are what makes a plan of a scenario.
type planFlags struct {
	makeFlags
	Single   bool   `name:"single-sbatch" help:"Run everything in one allocation, one run after the other."`
	Continue string `placeholder:"DIR" type:"existingdir" help:"Continue the sweeps of an earlier execution: skip its points; random and tpe learn from its results."`
}

// makeFlags are what every plan is made by.
type makeFlags struct {
	siteFlags
	definitionFlags
	Launcher  string `enum:"${launchers}" default:"" placeholder:"NAME" help:"Use this launcher for all tests: ${launcher_list}."`
	Templates string `placeholder:"DIR" type:"existingdir" help:"Folder of templates that replace or extend the built-in templates."`
	Time      string `placeholder:"RFC3339" help:"Time that names the result directory and the run ids; default: now."`

	live bool // ask Slurm which nodes of a group are free
}

// definitionFlags say where the files are that a scenario refers to.
type definitionFlags struct {
	TestsDir string `placeholder:"DIR" type:"existingdir" help:"Folder of test files, including its subfolders; default: tests, test or ../test beside the scenario."`
	HookDir  string `placeholder:"DIR" type:"existingdir" help:"Folder of hooks, with their tests in its subfolder test; default: conf/hook here, or hook, ../hook or ../../hook beside the scenario."`
}

type initCmd struct {
	File string `arg:"" optional:"" help:"File to write; default: standard output."`
}

func (c initCmd) Run(ctx context.Context, a *app) error {
	sys, err := a.client().NewSystem(ctx)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("ask Slurm: %w", err))
	}
	if c.File == "" {
		_, err := fmt.Fprint(a.stdout, sys.TOML())
		return err
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fail(exitUsage,
			fmt.Errorf("%s is there already, and init overwrites no file\n\thint: name another file, or none to print it", c.File))
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	_, err = f.WriteString(sys.TOML())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	a.logf("wrote %s; next: check its paths, account and launcher, then profllm verify %s", c.File, c.File)
	return nil
}

func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	return campaign.Relative(wd, path)
}

// options are what the flags say of a plan.
func (f planFlags) options(simulate bool) (campaign.Options, error) {
	o := campaign.Options{
		System: f.System, OutputDir: f.OutputDir, Folders: definition.Folders(f.definitionFlags), Launcher: f.Launcher,
		Templates: f.Templates, Simulate: simulate, Single: f.Single, Continue: f.Continue, Live: f.live,
	}
	if f.Time == "" {
		return o, nil
	}
	var err error
	if o.Time, err = time.Parse(time.RFC3339, f.Time); err != nil {
		return o, fail(exitUsage, fmt.Errorf("--time: must be a time, such as 2026-11-25T22:00:00Z, not %q", f.Time))
	}
	return o, nil
}

// plan plans every run of a scenario for Slurm.
func (a *app) plan(ctx context.Context, file string, f planFlags, simulate bool) (*campaign.Planned, error) {
	o, err := f.options(simulate)
	if err != nil {
		return nil, err
	}
	p, err := a.client().Plan(ctx, file, o)
	if err == nil {
		err = p.ForSlurm()
	}
	return p, err
}

// events prints what happens meanwhile.
type events struct{ *app }

// Say implements campaign.Events.
func (e events) Say(l campaign.Level, text string) {
	e.logf("%s%s", map[campaign.Level]string{campaign.Note: "note: ", campaign.Warning: "warning: "}[l], text)
}

// Submitted implements campaign.Events.
func (e events) Submitted(o run.Outcome) {
	if d, ok := e.documentOf().(*document.Jobs); ok {
		d.Submitted(o)
		if !strings.HasPrefix(o.Submission.JobID, run.LocalPrefix) {
			return
		}
	}
	if strings.HasPrefix(o.Submission.JobID, run.LocalPrefix) {
		e.logf("%s: %s%s", relative(o.Dir), where(o), prefixed(", ", o.Unit.Carries()))
		return
	}
	how := "submitted"
	if o.Submission.Adopted {
		how = "adopted"
	}
	fmt.Fprintf(e.stdout, "%s job %s  %s%s%s\n", how, o.Submission.JobID, relative(o.Dir),
		prefixed(", ", o.Unit.Carries()),
		prefixed(", after ", strings.Join(o.Submission.Waits, " and ")))
}

// where is what a job of this machine runs on.
func where(o run.Outcome) string {
	u := o.Unit
	p, err := run.ReadPlan(u.Runs()[0])
	switch gpus := u.Job().GPUsPerNode; {
	case o.Submission.Allocation != "":
		return quantity.Count(u.Job().Nodes, "node") + " of job " + o.Submission.Allocation
	case err != nil || p.Rehearsal != nil:
		return quantity.Count(u.Job().Nodes, "simulated node")
	case gpus == 0:
		return "this machine"
	default:
		return "this machine, " + quantity.Count(gpus, "GPU")
	}
}

// client acts for the user who typed the command.
func (a *app) client() *campaign.Client {
	if a.acts == nil {
		a.acts = &campaign.Client{Environ: a.environ, Version: version(), Now: a.now, Uptime: a.uptime,
			Events: events{a}}
		a.acts.WorkDir, _ = os.Getwd() // paths stay absolute without one
		a.acts.Executable, _ = executable()
	}
	return a.acts
}
