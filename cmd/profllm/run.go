package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/progress"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

type runCmd struct {
	planFlags
	Scenario string        `arg:"" optional:"" meant:"test-scenario" help:"Scenario file, lock file, or the file of one experiment (TOML, YAML or JSON)."`
	Config   string        `placeholder:"FILE" help:"The same as the argument."`
	Output   string        `meant:"format" default:"text" placeholder:"FORM|FILE" help:"text, json (one document at the end, also if the command fails; see docs/reference/output.md), or a file for the record of the only run."`
	WaitGPUs time.Duration `name:"wait-gpus" placeholder:"TIME" help:"Wait for free GPUs, such as 2h; default: do not wait."`
	DryRun   bool          `name:"dry-run" help:"Print the plan and the script of each run; run nothing."`
	Simulate bool          `help:"Run the simulated engine; GPUs and ports are taken as for a real one."`
}

// file is the one that the user named.
func (c runCmd) file() (string, error) {
	switch {
	case c.Scenario == "" && c.Config == "":
		return "", fail(exitUsage, errors.New("no file: name that of a scenario or of an experiment"))
	case c.Scenario != "" && c.Config != "":
		return "", fail(exitUsage, fmt.Errorf("%s and --config %s: name one file", c.Scenario, c.Config))
	}
	return cmp.Or(c.Scenario, c.Config), nil
}

// record is where the record goes, "" for nowhere else.
func (c runCmd) record() string {
	if c.Output == "text" || c.Output == "json" {
		return ""
	}
	return c.Output
}

// Run plans a scenario for this machine and runs each job here.
func (c runCmd) Run(ctx context.Context, a *app) error {
	file, err := c.file()
	if err != nil {
		return err
	}
	o, err := c.options(c.Simulate)
	if err != nil {
		return err
	}
	o.Here = true
	p, err := a.client().Plan(ctx, file, o)
	if err != nil {
		return err
	}
	if c.DryRun {
		return a.printPlans(p, plansForm(c.Output))
	}
	if err := fitsRecord(c.record(), p); err != nil {
		return fail(exitUsage, err)
	}
	endsByItself.Store(true)
	doc := document.NewJobs("run")
	a.answers(doc)
	err = a.local(ctx, func(client *campaign.Client, tell func(campaign.LocalProgress)) ([]string, map[string]run.State, error) {
		return client.RunHere(ctx, p, campaign.Here{WaitGPUs: c.WaitGPUs, Progress: tell})
	}, func() string { return p.Root })
	doc.Root = p.Root // the name may have been taken since it was planned
	if c.record() != "" {
		err = errors.Join(err, copyRecord(c.record(), p.Runs[0].Plan.Dir))
	}
	return err
}

// plansForm is how plans are printed: text, unless json is asked for.
func plansForm(output string) string {
	if output == "json" {
		return output
	}
	return "text"
}

// fitsRecord refuses a file that cannot take the record of what was planned, before anything runs.
func fitsRecord(file string, p *campaign.Planned) error {
	if file == "" {
		return nil
	}
	records := 0
	for _, r := range p.Runs {
		records += len(r.Plan.Loads)
	}
	if records != 1 {
		return fmt.Errorf("--output %s takes one record, but there will be %d\n\thint: leave --output out; each run keeps its own result.json, and profllm report and export read all of them", file, records)
	}
	if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("--output %s: there is something else than a file", file)
	}
	if st, err := os.Stat(filepath.Dir(file)); err != nil || !st.IsDir() {
		return fmt.Errorf("--output %s: there is no folder %s", file, filepath.Dir(file))
	}
	return nil
}

// copyRecord copies the record of a run, if there is one: also that of a run which failed says how.
func copyRecord(file, dir string) error {
	data, err := run.ReadFile(filepath.Join(dir, run.ResultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return run.WriteFile(file, data, 0o644)
}

// local runs jobs on this machine while a line shows how far they are, and shows what came of
// them. root is the scenario's directory, once they have run.
func (a *app) local(ctx context.Context,
	start func(*campaign.Client, func(campaign.LocalProgress)) ([]string, map[string]run.State, error),
	root func() string) error {
	line := a.progressLine()
	dirs, states, err := start(a.below(line).client(), line.show)
	line.Set("")
	if len(dirs) == 0 {
		return err
	}
	// Those that an interrupt has ended are judged too: their records say so.
	err = errors.Join(err, a.report(context.WithoutCancel(ctx), a.openCache(dirs), dirs, states), context.Cause(ctx))
	a.next(root(), dirs, states)
	return err
}

// progressLine is a line on standard error that shows how far runs are.
func (a *app) progressLine() progressLine {
	line := progressLine{StatusLine: &terminal.StatusLine{Text: a.stderr, Device: terminal.Below(a.stderr)}, now: a.now}
	line.Columns, _, line.terminal = a.cursorOf(a.stderr)
	return line
}

// below is the app whose messages stand above such a line.
func (a *app) below(line progressLine) *app {
	shown := *a
	shown.stderr, shown.acts = line, nil
	return &shown
}

// doing says what happens inside of runs that are not over.
func (l progressLine) doing(dirs []string) string {
	r := progress.Reader{Dirs: dirs, Name: relative, Now: l.now, Jobs: map[string]run.Submission{}}
	states := map[string]run.State{}
	for _, dir := range dirs {
		var claim run.Claim
		if run.ReadJSON(filepath.Join(dir, run.ClaimFile), &claim) == nil {
			r.Jobs[dir] = run.Submission{JobID: claim.JobID, Time: claim.Time}
			states[dir] = run.State{State: run.Running, JobID: claim.JobID}
		}
	}
	for _, p := range r.Read(states) {
		if p.Job != "" {
			return "; " + p.Inside()
		}
	}
	return ""
}
