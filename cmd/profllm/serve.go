package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/story"
)

type serveCmd struct {
	makeFlags
	outputFlag
	Scenario  string        `arg:"" meant:"test-scenario" help:"Scenario file, or the file of one experiment (TOML, YAML or JSON)."`
	Test      string        `placeholder:"ID" help:"Test whose servers to start; default: the only test."`
	For       time.Duration `placeholder:"TIME" help:"Stop the servers this long after they are ready, such as 2h; default: keep them until interrupted."`
	ReadyFile string        `placeholder:"FILE" help:"Write the address as JSON to FILE once the servers are ready, and remove FILE at the end."`
	WaitGPUs  time.Duration `name:"wait-gpus" placeholder:"TIME" help:"Wait for free GPUs, such as 2h; default: do not wait."`
	Slurm     bool          `help:"Serve in a job of Slurm, which goes on until its time limit if this command is killed."`
	DryRun    bool          `name:"dry-run" help:"Print the plan and the script; start nothing."`
	Simulate  bool          `help:"Start the simulated engine; GPUs and ports are taken as for a real one."`
}

// Validate refuses times that mean nothing.
func (c serveCmd) Validate() error {
	switch {
	case c.For < 0:
		return fmt.Errorf("--for is %s, but must be above 0", c.For)
	case c.Slurm && c.WaitGPUs > 0:
		return errors.New("--wait-gpus has no effect with --slurm: a job waits in Slurm's queue")
	}
	return nil
}

// Run keeps the servers of one test up, on this machine or in a job of Slurm.
func (c serveCmd) Run(ctx context.Context, a *app) error {
	o, err := planFlags{makeFlags: c.makeFlags}.options(c.Simulate)
	if err != nil {
		return err
	}
	o.Here, o.Live, o.Serve = !c.Slurm, c.Slurm, &planner.Serve{Test: c.Test, For: c.For}
	p, err := a.client().Plan(ctx, c.Scenario, o)
	if err != nil {
		return err
	}
	if c.DryRun {
		return a.printPlans(p, plansForm(c.Output))
	}
	line := a.progressLine()
	s := servers{app: a.below(line), file: c.ReadyFile, line: line}
	if err := s.claimFile(); err != nil {
		return fail(exitUsage, err)
	}
	doc := document.NewJobs("serve")
	a.answers(doc)
	endsByItself.Store(true)
	client := s.quieted(s.stderr).client() // standard output is for the address
	serve := client.ServeHere
	if c.Slurm {
		serve = client.ServeOnSlurm
	}
	dirs, states, err := serve(ctx, p, campaign.Serving{
		WaitGPUs: c.WaitGPUs, Progress: s.progress, Ready: s.ready, Down: s.down,
	})
	line.Set("")
	doc.Root = p.Root // the name may have been taken since it was planned
	if err != nil {
		return err
	}
	return s.answer(ctx, dirs, states)
}

// servers are those that a command keeps up.
type servers struct {
	*app
	file string // where the user wants to read their address; "" for nowhere
	line progressLine
	up   atomic.Bool // they have been ready
}

// progress says how far the start is.
func (s *servers) progress(p campaign.LocalProgress) {
	if len(p.Ended) == 0 && !s.up.Load() {
		s.line.show(p)
	}
}

// claimFile refuses a file that something else needs, and removes one that a killed command left.
func (s *servers) claimFile() error {
	if s.file == "" {
		return nil
	}
	var old run.Serving
	info, err := os.Stat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir, err := os.Stat(filepath.Dir(s.file)); err != nil || !dir.IsDir() {
			return fmt.Errorf("--ready-file %s: there is no folder %s", s.file, filepath.Dir(s.file))
		}
		return nil
	case err != nil:
		return fmt.Errorf("--ready-file: %w", err)
	case !info.Mode().IsRegular() || run.ReadJSON(s.file, &old) != nil || old.Schema != run.ServingSchema:
		return fmt.Errorf("--ready-file %s: this file is not from profllm serve, and is not overwritten", s.file)
	case process.Runs(old.PID, old.ProcessStart):
		return fmt.Errorf("--ready-file %s: process %d keeps the servers up that it names\n\thint: name another file, or end that process", s.file, old.PID)
	}
	return os.Remove(s.file)
}

// ready says where the servers are.
func (s *servers) ready(at *run.Serving) error {
	s.up.Store(true)
	s.line.Set("")
	at.PID = os.Getpid()
	at.ProcessStart = process.Start(at.PID)
	if s.file != "" {
		if err := run.WriteJSON(s.file, at); err != nil {
			return fmt.Errorf("--ready-file: %w", err)
		}
	}
	until := "Ctrl-C stops them"
	if at.Until != nil {
		until = "they stop at " + at.Until.Local().Format("15:04:05") + ", or with Ctrl-C"
	}
	a := s.app
	a.logf("the servers are ready; %s; logs: profllm slurm logs %s", until, relative(at.Dir))
	if a.json() {
		return nil // the document comes at the end
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", at.URL, at.Model)
	if err != nil {
		s.down()
	}
	return err
}

// down takes the address back.
func (s *servers) down() {
	if s.file == "" {
		return
	}
	if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.complain(err)
	}
}

// answer collects the run, and says why it failed if it did.
func (s *servers) answer(ctx context.Context, dirs []string, states map[string]run.State) error {
	a := s.quieted(io.Discard)
	err := a.report(context.WithoutCancel(ctx), a.openCache(dirs), dirs, states)
	if ctx.Err() != nil && !s.up.Load() {
		return errors.New("interrupted before the servers were ready; they are stopped")
	}
	if err == nil {
		a.logf("the servers are stopped; their run: %s", relative(dirs[0]))
		return nil
	}
	col := a.client().Collector()
	stories, failed := story.OfRun(col, dirs[0], relative(dirs[0]))
	for _, told := range stories {
		for _, l := range told.Lines {
			if slices.Contains([]string{"happened", "cause", "line"}, l.Part) {
				a.logf("%s: %s", l.Part, l.Text)
			}
		}
	}
	a.logf("more: profllm why %s", relative(dirs[0]))
	return errors.Join(err, failed)
}
