package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/progress"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type watchCmd struct {
	placeFlags
	Paths []string `arg:"" optional:"" help:"Run or scenario directories; default: unfinished runs in the results folder."`
	Once  bool     `help:"Print the current states and exit."`
}

// Run shows runs until all are over, and answers for them as submit --wait does.
func (c watchCmd) Run(ctx context.Context, a *app) error {
	paths, dirs, err := c.runDirs(ctx, a, c.Paths)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return fail(exitUsage,
			fmt.Errorf("no runs below %s\n\thint: name the run or scenario directory of a submission or a rehearsal",
				strings.Join(paths, " ")))
	}
	client := a.client()
	subs := client.Jobs(ctx, dirs)
	states, err := client.States(ctx, dirs, subs)
	if err != nil {
		return err
	}
	var shown, jobs []string // what has no job is shown, and not waited for
	for _, dir := range dirs {
		if !run.HasPlan(dir) || len(c.Paths) == 0 && states[dir].Final() {
			continue
		}
		shown = append(shown, dir)
		if subs[dir].JobID != "" {
			jobs = append(jobs, dir)
		}
	}
	v := &view{app: a, runs: progress.Reader{Dirs: shown, Jobs: subs, Name: summary.Names(shown, relative), Now: a.now}}
	if c.Once {
		if len(shown) == 0 {
			a.logf("every run is over: profllm slurm status lists them")
		}
		return v.print(states)
	}
	if len(jobs) == 0 {
		a.logf("nothing to wait for: no run has an unfinished job")
		return v.print(states)
	}
	if cols, rows, ok := a.cursorOf(a.stdout); ok {
		v.cols, v.rows, v.colours = cols, rows, a.colour()
	}
	return a.collectAtEnd(ctx, client, jobs, subs, v.show)
}

// view shows runs: on a terminal one line for each, which changes in place,
// elsewhere a line for each change.
type view struct {
	*app
	runs       progress.Reader
	cols, rows int // of the terminal; 0: none
	colours    bool

	printed map[string]string // off a terminal: the key of each run's last line
	drawn   int               // lines on the terminal
}

// print writes how each run is.
func (v *view) print(states map[string]run.State) error {
	var b strings.Builder
	for _, p := range v.runs.Read(states) {
		b.WriteString(p.Line(v.now()) + "\n")
	}
	_, err := io.WriteString(v.stdout, b.String())
	return err
}

// show is called about once a second.
func (v *view) show(states map[string]run.State) {
	all := v.runs.Read(states)
	if v.cols > 0 {
		v.draw(all)
		return
	}
	if v.printed == nil {
		v.printed = map[string]string{}
	}
	for _, p := range all {
		if key := p.Key(); v.printed[p.Dir] != key {
			v.printed[p.Dir] = key
			fmt.Fprintf(v.stdout, "%s %s\n", v.now().Format("15:04:05"), p.Line(v.now()))
		}
	}
}

const (
	up        = "\x1b[%dA"
	wipeLine  = "\x1b[K"
	wipeBelow = "\x1b[J"
)

// draw replaces what was drawn before. What does not fit the screen is counted:
// runs that are over first, then the last ones.
func (v *view) draw(all []progress.Progress) {
	if cols, rows, ok := v.cursorOf(v.stdout); ok { // it may have changed
		v.cols, v.rows = cols, rows
	}
	list := progress.Fit(all, max(v.rows-2, 1))
	hidden := len(all) - len(list)
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, up, v.drawn)
	}
	for _, p := range list {
		b.WriteString(v.paint(p, text.Snip(printable.Line(p.Line(v.now())), v.cols-1, "…")) + wipeLine + "\n")
	}
	v.drawn = len(list)
	if hidden > 0 {
		fmt.Fprintf(&b, "and %d more%s\n", hidden, wipeLine)
		v.drawn++
	}
	b.WriteString(wipeBelow)
	_, _ = io.WriteString(terminal.Below(v.stdout), b.String()) // it moves the cursor
}

// paint colours a line by its run's state.
func (v *view) paint(p progress.Progress, line string) string {
	return terminal.Screen{Colour: v.colours}.Paint(summary.StateTone(run.State{State: p.State}), line)
}
