package summary

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

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
	for _, dir := range dirs {
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
		b.Table.Row(Cells(job.JobID, shown, reason, st.NodeList, st.Source, relative(dir), points[dir])[:columns]...)
	}
	return b
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
