package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/run"
)

type slurmCmd struct {
	DryRun dryRunCmd `cmd:"" name:"dry-run" help:"Print the plan and the script of each run; submit nothing."`
	Submit submitCmd `cmd:"" help:"Submit every run of a scenario."`
	Resume resumeCmd `cmd:"" help:"Submit the unfinished runs of a scenario."`
	Status statusCmd `cmd:"" help:"Show job states."`
	Watch  watchCmd  `cmd:"" help:"Follow runs live, then collect and exit with the jobs' result."`
	Logs   logsCmd   `cmd:"" help:"Show the relevant lines of a run's logs."`
	Cancel cancelCmd `cmd:"" help:"Cancel the jobs of runs."`
}

type dryRunCmd struct {
	planFlags
	Scenario string `arg:"" help:"Scenario file, a lock, or demo."`
	Simulate bool   `help:"Plan with the simulated engine."`
	Output   string `enum:"text,json,script" default:"text" help:"text: a table and the script of each run; json: the plans, then the batches, told apart by their schema; script: the scripts alone."`
	Save     string `placeholder:"DIR" help:"Also write plan.json and job.sh of each run below DIR."`
	TestOnly bool   `help:"Ask Slurm whether it would take each script; uses up a job id each."`
}

func (c dryRunCmd) Run(a *app) error {
	p, err := a.plan(c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return err
	}
	if err := a.printPlans(p, c.Output); err != nil {
		return err
	}
	if c.Save != "" {
		if err := p.save(c.Save); err != nil {
			return err
		}
	}
	if !c.TestOnly {
		return nil
	}
	carried := p.carried()
	for _, r := range p.Runs {
		if carried[r.Plan.Dir] != nil {
			continue
		}
		if err := a.testOnly("test "+r.Plan.Test, r.Script); err != nil {
			return err
		}
	}
	for _, b := range p.Batches {
		if err := a.testOnly("batch "+b.Batch.RunID, b.Script); err != nil {
			return err
		}
	}
	return nil
}

// printPlans prints everything that would be submitted, as text, json or script.
func (a *app) printPlans(p *planned, format string) error {
	out := bufio.NewWriter(a.stdout)
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(p.documents()); err != nil {
			return err
		}
	} else {
		p.write(out, format == "text")
	}
	return out.Flush()
}

func (a *app) testOnly(what string, script []byte) error {
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
	answer, err := a.slurm().TestOnly(a.ctx, f.Name())
	if err != nil {
		return fail(exitNotSubmit, fmt.Errorf("%s: %w", what, err))
	}
	a.logf("%s: Slurm would take it%s", what, prefixed(": ", answer))
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
	Watch  bool          `help:"Like --wait, and print each change of a job state."`
	Settle time.Duration `default:"30s" help:"Pause between two looks for the job of an interrupted submission."`
}

type submitCmd struct {
	planFlags
	submitFlags
	Scenario     string  `arg:"" help:"Scenario file, a lock, or demo."`
	Simulate     bool    `help:"Run the simulated engine on Slurm."`
	New          bool    `help:"Start a new submission although an earlier one of this scenario was interrupted."`
	Yes          bool    `short:"y" help:"Skip the cost confirmation."`
	MaxNodeHours float64 `default:"100" help:"Ask before submitting more node-hours than this, by the time limits."`
}

func (c submitCmd) Run(a *app) error {
	c.live = true
	p, err := a.plan(c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return err
	}
	if err := notStaged(p.Missing, c.Scenario); err != nil {
		return fail(exitNotSubmit, err)
	}
	if !c.New {
		if root, err := a.unfinished(p); err != nil || root != "" {
			if err != nil {
				return fail(exitNotSubmit, err)
			}
			a.logf("an earlier submission of this scenario was interrupted; going on with %s (--new submits anew)", relative(root))
			return a.submit(root, c.submitFlags)
		}
	}
	if err := a.plannedSecrets(p); err != nil {
		return err
	}
	if err := a.cost(p, c.MaxNodeHours, c.Yes); err != nil {
		return err
	}
	if err := a.create(p); err != nil {
		return fail(exitNotSubmit, err)
	}
	return a.submit(p.Root, c.submitFlags)
}

// create makes the scenario's directory, with everything in it but the jobs.
func (a *app) create(p *planned) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	pid := os.Getpid()
	err = run.Create(p.Root, run.Scenario{
		Schema: "profllm.scenario/1", Name: p.Name, Digest: p.Digest, Created: p.Created.UTC(),
		Host: host, PID: pid, ProcessStart: process.Start(pid), Skipped: p.Skipped, Simulated: p.Simulated, Local: p.Local, Continues: p.Continued, Confirm: p.Confirm, Definitions: p.Definitions,
		Launcher: p.Launcher, Single: p.Single, WorkDir: p.WorkDir,
	}, p.Runs, p.Batches)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w\n\thint: another submission took this second's name; try again", err)
	}
	return err
}

// unfinished finds an interrupted submission of the same definitions.
func (a *app) unfinished(p *planned) (string, error) {
	roots, err := run.Unfinished(filepath.Dir(p.Root), p.Name, p.Simulated)
	if err != nil || len(roots) == 0 {
		return "", err
	}
	root := roots[len(roots)-1]
	s, err := run.ReadScenario(root)
	if err != nil {
		return "", err
	}
	if s.Digest != p.Digest {
		return "", fmt.Errorf("an earlier submission of an older version of this scenario was interrupted: %s\n\thint: profllm slurm resume %s, or submit with --new", relative(root), relative(root))
	}
	return root, nil
}

// lookup finds a variable that is set and not empty.
func (a *app) lookup(name string) (string, bool) {
	value := a.env(name)
	return value, value != ""
}

