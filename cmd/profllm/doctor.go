package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/doctor"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type doctorCmd struct {
	siteFlags
	Partition string `help:"Partition to check; default: the partition of the system file, else Slurm's default."`
	Job       bool   `help:"Also check a node in a job of a few seconds; the job is cancelled if it does not start within a minute."`
	Output    string `meant:"format" enum:"text,json" default:"text" help:"text or json."`
}

// Run looks at what of the cluster works; it fails if something is bad.
func (c doctorCmd) Run(ctx context.Context, a *app) error {
	var sys *config.System
	var err error
	if c.System != "" {
		if sys, err = a.client().System(ctx, c.System, false); err != nil {
			return err
		}
	}
	self, err := executable()
	if err != nil {
		return err
	}
	node, dir := self, cmp.Or(c.OutputDir, "results")
	var asked []string
	if sys != nil {
		asked = sys.Export
		node, dir = cmp.Or(sys.Binary, self), cmp.Or(c.OutputDir, sys.OutputPath)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r := (&doctor.Doctor{
		Environ: a.environ, Export: run.Export{Names: asked}.From(a.environ), System: sys, Partition: c.Partition,
		Dir:  dir,
		Self: []string{self, "probe-node"}, Node: []string{node, "probe-node"}, Job: c.Job, Now: a.now, Log: a.logf,
	}).Run(ctx)
	if err := a.printReport(r, c.Output); err != nil {
		return err
	}
	if r.Bad() {
		return exit(exitInternal)
	}
	return nil
}

var checkTones = map[doctor.Status]terminal.Tone{doctor.OK: terminal.Good, doctor.Warn: terminal.Doubtful,
	doctor.Bad: terminal.Bad}

func (a *app) printReport(r doctor.Report, format string) error {
	if format == "json" {
		return a.printJSON(r)
	}
	t := terminal.Table{Columns: []terminal.Column{{Name: "check"}, {Name: ""}, {Name: "seen"}}}
	var todo []string
	for _, c := range r.Checks {
		t.Row(summary.Cells(c.Name, terminal.Cell{Text: string(c.Status), Tone: checkTones[c.Status]}, c.Seen)...)
		if c.Do != "" {
			todo = append(todo, fmt.Sprintf("%s: %s", c.Name, c.Do))
		}
	}
	err := a.printTable(&t)
	for _, line := range todo {
		err = errors.Join(err, a.printLine(line))
	}
	return err
}

// probeNodeCmd is what doctor runs where it wants to look.
type probeNodeCmd struct {
	Dir string `required:"" help:"The shared folder."`
}

func (c probeNodeCmd) Run(ctx context.Context, a *app) error {
	return doctor.Look(ctx, c.Dir, a.env, gpuReader(), version(), a.now().UTC()).Write(a.stdout)
}
