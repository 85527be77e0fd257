package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/story"
)

type whyCmd struct {
	placeFlags
	outputFlag
	Paths []string `arg:"" optional:"" help:"Run directories, folders of them, or logs of any origin: files, folders, pipes; - is stdin; default: the results folder."`
}

// Run tells the story of each run, and of logs without one, from what is on disk;
// Slurm is not asked. What cannot be read is named, and the others are told.
func (c whyCmd) Run(ctx context.Context, a *app) error {
	col := a.client().Collector()
	paths, err := c.paths(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	stories, worst := []story.Story{}, exitOK
	var files []string // logs that are given one by one are of one failure
	tell := func(told []story.Story, err error) {
		stories, worst = append(stories, told...), max(worst, codeOf(err))
		a.complain(err)
	}
	for _, path := range paths {
		dirs, err := a.runsAt(path)
		switch {
		case err != nil || len(dirs) > 0:
			tell(nil, err)
		case isDir(path):
			tell(a.tellLogs(path))
		default:
			files = append(files, path)
		}
		for _, dir := range dirs {
			if err := ctx.Err(); err != nil {
				return err
			}
			tell(story.OfRun(col, dir, relative(dir)))
		}
	}
	files, err = a.checkLogs(files)
	tell(nil, err)
	if len(files) > 0 {
		tell(a.tellLogs(files...))
	}
	if a.answers(&document.Why{Head: document.NewHead("why"), Stories: stories}); !a.json() {
		if err := a.printStories(story.Fold(stories)); err != nil {
			return err
		}
	}
	return exit(worst)
}

// runsAt returns the runs that a path names: the one that it lies in, else those
// below it. Logs of any other origin are none.
func (a *app) runsAt(path string) ([]string, error) {
	if path == "-" {
		return nil, nil
	}
	above := run.Above(path)
	if info, err := os.Stat(above); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeDevice|os.ModeSocket) != 0 {
		return nil, nil
	}
	return a.runDirs([]string{above})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// tellLogs tells what logs say that belong to no run: one folder, or some files.
func (a *app) tellLogs(paths ...string) ([]story.Story, error) {
	logs, err := story.FindLogs(paths, a.stdin, time.Local)
	switch {
	case errors.Is(err, story.ErrNoLogs):
		return nil, fail(exitUsage,
			fmt.Errorf("neither runs nor logs below %s\n\thint: name a run directory (it contains plan.json), a folder of logs, a log, or - for stdin", logs.Path))
	case err != nil:
		return nil, fail(exitUsage, err)
	}
	return []story.Story{story.OfLogs(logs)}, nil
}

// printStories shows one story whole; of several, logs without a failure in a line, and
// of the valid runs only their number.
func (a *app) printStories(stories []story.Story) error {
	screen := a.screenOf(a.stdout)
	out := screen.Writer(a.stdout)
	shown, valid := 0, 0
	for _, s := range stories {
		if s.Well() && len(stories) > 1 {
			if s.Lines = nil; s.Valid() {
				valid++
				continue
			}
		}
		if shown++; shown > 1 {
			fmt.Fprintln(out)
		}
		if err := s.Show(out, screen); err != nil {
			return err
		}
	}
	if valid == 0 {
		return nil
	}
	if shown > 0 {
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintln(out, quantity.Count(valid, "valid run"))
	return err
}

// sayLogs says of paths that hold logs, and no runs, what they are and which verb
// explains them; false if there are none.
func (a *app) sayLogs(paths []string) bool {
	some := false
	for _, path := range paths {
		if logs := story.CountLogs(path); logs != "" {
			a.logf("%s has logs (%s), but neither a run nor a result to collect\n\thint: profllm why %s", path, logs,
				path)
			some = true
		}
	}
	return some
}