// plannedSecrets looks for the secrets of everything planned, before anything is
// written.
func (a *app) plannedSecrets(p *planned) error {
	var plans []*plan.Plan
	for _, r := range p.Runs {
		plans = append(plans, r.Plan)
		for _, h := range slices.Concat(r.Plan.PreTest, r.Plan.PostTest) {
			plans = append(plans, h.Plan)
		}
	}
	if err := run.CheckSecrets(plans, a.lookup); err != nil {
		return fail(exitNotSubmit, err)
	}
	said := map[string]bool{}
	for _, pl := range plans {
		for _, s := range pl.Secrets() {
			if note := a.doubt(s); note != "" && !said[note] {
				said[note] = true
				a.logf("note: %s", note)
			}
		}
	}
	return nil
}

// doubt says what is wrong with a secret that works, "" for nothing. A file may be
// on the nodes only.
func (a *app) doubt(s plan.Secret) string {
	if s.File == "" {
		if value, _ := a.lookup(s.Env); len(strings.TrimSpace(value)) < redact.Least {
			return fmt.Sprintf("%s has less than %d bytes: it is not looked for in logs", s.Env, redact.Least)
		}
		return ""
	}
	if st, err := os.Stat(s.File); err == nil && st.Mode().Perm()&0o007 != 0 {
		return fmt.Sprintf("%s can be read by everybody here: chmod 600 %s", s.File, s.File)
	}
	return ""
}

// checkSecrets looks for the secrets of all submissions before the first is made.
func (a *app) checkSecrets(units []string) error {
	for _, dir := range units {
		u, err := run.ReadUnit(dir)
		if err != nil {
			return err
		}
		if err := u.CheckSecrets(a.lookup); err != nil {
			return fmt.Errorf("%s: %w", relative(dir), err)
		}
	}
	return nil
}

func (a *app) submitter(s run.Scheduler, settle time.Duration) *run.Submitter {
	return &run.Submitter{Scheduler: s, Now: a.now, Settle: settle, Log: a.logf, Lookup: a.lookup, Sleep: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}}
}

// placeFlags say where runs are looked for by a command that is given no path: where
// submit puts them.
type placeFlags struct {
	System    string `aliases:"system-config" env:"PROFLLM_SYSTEM,CLOUDAI_SYSTEM_CONFIG" placeholder:"FILE" help:"System file; without paths, its output_path is looked in."`
	OutputDir string `placeholder:"DIR" help:"Folder to look in, without paths; default: output_path of the system file, else results."`
}

// paths are the given ones, or the folder of results.
func (f placeFlags) paths(a *app, given []string) ([]string, error) {
	if len(given) > 0 {
		return given, nil
	}
	dir := f.OutputDir
	if dir == "" && f.System != "" {
		sys, err := a.system(f.System, false)
		if err != nil {
			return nil, err
		}
		dir = sys.OutputPath
	}
	dir = first(dir, "results")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		where := "name the one that submit printed, or the system file: --system FILE, or $PROFLLM_SYSTEM"
		if f.System != "" || f.OutputDir != "" {
			where = "nothing was submitted to it yet; name the folder that submit printed if it is another"
		}
		return nil, fail(exitUsage, fmt.Errorf("there is no folder %s here\n\thint: %s", dir, where))
	}
	return []string{dir}, nil
}

// runDirs finds the run directories below paths; beside an error, those that it found.
func (a *app) runDirs(paths []string) (dirs []string, err error) {
	for _, path := range paths {
		if name, ok := inArchive(path); ok {
			return nil, fail(exitUsage, fmt.Errorf("%s is an archive, which collect and report can read\n\thint: profllm archive --restore %s makes its directory again", name, path))
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
	Paths  []string `arg:"" optional:"" help:"Run or scenario directories; default: where submit puts them."`
	Output string   `enum:"text,json" default:"text" help:"text or json."`
}

// shortLived is how much the heap may grow between two collections of garbage, in
// percent: what status reads of a run is small, and it ends soon.
const shortLived = 400

func (c statusCmd) Run(a *app) error {
	defer debug.SetGCPercent(debug.SetGCPercent(shortLived))
	paths, err := c.paths(a, c.Paths)
	if err != nil {
		return err
	}
	dirs, err := a.runDirs(paths)
	if err != nil {
		return err
	}
	subs := a.jobs(dirs)
	states, err := a.states(a.schedulers(), dirs, subs)
	if err != nil {
		return err
	}
	return a.printStates(dirs, subs, states, c.Output)
}

type cancelCmd struct {
	Paths []string `arg:"" help:"Run or scenario directories."`
}

// cancelLimit is how long a cancelled job may need to be gone.
const cancelLimit = 90 * time.Second

func (c cancelCmd) Run(a *app) error {
	dirs, err := a.runDirs(c.Paths)
	if err != nil {
		return err
	}
	subs := a.jobs(dirs)
	s := a.schedulers()
	states, err := a.states(s, dirs, subs)
	if err != nil {
		return err
	}
	for _, id := range a.toCancel(dirs, subs, states) {
		if err := s.Cancel(a.ctx, id); err != nil {
			return err
		}
	}
	for end := a.now().Add(cancelLimit); ; {
		if states, err = a.states(s, dirs, subs); err != nil {
			return err
		}
		open := 0
		for _, dir := range dirs {
			if subs[dir].JobID != "" && !states[dir].Final() && states[dir].Note != run.Forgotten {
				open++
			}
		}
		if open == 0 || a.now().After(end) {
			if err := a.printStates(dirs, subs, states, "text"); err != nil || open == 0 {
				return errors.Join(err, a.coming(dirs, subs))
			}
			return fail(exitJobFailed, fmt.Errorf("%d jobs are not gone after %s", open, cancelLimit))
		}
		select {
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
