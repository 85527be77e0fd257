package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/dryrun"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

type slurmCmd struct {
	DryRun dryRunCmd `cmd:"" meant:"plan" name:"dry-run" help:"Print the plan and the script of each run; submit nothing."`
	Submit submitCmd `cmd:"" meant:"run,start,launch" help:"Submit every run of a scenario."`
	Resume resumeCmd `cmd:"" help:"Submit the unfinished runs of a scenario."`
	Status statusCmd `cmd:"" meant:"ps,queue" help:"Show job states."`
	Watch  watchCmd  `cmd:"" meant:"follow,wait" help:"Follow runs live, then collect and exit with the jobs' result."`
	Logs   logsCmd   `cmd:"" meant:"log,tail" help:"Show the relevant lines of a run's logs."`
	Cancel cancelCmd `cmd:"" meant:"kill,stop" help:"Cancel the jobs of runs."`
}

type dryRunCmd struct {
	planFlags
	Scenario string `arg:"" meant:"test-scenario" help:"Scenario file, lock file, or demo (the built-in scenario)."`
	Simulate bool   `help:"Plan with the simulated engine."`
	Output   string `meant:"format" enum:"text,json,script" default:"text" help:"text (points, cost, and a table and the script of each run), json (the plans, then the batches; their schema tells which), or script (only the scripts)."`
	Save     string `placeholder:"DIR" help:"Also write plan.json and job.sh of each run to DIR."`
	TestOnly bool   `help:"Ask Slurm whether it accepts each script; this uses one job id per script."`
}

func (c dryRunCmd) Run(ctx context.Context, a *app) error {
	p, err := a.plan(ctx, c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return err
	}
	if c.Save != "" {
		if err := dryrun.CheckFolder(p, c.Save); err != nil {
			return fail(exitUsage, err)
		}
	}
	if err := a.printPlans(p, c.Output); err != nil {
		return err
	}
	if c.Save != "" {
		if err := dryrun.Save(p, c.Save); err != nil {
			return err
		}
	}
	if !c.TestOnly {
		return nil
	}
	carried := p.Carried()
	for _, r := range p.Runs {
		if carried[r.Plan.Dir] != nil {
			continue
		}
		if err := a.testOnly(ctx, "test "+r.Plan.Test, r.Script); err != nil {
			return err
		}
	}
	for _, b := range p.Batches {
		if err := a.testOnly(ctx, "batch "+b.Batch.RunID, b.Script); err != nil {
			return err
		}
	}
	return nil
}

// printPlans prints everything that would be submitted, as text, json or script.
func (a *app) printPlans(p *campaign.Planned, format string) error {
	out := bufio.NewWriter(a.stdout)
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(dryrun.Documents(p)); err != nil {
			return err
		}
		return out.Flush()
	}
	// scripts have no colours
	screen := terminal.Screen{Width: a.screenOf(a.stdout).Width}
	if format == "text" {
		dryrun.Write(out, p, true, screen)
		return out.Flush()
	}
	var text bytes.Buffer
	whole := bufio.NewWriter(&text)
	dryrun.Write(whole, p, false, screen)
	return errors.Join(whole.Flush(), a.exact(text.Bytes()))
}

// exact prints what a program is to read: the very bytes, but on a terminal, which would obey some of them.
func (a *app) exact(text []byte) error {
	to := a.stdout
	if !isTerminal(terminal.Below(to)) {
		if shown, ok := to.(*printable.Writer); ok {
			to = shown.Unwrap()
		}
	} else if printable.Text(string(text)) != string(text) {
		a.logf("note: characters that a terminal obeys are written out, such as \\u001b; a file or a pipe gets the very text")
	}
	_, err := to.Write(text)
	return err
}

