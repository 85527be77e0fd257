package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scenario"
)

type slurmCmd struct {
	DryRun dryRunCmd `cmd:"" name:"dry-run" help:"Print the plan and the script of each run; submit nothing."`
	Submit submitCmd `cmd:"" help:"Submit every run of a scenario."`
	Resume resumeCmd `cmd:"" help:"Submit what an interrupted submission left out."`
	Status statusCmd `cmd:"" help:"Say how the jobs of runs are."`
	Cancel cancelCmd `cmd:"" help:"Cancel the jobs of runs."`
}

func digest(files []scenario.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

type dryRunCmd struct {
	planFlags
	Scenario string `arg:"" help:"Scenario file, or demo."`
	Simulate bool   `help:"Plan with the simulated engine."`
	Output   string `enum:"text,json,script" default:"text" help:"text: a table and the script of each run; json: the plans; script: the scripts alone."`
	Save     string `placeholder:"DIR" help:"Also write plan.json and job.sh of each run below DIR."`
	TestOnly bool   `help:"Ask Slurm whether it would take each script; uses up a job id each."`
}

func (c dryRunCmd) Run(a *app) error {
	p, err := a.plan(c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	switch c.Output {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(p.Plans); err != nil {
			return err
		}
	default:
		for i, run := range p.Plans {
			if c.Output == "text" {
				fmt.Fprintf(out, "%s\n", planTable(run))
			}
			out.Write(p.Scripts[i])
			if c.Output == "text" {
				fmt.Fprintln(out)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for i, pl := range p.Plans {
		if c.Save != "" {
			rel, err := filepath.Rel(p.Root, pl.Dir)
			if err != nil {
				return err
			}
			if err := run.Fill(filepath.Join(c.Save, rel), pl, p.Scripts[i]); err != nil {
				return err
			}
		}
		if c.TestOnly {
			if err := a.testOnly(pl, p.Scripts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) testOnly(p *plan.Plan, script []byte) error {
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
		return fail(exitNotSubmit, fmt.Errorf("test %s: %w", p.Test, err))
	}
	a.logf("test %s: Slurm would take it%s", p.Test, prefixed(": ", answer))
	return nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

type submitFlags struct {
	Wait   bool          `help:"Wait for the jobs, collect, and exit with what they did."`
	Watch  bool          `help:"Like --wait, and say each change of a state."`
	Settle time.Duration `default:"30s" help:"Pause between two looks for the job of an interrupted submission."`
}

type submitCmd struct {
	planFlags
	submitFlags
	Scenario     string  `arg:"" help:"Scenario file, or demo."`
	Simulate     bool    `help:"Run the simulated engine on Slurm."`
	New          bool    `help:"Submit anew although an earlier submission of this scenario was interrupted."`
	Yes          bool    `short:"y" help:"Submit whatever it costs."`
	MaxNodeHours float64 `default:"100" help:"Ask before submitting more than this, by the time limits."`
}

func (c submitCmd) Run(a *app) error {
	c.live = true
	p, err := a.plan(c.Scenario, c.planFlags, c.Simulate)
	if err != nil {
		return err
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
	if err := a.cost(p.Plans, c.MaxNodeHours, c.Yes); err != nil {
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
		Host: host, PID: pid, ProcessAge: run.ProcessStart(pid),
	}, p.Plans, p.Scripts)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w\n\thint: another submission took this second's name; try again", err)
	}
	return err
}

// unfinished finds an interrupted submission of the same definitions.
func (a *app) unfinished(p *planned) (string, error) {
	roots, err := run.Unfinished(filepath.Dir(p.Root), p.Name)
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

// cost says what the runs may use and asks above the limit.
func (a *app) cost(plans []*plan.Plan, limit float64, yes bool) error {
	hours, open := 0.0, 0
	for _, p := range plans {
		if p.Job.TimeLimit == 0 {
			open++
			continue
		}
		hours += float64(p.Job.Nodes) * time.Duration(p.Job.TimeLimit).Hours()
	}
	text := fmt.Sprintf("%d jobs, at most %.1f node-hours", len(plans), hours)
	if open > 0 {
		text += fmt.Sprintf(" and %d without a time limit", open)
	}
	a.logf("%s", text)
	if hours <= limit || yes {
		return nil
	}
	return fail(exitNotSubmit, fmt.Errorf("not submitted: above %.0f node-hours\n\thint: --yes, or --max-node-hours %.0f", limit, hours))
}

func (a *app) submitter(s run.Scheduler, settle time.Duration) *run.Submitter {
	return &run.Submitter{Scheduler: s, Now: a.now, Settle: settle, Log: a.logf, Sleep: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}}
}

// submit brings every run of a scenario directory to "submitted".
func (a *app) submit(root string, f submitFlags) error {
	s, err := run.ReadScenario(root)
	if err != nil {
		return fail(exitUsage, err)
	}
	sched := a.slurm()
	submitter := a.submitter(sched, f.Settle)
	var dirs []string
	var errs []error
	for _, rel := range s.Runs {
		o := submitter.Submit(a.ctx, filepath.Join(root, rel))
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", relative(o.Dir), o.Err))
			continue
		}
		if len(o.Submission.Cleared) > 0 {
			a.logf("note: cleared for sbatch: %s", strings.Join(o.Submission.Cleared, " "))
		}
		how := "submitted"
		if o.Submission.Adopted {
			how = "adopted"
		}
		fmt.Fprintf(a.stdout, "%s job %s  %s\n", how, o.Submission.JobID, relative(o.Dir))
		dirs = append(dirs, o.Dir)
	}
	if err := errors.Join(errs...); err != nil {
		return fail(exitNotSubmit, fmt.Errorf("%w\n\thint: profllm slurm resume %s", err, relative(root)))
	}
	if f.Wait || f.Watch {
		return a.wait(sched, dirs, f.Watch)
	}
	return nil
}

type resumeCmd struct {
	submitFlags
	Root string `arg:"" type:"existingdir" help:"Directory of a scenario execution."`
}

func (c resumeCmd) Run(a *app) error { return a.submit(c.Root, c.submitFlags) }

// jobs reads the job id of each run directory, adopting interrupted ones. What
// cannot be found out is said, and the other runs go on.
func (a *app) jobs(dirs []string) map[string]run.Submission {
	subs := map[string]run.Submission{}
	finder := a.slurm()
	for _, dir := range dirs {
		sub, err := a.adopt(finder, dir)
		if err != nil {
			a.logf("note: %s: look for its job: %v", relative(dir), err)
		}
		subs[dir] = sub
	}
	return subs
}

// adopt returns the submission of a run. One that was interrupted is completed by
// the job that claimed the run, or by the one that carries its name.
func (a *app) adopt(finder run.Finder, dir string) (run.Submission, error) {
	var sub run.Submission
	if err := run.ReadJSON(filepath.Join(dir, run.SubmitFile), &sub); !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	var intent run.Intent
	if run.ReadJSON(filepath.Join(dir, run.IntentFile), &intent) != nil {
		return sub, nil // nothing was submitted
	}
	var claim run.Claim
	id := ""
	if run.ReadJSON(filepath.Join(dir, run.ClaimFile), &claim) == nil {
		id = claim.JobID
	}
	if id == "" {
		found := false
		var err error
		if id, found, err = finder.FindJob(a.ctx, intent.JobName, intent.Time); err != nil || !found {
			return sub, err
		}
	}
	sub = run.Submission{Schema: "profllm.submit/1", RunID: intent.RunID, JobID: id, Time: a.now().UTC(), Adopted: true}
	a.logf("adopted job %s for %s", id, relative(dir))
	return sub, run.WriteJSON(filepath.Join(dir, run.SubmitFile), sub)
}

// states asks the scheduler about the jobs of run directories, with one query,
// and keeps the answers in state.json.
func (a *app) states(s run.Scheduler, dirs []string, subs map[string]run.Submission) (map[string]run.State, error) {
	var ids []string
	for _, dir := range dirs {
		if id := subs[dir].JobID; id != "" {
			ids = append(ids, id)
		}
	}
	answers, err := s.States(a.ctx, ids)
	if err != nil {
		return nil, err
	}
	states := map[string]run.State{}
	for _, dir := range dirs {
		st, ok := answers[subs[dir].JobID]
		if !ok {
			continue
		}
		st.Schema = "profllm.state/1"
		var old run.State
		if run.ReadJSON(filepath.Join(dir, run.StateFile), &old) == nil && old.JobID == st.JobID {
			if old.Final() && !st.Final() && st.State == run.Unknown {
				st = old // a job that Slurm has forgotten stays what it was
			}
			if same := st; same.Final() && old.State == st.State && old.ExitCode == st.ExitCode && old.Source == st.Source {
				st = old // keeps its time, so that nothing is written anew
			}
		}
		st = a.settle(dir, st)
		states[dir] = st
		if st != old {
			if err := run.WriteJSON(filepath.Join(dir, run.StateFile), st); err != nil {
				return nil, err
			}
		}
	}
	return states, nil
}

// settle lets the sentinel speak: a COMPLETED job without it has failed, and one
// that Slurm has forgotten ended as the sentinel says (PL-S5, PL-S9).
func (a *app) settle(dir string, st run.State) run.State {
	var sentinel run.Sentinel
	have := run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil && sentinel.JobID == st.JobID
	switch {
	case st.State == run.Succeeded && !have:
		st.State, st.Note = run.Failed, "the job left no sentinel"
	case st.State == run.Succeeded && sentinel.Code != 0:
		st.State, st.Note = run.Failed, fmt.Sprintf("the sentinel says exit code %d", sentinel.Code)
	case st.State == run.Unknown && have:
		st.State, st.Source, st.ExitCode = run.Succeeded, "sentinel", fmt.Sprintf("%d:0", sentinel.Code)
		if sentinel.Code != 0 {
			st.State = run.Failed
		}
	}
	return st
}

// unknownLimit ends the wait for jobs that nobody knows any more (PL-S10).
const unknownLimit = 24 * time.Hour

// wait follows the jobs of runs to their end, collects, and answers for them.
func (a *app) wait(s run.Scheduler, dirs []string, watch bool) error {
	subs := a.jobs(dirs)
	said := map[string]string{}
	known := a.now() // when Slurm last knew one of the jobs
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		states, err := a.states(s, dirs, subs)
		if err != nil {
			return err
		}
		open := 0
		for _, dir := range dirs {
			st := states[dir]
			if st.State != run.Unknown {
				known = a.now()
			}
			if !st.Final() {
				open++
			}
			if word := st.State + prefixed(" ", st.Note) + prefixed(", ", st.Reason); watch && word != said[dir] {
				said[dir] = word
				pause = time.Second
				a.logf("%s job %s %s  %s", a.now().Format("15:04:05"), st.JobID, word, relative(dir))
			}
		}
		if open == 0 || a.now().Sub(known) > unknownLimit {
			return a.report(dirs, states, "text")
		}
		select {
		case <-a.ctx.Done():
			return fail(exitInterrupted, errors.New("interrupted; the jobs go on\n\thint: profllm slurm status"))
		case <-time.After(pause):
		}
	}
}

// runDirs finds run directories; without paths, below the default results.
func (a *app) runDirs(paths []string) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"results"}
	}
	dirs, err := run.Find(paths...)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	for i, d := range dirs {
		if dirs[i], err = filepath.Abs(d); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

type statusCmd struct {
	Paths  []string `arg:"" optional:"" help:"Run or scenario directories; default: results."`
	Output string   `enum:"text,json" default:"text" help:"text or json."`
}

func (c statusCmd) Run(a *app) error {
	dirs, err := a.runDirs(c.Paths)
	if err != nil {
		return err
	}
	subs := a.jobs(dirs)
	states, err := a.states(a.slurm(), dirs, subs)
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
	s := a.slurm()
	states, err := a.states(s, dirs, subs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if id := subs[dir].JobID; id != "" && !states[dir].Final() {
			if err := s.Cancel(a.ctx, id); err != nil {
				return err
			}
		}
	}
	for end := a.now().Add(cancelLimit); ; {
		if states, err = a.states(s, dirs, subs); err != nil {
			return err
		}
		open := 0
		for _, dir := range dirs {
			if subs[dir].JobID != "" && !states[dir].Final() {
				open++
			}
		}
		if open == 0 || a.now().After(end) {
			if err := a.printStates(dirs, subs, states, "text"); err != nil || open == 0 {
				return err
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
