package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

// printStates shows how the jobs of runs are. name is the command's, in its document.
func (a *app) printStates(name string, dirs []string, subs map[string]run.Submission, states map[string]run.State) error {
	lines := make([]document.StateEntry, len(dirs))
	for i, dir := range dirs {
		lines[i] = document.StateEntry{Dir: dir, Submission: subs[dir], State: states[dir]}
	}
	if a.json() {
		a.answers(&document.States{Head: document.NewHead(name), Runs: lines})
		return nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	const widest = 60 // of a reason in the table; what a program complained of stands below, once
	var long []string
	points := run.PointTexts(dirs)
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "job", Whole: true}, {Name: "state"}, {Name: "reason", Drop: 3}, {Name: "nodes", Drop: 2},
		{Name: "source", Drop: 1}, {Name: "run"}, {Name: "settings"},
	}}
	if len(points) == 0 {
		t.Columns = t.Columns[:len(t.Columns)-1]
	}
	for _, l := range lines {
		state := l.State.State
		switch {
		case l.Submission.Refused != "":
			state = "refused"
		case l.Submission.JobID == "" && run.HasPlan(l.Dir):
			state = "not submitted"
		}
		reason := cmp.Or(l.Submission.Refused, l.State.Reason, waited(l.Submission, l.State))
		if utf8.RuneCountInString(reason) > widest {
			if !slices.Contains(long, reason) {
				long = append(long, reason)
			}
			reason = text.Snip(reason, widest, "…")
		}
		shown := terminal.Cell{Text: strings.TrimSpace(state + " " + l.State.Note), Tone: stateTone(l.State)}
		t.Row(summary.Cells(l.Submission.JobID, shown, reason, l.State.NodeList, l.State.Source, campaign.Relative(wd, l.Dir),
			points[l.Dir])[:len(t.Columns)]...)
	}
	err = a.printTable(&t)
	for _, reason := range long {
		err = errors.Join(err, a.printLine(reason))
	}
	return err
}

// waited says what a job that never began was waiting for.
func waited(sub run.Submission, st run.State) string {
	if st.Note != run.NeverRan {
		return ""
	}
	return prefixed("waited for ", strings.Join(sub.Waits, ", "))
}
