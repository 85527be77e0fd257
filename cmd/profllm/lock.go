package main

import (
	"context"
	"errors"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/lockfile"
	"github.com/profllm/profllm/pkg/lockfile/locker"
)

type lockCmd struct {
	placeFlags
	outputFlag
	Run_ string `arg:"" optional:"" name:"run" help:"A run directory, or the directory of a scenario for all of its runs; default: the only one in the results folder."`
	Save string `placeholder:"FILE" help:"Write to this file; default: standard output. Only an older lock file is overwritten."`
}

// Run writes the lock of what was planned and, as far as records say it, found.
func (c lockCmd) Run(ctx context.Context, a *app) error {
	saved := lockfile.Output(c.Save)
	if err := durable.CheckOutputs(saved); err != nil {
		return fail(exitUsage, err)
	}
	dir, err := c.scenario(ctx, a, c.Run_)
	if err != nil {
		return err
	}
	f, err := locker.Lock(dir, locker.Options{Relative: relative, Log: a.logf})
	var refused *locker.NotLockableError
	switch {
	case errors.As(err, &refused):
		return fail(exitUsage, err)
	case err != nil:
		return err
	}
	data, err := f.Encode()
	if err != nil {
		return err
	}
	if err := saved.Write(data); err != nil {
		return err
	}
	if a.json() {
		d := document.NewLock(f)
		if c.Save == "" {
			d.Text = string(data)
		} else {
			d.File = absolute(c.Save)
		}
		a.answers(d)
		return nil
	}
	if c.Save == "" {
		_, err = a.stdout.Write(data)
	}
	return err
}
