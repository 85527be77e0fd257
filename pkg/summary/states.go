package summary

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// widestReason is how many characters of a reason the table of states shows.
const widestReason = 60

// States has one line for the job of each run, and below the table the reasons that are too
// long for it, each once.
func States(
	dirs []string, jobs map[string]run.Submission, states map[string]run.State, relative func(string) string,
) Block {
	points := run.PointTexts(dirs)
	b := Block{Table: terminal.Table{Columns: []terminal.Column{
		{Name: "job", Whole: true}, {Name: "state"}, {Name: "reason", Drop: 3}, {Name: "nodes", Drop: 2},
		{Name: "source", Drop: 1}, {Name: "run"}, {Name: "settings"},
	}}}
	columns := len(b.Table.Columns)
	if len(points) == 0 {
		columns--
	}
	b.Table.Columns = b.Table.Columns[:columns]
	for i := 0; i < len(dirs); {
		dir, same := dirs[i], alike(dirs[i:], jobs, states)
		i += len(same)
		job, st := jobs[dir], states[dir]
		state := st.State
		switch {
		case job.Refused != "":
			state = "refused"
		case job.JobID == "" && run.HasPlan(dir):
			state = "not submitted"
		}
		reason := cmp.Or(job.Refused, st.Reason, waitedFor(job, st))
		if utf8.RuneCountInString(reason) > widestReason {
			if !slices.Contains(b.Lines, reason) {
				b.Lines = append(b.Lines, reason)
			}
			reason = text.Snip(reason, widestReason, "…")
		}
		shown := terminal.Cell{Text: strings.TrimSpace(state + " " + st.Note), Tone: StateTone(st)}
		b.Table.Row(Cells(job.JobID, shown, reason, st.NodeList, st.Source, place(same, relative), points[dir])[:columns]...)
	}
	return b
}

// alike are the first of some runs, and those behind it that its job left without their turn, too.
func alike(dirs []string, jobs map[string]run.Submission, states map[string]run.State) []string {
	shown := func(dir string) [6]string {
		st := states[dir]
		return [...]string{jobs[dir].JobID, st.State, st.Reason, st.NodeList, st.Source, filepath.Dir(dir)}
	}
	n := 1
	for n < len(dirs) && states[dirs[0]].MissedTurn() && states[dirs[n]].MissedTurn() &&
		shown(dirs[n]) == shown(dirs[0]) {
		n++
	}
	return dirs[:n]
}

// place names runs beside each other.
func place(dirs []string, relative func(string) string) string {
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = relative(dir)
	}
	return quantity.Paths(names)
}

// waitedFor says what a job that never began was waiting for.
func waitedFor(job run.Submission, st run.State) string {
	if st.Note != run.NeverRan || len(job.Waits) == 0 {
		return ""
	}
	return "waited for " + strings.Join(job.Waits, ", ")
}

// stateTones are the tones of job states; the ends that are not listed are bad.
var stateTones = map[string]terminal.Tone{
	run.Running: terminal.Busy, run.Succeeded: terminal.Good,
	run.Queued: terminal.Doubtful, run.Unknown: terminal.Doubtful,
}

// StateTone is the tone of a job's state, plain where there is no job.
func StateTone(st run.State) terminal.Tone {
	if tone, ok := stateTones[st.State]; ok || !st.Final() {
		return tone
	}
	return terminal.Bad
}