func (a *app) testOnly(ctx context.Context, what string, script []byte) error {
	f, err := os.CreateTemp("", "profllm-*.sh")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(script); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	answer, err := a.client().Slurm().TestOnly(ctx, f.Name())
	if err != nil {
		return fail(exitNotSubmit, fmt.Errorf("%s: %w", what, err))
	}
	a.logf("%s: Slurm accepts it%s", what, prefixed(": ", answer))
	return nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

type submitFlags struct {
	notifyFlags
	Wait   bool          `help:"Wait for the jobs, collect, and exit with the jobs' result."`
	Watch  bool          `help:"Like --wait, but also print each change of a job state."`
	Settle time.Duration `default:"30s" help:"Time between two searches for the job of an interrupted submission."`

	keep bool // what runs that are over have in a cluster
}

type submitCmd struct {
	planFlags
	submitFlags
	outputFlag
	Scenario     string  `arg:"" meant:"test-scenario" help:"Scenario file, lock file, or demo (the built-in scenario)."`
	Simulate     bool    `help:"Run the simulated engine on Slurm."`
	New          bool    `help:"Submit again although an earlier submission of this scenario was interrupted."`
	Yes          bool    `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64 `default:"100" help:"Ask before submitting more node-hours than this (nodes times time limits)."`
}

func (c submitCmd) Run(ctx context.Context, a *app) error {
	c.live = true
	doc := document.NewJobs("submit")
	root, err := c.begin(ctx, a, doc)
	if err != nil {
		return a.tellUnsent(ctx, c.submitFlags, scenarioName(c.Scenario, c.definitionFlags), "", err)
	}
	doc.Root = root
	return a.submit(ctx, root, c.submitFlags)
}

// begin plans the scenario, and makes its directory.
func (c submitCmd) begin(ctx context.Context, a *app, doc *document.Jobs) (root string, err error) {
	p, err := a.plan(ctx, c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return "", err
	}
	a.answers(doc)
	return a.begin(p, c.New, a.allow(c.MaxNodeHours, c.Yes), "scenario")
}

// begin makes the directory of what was planned, or finds that of an interrupted
// submission, unless --new is given.
func (a *app) begin(p *campaign.Planned, anew bool, allow func(campaign.Cost) error,
	what string) (root string, err error) {
	if anew {
		err := a.client().BeginAnew(p, allow)
		return p.Root, err // BeginAnew may have chosen another name
	}
	root, resumed, err := a.client().Begin(p, allow)
	if err == nil && resumed {
		a.logf("an earlier submission of this %s was interrupted; continuing it in %s (--new starts another)", what,
			relative(root))
	}
	return root, err
}

// placeFlags say where runs are looked for by a command that is given no path: where
// submit puts them.
type placeFlags struct {
	System    string `aliases:"system-config" meant:"site,cluster,config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; without paths, its output_path is searched."`
	OutputDir string `placeholder:"DIR" help:"Results folder to search if no paths are given; default: output_path of the system file, else results."`
}

// paths are the given ones, or the folder of results.
func (f placeFlags) paths(ctx context.Context, a *app, given []string) ([]string, error) {
	if len(given) > 0 {
		return given, fail(exitUsage, definition.RefuseFiles(given...))
	}
	dir := f.OutputDir
	if dir == "" && f.System != "" {
		sys, err := a.client().System(ctx, f.System, false)
		if err != nil {
			return nil, err
		}
		dir = sys.OutputPath
	}
	dir = cmp.Or(dir, "results")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		where := "name the folder that submit printed, or the system file (--system FILE or $PROFLLM_SYSTEM)"
		if f.System != "" || f.OutputDir != "" {
			where = "nothing was submitted to this folder yet; if submit printed another folder, name that one"
		}
		return nil, fail(exitUsage, fmt.Errorf("there is no folder %s here\n\thint: %s", dir, where))
	}
	return []string{dir}, nil
}

// runDirs are the runs below the given paths, or below the folder of results, with the
// paths that were searched.
func (f placeFlags) runDirs(ctx context.Context, a *app, given []string) (paths, dirs []string, err error) {
	if paths, err = f.paths(ctx, a, given); err == nil {
		dirs, err = a.runDirs(paths)
	}
	return paths, dirs, err
}

// scenario is the given directory of a scenario or run, or the only one where submit
// puts them.
func (f placeFlags) scenario(ctx context.Context, a *app, given string) (string, error) {
	if given != "" {
		if err := fail(exitUsage, definition.RefuseFiles(given)); err != nil {
			return "", err
		}
		if info, err := os.Stat(given); err != nil || !info.IsDir() {
			return "", fail(exitUsage, cmp.Or(err, fmt.Errorf("%s is not a directory", given)))
		}
		return filepath.Abs(given)
	}
	paths, err := f.paths(ctx, a, nil)
	if err != nil {
		return "", err
	}
	roots, err := run.Scenarios(paths[0])
	if err != nil {
		return "", fail(exitUsage, err)
	}
	switch len(roots) {
	case 0:
		return "", fail(exitUsage,
			fmt.Errorf("no scenario directory below %s\n\thint: make one with profllm rehearse SCENARIO or profllm slurm submit SCENARIO", paths[0]))
	case 1:
		return roots[0], nil
	}
	return "", fail(exitUsage,
		fmt.Errorf("%d scenario directories below %s\n\thint: name one of them, such as %s", len(roots), paths[0],
			roots[len(roots)-1]))
}

// runDirs finds the run directories below paths; beside an error, those that it found.
func (a *app) runDirs(paths []string) (dirs []string, err error) {
	for _, path := range paths {
		if name, ok := archive.Inside(path); ok {
			return nil, fail(exitUsage,
				fmt.Errorf("%s is an archive, which this command cannot read (collect and report can)\n\thint: profllm archive --restore %s unpacks it", name, path))
		}
	}
	dirs, unread := run.Find(paths...)
	for i, d := range dirs {
		if dirs[i], err = filepath.Abs(d); err != nil {
			return nil, err
		}
	}
	if unread != nil {
		return dirs, fail(exitUsage, unread)
	}
	return dirs, nil
}

type statusCmd struct {
	placeFlags
	outputFlag
	Paths    []string `arg:"" optional:"" help:"Run or scenario directories; default: the results folder."`
	ExitCode bool     `help:"Exit with the jobs' result: 8 while a job is not over; then 5 if a job failed, 6 if a result is invalid, 4 if a run has no job; else 0."`
}

// shortLived is how much the heap may grow between two collections of garbage, in
// percent: what status reads of a run is small, and it ends soon.
const shortLived = 400

func (c statusCmd) Run(ctx context.Context, a *app) error {
	defer debug.SetGCPercent(debug.SetGCPercent(shortLived))
	_, dirs, err := c.runDirs(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	client := a.client()
	subs := client.Jobs(ctx, dirs)
	states, err := client.States(ctx, dirs, subs)
	if err != nil {
		return err
	}
	if err := a.printStates("status", dirs, subs, states); err != nil || !c.ExitCode {
		return err
	}
	return exit(standingCode(campaign.Standings(dirs, subs, states)))
}

// standingCode is the exit code of status --exit-code. While a job is not over it is
// exitNotOver, so that a script can wait for another.
func standingCode(n campaign.Standing) int {
	switch {
	case n.Open > 0:
		return exitNotOver
	case n.Failed > 0:
		return exitJobFailed
	case n.Invalid > 0:
		return exitInvalid
	case n.NotSubmitted > 0:
		return exitNotSubmit
	}
	return exitOK
}

type cancelCmd struct {
	placeFlags
	outputFlag
	Paths []string `arg:"" optional:"" help:"Run or scenario directories."`
	All   bool     `help:"Cancel the jobs of all runs in the results folder; required if no paths are given."`
}

// Run never takes a missing path for all runs.
func (c cancelCmd) Run(ctx context.Context, a *app) error {
	if c.All == (len(c.Paths) > 0) {
		return fail(exitUsage,
			errors.New("name what to cancel: run or scenario directories, or --all\n\thint: profllm slurm status lists the runs"))
	}
	_, dirs, err := c.runDirs(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	client := a.client()
	out, err := client.Cancel(ctx, dirs)
	if err != nil {
		return err
	}
	if err := a.printStates("cancel", dirs, out.Jobs, out.States); err != nil || out.Open == 0 {
		return errors.Join(err, client.BeingSubmitted(dirs, out.Jobs))
	}
	return fail(exitJobFailed,
		fmt.Errorf("not ended after %s: %s", campaign.CancelLimit, quantity.Count(out.Open, "job")))
}
