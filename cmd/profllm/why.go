package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/story"
)

type whyCmd struct {
	Runs   []string `arg:"" help:"Run directories, or folders of them."`
	Output string   `enum:"text,json" default:"text" help:"text or json."`
}

// Run tells the story of each run from what is on disk; Slurm is not asked.
func (c whyCmd) Run(a *app) error {
	var paths []string
	for _, path := range c.Runs {
		paths = append(paths, runAbove(path))
	}
	dirs, err := a.runDirs(paths)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fail(exitUsage, fmt.Errorf("no runs below %s\n\thint: give a run directory, one that holds plan.json", strings.Join(c.Runs, " ")))
	}
	var stories []story.Story
	for _, dir := range dirs {
		told, err := tell(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", relative(dir), err)
		}
		stories = append(stories, told...)
	}
	if c.Output == "json" {
		return a.printJSON(stories)
	}
	return a.printStories(stories)
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

// tell gathers the evidence of a run and returns one story for each of its loads.
func tell(dir string) ([]story.Story, error) {
	e, err := story.Read(dir)
	if err != nil {
		return nil, err
	}
	e.Dir = relative(dir)
	col, err := collector()
	if err != nil {
		return nil, err
	}
	records, err := col.Run(dir, e.State)
	if err != nil {
		return nil, err
	}
	var stories []story.Story
	for _, rec := range records {
		e.Result, e.Load = rec.Result, nil
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

// printStories shows one run whole; of several, those that are valid in a line.
func (a *app) printStories(stories []story.Story) error {
	for i, s := range stories {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if s.Valid() && len(stories) > 1 {
			s.Lines = nil
		}
		if err := s.Write(a.stdout); err != nil {
			return err
		}
	}
	return nil
}
