package main

import (
	"errors"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/summary"
)

// printStates shows how the jobs of runs are. name is the command's, in its document.
func (a *app) printStates(name string, dirs []string, jobs map[string]run.Submission,
	states map[string]run.State) error {
	if !a.json() {
		return a.printBlocks(summary.States(dirs, jobs, states, relative))
	}
	list := make([]document.StateEntry, len(dirs))
	for i, dir := range dirs {
		list[i] = document.StateEntry{Dir: dir, Submission: jobs[dir], State: states[dir]}
	}
	a.answers(&document.States{Head: document.NewHead(name), Runs: list})
	return nil
}

// printBlocks shows tables, each with the lines below it.
func (a *app) printBlocks(blocks ...summary.Block) error {
	var err error
	for _, b := range blocks {
		err = errors.Join(err, a.printTable(&b.Table))
		for _, line := range b.Lines {
			err = errors.Join(err, a.printLine(line))
		}
	}
	return err
}
