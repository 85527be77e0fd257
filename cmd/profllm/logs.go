package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/runlog"
	"github.com/profllm/profllm/pkg/tail"
)

type logsCmd struct {
	placeFlags
	outputFlag
	Dir    string `arg:"" optional:"" name:"run" help:"Run directory; default: the only one in the results folder."`
	Role   string `placeholder:"NAME" help:"Role or client to show: decode, decode_1, decode-0 for one rank, or job for the script; default: all, or for a failed run the log that shows the cause."`
	Follow bool   `short:"f" help:"Follow the logs until the run ends."`
	Lines  int    `short:"n" default:"20" help:"Lines to show from the end of each log, or around the cause."`
}

// check refuses flags that do not go together.
func (c logsCmd) check(a *app) error {
	if c.Lines < 0 {
		return fail(exitUsage, fmt.Errorf("--lines=%d: want 0 or more", c.Lines))
	}
	if c.Follow && a.json() {
		return fail(exitUsage,
			errors.New("--follow prints lines as they come, but --output json prints one document at the end\n\thint: use only one of them"))
	}
	return nil
}

// run is the directory of the run whose logs are wanted.
func (c logsCmd) run(ctx context.Context, a *app) (string, error) {
	if err := c.check(a); err != nil {
		return "", err
	}
	paths, err := c.paths(ctx, a, slices.DeleteFunc([]string{c.Dir}, func(dir string) bool { return dir == "" }))
	if err != nil {
		return "", err
	}
	return a.oneRun(paths[0])
}

// Run prints what matters of a run's logs.
func (c logsCmd) Run(ctx context.Context, a *app) error {
	dir, err := c.run(ctx, a)
	if err != nil {
		return err
	}
	a.answers(&document.Logs{Head: document.NewHead("logs"), Dir: dir, Logs: []document.LogEntry{}})
	if c.Follow {
		return a.followLogs(ctx, dir, c)
	}
	if c.Role == "" {
		if f := runlog.FirstCause(a.client().Collector(), dir); f != nil {
			return a.showCause(dir, f, c.Lines)
		}
	}
	logs := runlog.List(dir)
	if len(logs) == 0 {
		a.logf("%s: no logs yet\n\thint: profllm %s status %s", relative(dir), run.Verbs(dir), relative(dir))
		return nil
	}
	if logs, err = runlog.Choose(logs, c.Role); err != nil {
		return fail(exitUsage, err)
	}
	var errs []error
	secrets := run.Secrets(dir)
	for _, l := range logs {
		lines, err := tail.Last(l.Path, c.Lines)
		errs = append(errs, unlessGone(err))
		if err := a.printLog(l, lines, secrets, len(logs) > 1); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// oneRun finds the run directory that a path means.
func (a *app) oneRun(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fail(exitUsage, err)
	}
	dirs, err := a.runDirs([]string{run.Above(path)})
	switch {
	case err != nil:
		return "", err
	case len(dirs) == 0:
		return "", fail(exitUsage,
			fmt.Errorf("no run below %s\n\thint: name a run directory, which contains plan.json", path))
	case len(dirs) > 1:
		return "", fail(exitUsage,
			fmt.Errorf("%d runs below %s\n\thint: name one of them, such as %s", len(dirs), path, relative(dirs[0])))
	}
	return dirs[0], nil
}

// unlessGone takes a log that went away meanwhile for an empty one.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// printLog prints lines without the run's secrets: while it goes on, its logs may
// hold them.
func (a *app) printLog(l runlog.Log, lines []string, secrets redact.Values, named bool) error {
	if d := a.logsDocument(); d != nil {
		e := document.LogEntry{Name: l.Label(), File: l.Path, Lines: []document.LogLine{}}
		for _, line := range lines {
			e.Lines = append(e.Lines, document.LogLine{Text: secrets.Text(line)})
		}
		d.Logs = append(d.Logs, e)
		return nil
	}
	prefix := ""
	if named {
		prefix = l.Label() + ": "
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(a.stdout, prefix+secrets.Text(line)); err != nil {
			return err
		}
	}
	return nil
}

// logsDocument is the JSON answer of logs, nil if it prints text.
func (a *app) logsDocument() *document.Logs {
	d, _ := a.documentOf().(*document.Logs)
	return d
}

// showCause prints a cause's log around its line.
func (a *app) showCause(dir string, f *result.Failure, n int) error {
	file, lines, err := runlog.Around(dir, f, n)
	if err != nil {
		return err
	}
	a.logf("%s: cause %s, %s:%d (--role shows other logs)", relative(dir), f.Cause, file, f.LineNumber)
	secrets := run.Secrets(dir)
	if d := a.logsDocument(); d != nil {
		e := document.LogEntry{Name: strings.TrimSuffix(filepath.Base(f.File), ".log"), File: filepath.Join(dir, file)}
		for _, l := range lines {
			e.Lines = append(e.Lines,
				document.LogLine{Number: l.Number, Text: secrets.Text(l.Text), Cause: l.Number == f.LineNumber})
		}
		d.Cause, d.Logs = f, append(d.Logs, e)
		return nil
	}
	for _, l := range lines {
		mark := " "
		if l.Number == f.LineNumber {
			mark = ">"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %6d  %s\n", mark, l.Number, secrets.Text(l.Text)); err != nil {
			return err
		}
	}
	return nil
}

// logPause is the time between two looks at the logs.
const logPause = 500 * time.Millisecond

// followLogs prints what is added to the logs until the run is over. Slurm is
// asked rarely: the run's last file says most ends.
func (a *app) followLogs(ctx context.Context, dir string, c logsCmd) error {
	logs := runlog.Follower{Dir: dir, Name: c.Role, Lines: c.Lines}
	ended, secrets := a.client().WatchEnd(ctx, dir), run.Secrets(dir)
	show := func(l runlog.Log, lines []string, named bool) error { return a.printLog(l, lines, secrets, named) }
	for over := false; ; {
		last := over
		if err := logs.More(last, show); err != nil {
			var none *runlog.NoLogError
			if errors.As(err, &none) {
				return fail(exitUsage, err)
			}
			return err
		}
		if last {
			return nil
		}
		var err error
		if over, err = ended(); err != nil {
			return err
		}
		if over {
			continue // once more: what was written meanwhile
		}
		select {
		case <-ctx.Done():
			return fail(exitInterrupted, errors.New("interrupted; the run continues"))
		case <-time.After(logPause):
		}
	}
}
