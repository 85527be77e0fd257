package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/quantity"
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
	col, err := a.client().Collector()
	if err != nil {
		return err
	}
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
			tell(tellRun(col, dir))
		}
	}
	if len(files) > 0 {
		tell(a.tellLogs(files...))
	}
	if a.answers(&whyDocument{head{Schema: "profllm.output.why/1"}, stories}); !a.json() {
		if err := a.printStories(stories); err != nil {
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
	above := runAbove(path)
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
	e := story.Logs{Path: strings.Join(paths, " ")}
	var logs []failure.Log
	for _, path := range paths {
		found, notes, err := collect.FindLogs(path, a.stdin)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		for _, l := range found {
			e.Files = append(e.Files, story.LogFile{Name: l.File, Role: l.Role})
			logs = append(logs, l)
		}
		e.Notes = append(e.Notes, notes...)
	}
	if len(logs) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("neither runs nor logs below %s\n\thint: name a run directory (it contains plan.json), a folder of logs, a log, or - for stdin", e.Path))
	}
	table, err := failure.Builtin()
	if err != nil {
		return nil, err
	}
	var unread error
	e.Failure, unread = table.ExplainLogs(logs, time.Local)
	if unread != nil {
		e.Notes = append(e.Notes, unread.Error())
	}
	return []story.Story{story.OfLogs(e)}, nil
}

// runAbove is the run directory that a path lies in, as its logs or one of its
// loads do; else the path itself.
func runAbove(path string) string {
	const levels = 2
	for dir, i := path, 0; i <= levels; dir, i = filepath.Dir(dir), i+1 {
		if isRunDir(dir) {
			return dir
		}
	}
	return path
}

// tellRun gathers the evidence of a run and returns one story for each of its loads.
func tellRun(col *collect.Collector, dir string) ([]story.Story, error) {
	e, err := story.Read(dir)
	e.Dir = relative(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Dir, err)
	}
	records, err := col.Run(dir, e.State)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Dir, err)
	}
	var stories []story.Story
	for _, rec := range records {
		e.Result, e.Load, e.At = rec.Result, nil, relative(rec.Dir)
		if e.Plan != nil {
			for i := range e.Plan.Loads {
				below, err := filepath.Rel(e.Plan.Dir, e.Plan.Loads[i].Dir) // the whole may have been moved
				if err == nil && filepath.Join(dir, below) == filepath.Clean(rec.Dir) || len(records) == 1 {
					e.Load = &e.Plan.Loads[i]
				}
			}
		}
		stories = append(stories, story.Of(e))
	}
	return stories, nil
}

// printStories shows one story whole; of several, logs without a failure in a line, and
// of the valid runs only their number.
func (a *app) printStories(stories []story.Story) error {
	screen := a.screenOf(a.stdout)
	out := onScreen(a.stdout, screen)
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
	said := false
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue // a pipe is read by why only
		}
		logs, _, err := collect.FindLogs(path, a.stdin)
		if err != nil {
			continue
		}
		roles := map[string]int{}
		for _, l := range logs {
			if l.Role != "" || logNames[filepath.Ext(strings.TrimSuffix(l.File, ".xz"))] {
				roles[cmp.Or(l.Role, "unknown role")]++
			}
		}
		var parts []string
		for _, role := range slices.Sorted(maps.Keys(roles)) {
			parts = append(parts, fmt.Sprintf("%s: %d", role, roles[role]))
		}
		if len(parts) > 0 {
			a.logf("%s has logs (%s), but neither a run nor a result to collect\n\thint: profllm why %s", path, strings.Join(parts, ", "), path)
			said = true
		}
	}
	return said
}

// logNames are the extensions of logs.
var logNames = map[string]bool{".log": true, ".out": true, ".err": true}
