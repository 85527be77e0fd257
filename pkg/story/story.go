// Package story tells in about ten lines what became of a run, and why: what
// was asked, what happened when, how the job ended, the first cause with the
// line that shows it, what followed from it, what to do, and where to read on.
//
// Of is pure: the same evidence gives the same story. Read gathers what lies in
// a run directory.
package story

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/terminal"
)

// Evidence is what is known of one load of a run. Everything but Dir may be
// missing.
type Evidence struct {
	Dir        string // of the run, as it is to be shown
	RecordDir  string // of the load's record, as it is to be shown; "": Dir
	Local      bool   // a rehearsal: its job was this machine's
	Again      collect.Again
	Plan       *plan.Plan
	Load       *plan.Load
	Submission *run.Submission
	State      *run.State
	Claim      *run.Claim
	Placement  *run.Placement
	Sentinel   *run.Sentinel
	Events     []job.Event
	Result     *result.Result
	Logs       []string // below Dir
	Notes      []string // what could not be read
}

// Story is what there is to tell.
type Story struct {
	Run string `json:"run"` // run id, or the directory
	Dir string `json:"dir"`
	// valid, suspect, invalid, failed, cancelled, not over, refused, not submitted; of logs:
	// failed, unclear, no failure found
	Verdict string          `json:"verdict"`
	Lines   []Line          `json:"lines"`
	Failure *result.Failure `json:"failure,omitempty"`

	load string // that it is of, "" if its run has one without a name
	at   string // heads the story: the directory of its record

	job        string // that the run was of, "" if it had none
	missedTurn bool   // the job ended before the run's turn
}

// Line is one part of the story; Part says which.
type Line struct {
	// asked, happened, nodes, job, cause, line, tail, followed, checks, verdict, do, logs, note, others
	Part string `json:"part"`
	Text string `json:"text"`
}

// The verdicts that are not those of a result.
const (
	failed       = "failed"
	cancelled    = "cancelled"
	notOver      = "not over"
	refused      = "refused"
	notSubmitted = "not submitted"
)

// Valid reports whether there is nothing to explain.
func (s Story) Valid() bool { return s.Verdict == string(result.VerdictValid) }

// Well reports whether the story has no failure in it, neither of the numbers nor of the
// job, and nothing that could not be read.
func (s Story) Well() bool {
	untold := func(l Line) bool { return l.Part == "verdict" || l.Part == "note" }
	return s.Valid() && !slices.ContainsFunc(s.Lines, untold) || s.Verdict == noFailure
}

// Of tells the story.
func Of(e Evidence) Story {
	s := Story{Run: e.name(), Dir: e.Dir, at: cmp.Or(e.RecordDir, e.Dir), Verdict: e.verdict()}
	if e.Submission != nil {
		s.job, s.missedTurn = e.Submission.JobID, e.neverRan() && e.State.MissedTurn()
	}
	s.add("asked", e.asked())
	s.add("happened", e.happened())
	s.add("nodes", e.nodes())
	s.add("job", e.job())
	if !s.Valid() && s.Verdict != notOver {
		s.why(e)
	}
	s.add("verdict", e.apart(s))
	s.add("do", e.next(s))
	if !s.Valid() && !e.neverRan() {
		s.add("logs", e.logs())
	}
	s.add("note", noted(e.Notes))
	return s
}

func (s *Story) add(part, text string) {
	if text != "" {
		s.Lines = append(s.Lines, Line{part, text})
	}
}

// why adds the cause, and what followed.
func (s *Story) why(e Evidence) {
	f := e.failure()
	if f != nil {
		s.blame(f)
	}
	s.add("followed", e.followed(f))
	if !e.neverRan() { // else every check says that nothing is there
		s.add("checks", e.checks(f == nil || e.wentWell()))
	}
}

// neverRan reports whether the job was cancelled before it started: there is nothing to read.
func (e *Evidence) neverRan() bool {
	return e.State != nil && e.State.State == run.Cancelled && e.State.Note == run.NeverRan && len(e.Logs) == 0
}

// blame adds the cause and what shows it.
func (s *Story) blame(f *result.Failure) {
	s.Failure = f
	s.add("cause", cause(f))
	s.add("line", f.Line)
	if tail := lastOf(f.Tail, 6); f.Confidence == result.NoCause && strings.Join(tail, "") != f.Line {
		s.add("tail", strings.Join(tail, "\n"))
	}
}

// failure is the cause of the record. A run whose parts all did what they
// should and whose numbers are bad has none but the checks that failed; one that
// was cancelled needs no other.
func (e *Evidence) failure() *result.Failure {
	if e.Result == nil || e.Result.Failure == nil {
		return nil
	}
	f := e.Result.Failure
	if f.Confidence == result.NoCause && (e.wentWell() || e.Result.Status == result.Cancelled) {
		return nil
	}
	return f
}

// judgedInvalid is the exit code of a job whose only fault is its numbers.
const judgedInvalid = 6

// wentWell reports whether every part of the run did what it should.
func (e *Evidence) wentWell() bool {
	return e.Sentinel != nil && (e.Sentinel.Code == 0 || e.Sentinel.Code == judgedInvalid) &&
		len(e.failedPhases()) == 0 && !e.saw(job.RoleDied) && !e.saw(job.NotReady)
}

func (e *Evidence) saw(event string) bool {
	return slices.ContainsFunc(e.Events, func(x job.Event) bool { return x.Event == event })
}

func (e *Evidence) name() string {
	switch {
	case e.Load != nil && e.Load.RunID != "":
		return e.Load.RunID
	case e.Plan != nil:
		return e.Plan.RunID
	}
	return e.Dir
}

func (e *Evidence) verdict() string {
	r := e.Result
	switch {
	case e.Submission != nil && e.Submission.Refused != "":
		return refused
	case r == nil || r.Status == result.Unknown:
		if e.Plan != nil && e.Submission == nil && e.Claim == nil {
			return notSubmitted
		}
		return notOver
	case r.Status == result.Cancelled:
		return cancelled
	case r.Status == result.Ended:
		return result.Ended.String()
	case r.JobFailed(): // however many requests were done by then
		return failed
	case r.Validity != nil:
		return string(r.Validity.Verdict)
	}
	return notOver
}

// asked is the test, its roles and its nodes.
func (e *Evidence) asked() string {
	p := e.Plan
	if p == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "test %s of scenario %s", p.Test, p.Scenario)
	if e.Load != nil && e.Load.Name != "" {
		b.WriteString(ofLoad(e.Load.Name))
	}
	if p.Simulated {
		b.WriteString(", SIMULATED engine")
		if n := p.Speed(); n > 1 {
			fmt.Fprintf(&b, " at speed %d", n)
		}
	}
	var roles []string
	for _, r := range p.Roles {
		text := r.Name
		if n := len(r.GPUs) * r.Nodes.Count; n > 0 {
			text += fmt.Sprintf(" on %d GPUs", n)
		}
		roles = append(roles, text)
	}
	if e.Load != nil {
		for _, c := range e.Load.Clients {
			roles = append(roles, c.Name)
		}
	}
	if len(roles) > 0 {
		b.WriteString(": " + strings.Join(shortened(roles, 8), ", "))
	}
	fmt.Fprintf(&b, "; %s", quantity.Count(p.Job.Nodes, "node"))
	if e.Placement != nil {
		var hosts []string
		for _, n := range e.Placement.Nodes {
			hosts = append(hosts, n.Host)
		}
		if len(hosts) > 0 {
			b.WriteString(" (" + strings.Join(shortened(hosts, 4), ", ") + ")")
		}
	}
	return b.String()
}

// happened is the run's timeline, in seconds since its start.
func (e *Evidence) happened() string {
	var parts []string
	var start time.Time
	switch {
	case e.Claim != nil && !e.Claim.Time.IsZero():
		start = e.Claim.Time
	case len(e.Events) > 0:
		start = e.Events[0].Time
	}
	if !start.IsZero() {
		parts = append(parts, "started "+start.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	since := func(t time.Time) string { return fmt.Sprintf("%.1f s", t.Sub(start).Seconds()) }
	var ready []job.Event
	for _, x := range e.Events {
		if x.Event == job.RoleReady {
			ready = append(ready, x)
		}
	}
	parts = append(parts, readiness(ready, since)...)
	for _, x := range e.Events {
		switch x.Event {
		case job.LoadBegins:
			parts = append(parts, fmt.Sprintf("load %s began at %s", x.Load, since(x.Time)))
		case job.RoleDied:
			parts = append(parts,
				fmt.Sprintf("%s died at %s%s, %s", x.Role, since(x.Time), ending(e.exitOf(x.Role)),
					cmp.Or(x.Text, "by itself")))
		case job.NotReady:
			said := fmt.Sprintf("%s was not ready at %s, when its time limit ended", x.Role, since(x.Time))
			if x.Text != "" {
				said += " (" + x.Text + ")"
			}
			parts = append(parts, said)
		}
	}
	if e.Sentinel != nil {
		parts = append(parts, fmt.Sprintf("ended at %s with code %d", since(e.Sentinel.Time), e.Sentinel.Code))
	}
	return strings.Join(parts, "; ")
}

// nodes says what was wrong with the nodes before servers started, and what was
// found on them after the end.
func (e *Evidence) nodes() string {
	var failed, parts []string
	for _, x := range e.Events {
		switch x.Event {
		case job.PreflightFailed:
			failed = append(failed, fmt.Sprintf("%s was not fit: %s: %s", x.Node, x.Check, x.Text))
		case job.PreflightWarned:
			parts = append(parts, fmt.Sprintf("%s: %s: %s", x.Node, x.Check, x.Text))
		}
	}
	if e.Result != nil {
		for _, w := range e.Result.Warnings {
			if w.Kind == result.NodeUnclean {
				parts = append(parts, fmt.Sprintf("left on %s: %s", w.Key, w.Text))
			}
		}
	}
	return strings.Join(shortened(append(failed, parts...), 4), "; ")
}

// readiness says when roles were ready: each, or a range of many.
func readiness(ready []job.Event, since func(time.Time) string) []string {
	const most = 4
	if len(ready) > most {
		return []string{fmt.Sprintf("%s ready after %s to %s", quantity.Count(len(ready), "role"), since(ready[0].Time),
			since(ready[len(ready)-1].Time))}
	}
	var parts []string
	for _, x := range ready {
		parts = append(parts, fmt.Sprintf("%s ready after %s", x.Role, since(x.Time)))
	}
	return parts
}

// lastSignal is Linux's highest signal: srun's 255 is an exit code, not a signal.
const lastSignal = 64

// ending says an exit code where it tells something.
func ending(code int) string {
	switch {
	case code < 0:
		return ""
	case code > 128 && code <= 128+lastSignal:
		return fmt.Sprintf(" (signal %d)", code-128)
	}
	return fmt.Sprintf(" (exit code %d)", code)
}

// exitOf is the exit code of a role's step, -1 if nobody saw it.
func (e *Evidence) exitOf(role string) int {
	if e.Sentinel != nil {
		for _, r := range e.Sentinel.Roles {
			if r.Name == role {
				return r.Code
			}
		}
	}
	return -1
}

// job is what the scheduler says.
func (e *Evidence) job() string {
	var parts []string
	if e.Submission != nil && e.Submission.Refused != "" {
		parts = append(parts, "refused: "+e.Submission.Refused)
	}
	if s := e.State; s != nil && s.State != "" {
		text := fmt.Sprintf("job %s %s", s.JobID, s.State)
		if s.Raw != "" && !strings.EqualFold(s.Raw, s.State) {
			text += " (" + s.Raw + ")"
		}
		if s.Note != "" {
			text += ", " + s.Note
		}
		if s.Reason != "" && s.Reason != "None" {
			text += ", reason " + s.Reason
		}
		text += exitCode(s)
		if !s.At.IsZero() {
			source := s.Source
			if source == "local" {
				source = "this machine"
			}
			text += fmt.Sprintf("; %s said so at %s", source, s.At.UTC().Format("2006-01-02 15:04:05 MST"))
		}
		parts = append(parts, text)
	} else if e.Submission != nil && e.Submission.JobID != "" {
		parts = append(parts, "job "+e.Submission.JobID+"; its state was never queried")
	}
	return strings.Join(parts, "; ")
}

// followed lists other causes and the phases that failed.
func (e *Evidence) followed(f *result.Failure) string {
	parts := shortened(followers(f), 4)
	for _, ph := range e.failedPhases() {
		if ph.Code < 0 {
			parts = append(parts, "phase "+ph.Name+" was ended, because a role had died")
			continue
		}
		parts = append(parts, fmt.Sprintf("phase %s failed%s", ph.Name, ending(ph.Code)))
	}
	return strings.Join(parts, "; ")
}

func (e *Evidence) failedPhases() []run.Phase {
	if e.Sentinel == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.Sentinel.Phases), func(ph run.Phase) bool { return ph.Code == 0 })
}

// checks lists what the judgement found, worst first; with the numbers where
// nothing else is the cause, or every part did what it should.
func (e *Evidence) checks(numbers bool) string {
	if e.Result == nil || e.Result.Validity == nil {
		return ""
	}
	if !numbers {
		return strings.Join(shortened(e.Result.Validity.Words, 6), ", ")
	}
	var parts []string
	for _, word := range e.Result.Validity.Words {
		if c := e.Result.Validity.Check(word); c != nil && c.Outcome == result.Fail {
			parts = append(parts, strings.TrimSuffix(word+": "+c.Detail, ": "))
		}
	}
	return strings.Join(shortened(parts, 4), "; ")
}

// next is what to do.
func (e *Evidence) next(s Story) string {
	switch s.Verdict {
	case string(result.VerdictValid):
		if e.jobFailure() != "" {
			return "find out why the job failed before you use the numbers; the logs are below " + e.Dir
		}
		return "nothing: the run is valid"
	case result.Ended.String():
		return "nothing: it ended, as planned, when the runs that it accompanied (end_post_comp) were over"
	case notSubmitted:
		return "nothing was submitted: " + e.again("")
	case refused:
		if e.Submission.ParentFailed {
			if command := e.Again.Command("--failed"); command != "" {
				return "fix what it waits for, then " + command + " runs both"
			}
			return "fix what it waits for, then run both again"
		}
		return "correct what Slurm refuses, then " + e.again("")
	case notOver:
		if st := e.State; st != nil && st.Note == run.Held {
			return "release the job: scontrol release " + st.JobID
		} else if st != nil && st.Note == run.NeverStarts {
			return "it cannot start as it is: profllm slurm cancel " + e.Dir +
				", correct what the reason names, submit it again"
		}
		if e.Local {
			return "wait; profllm slurm status " + e.Dir + " shows its state"
		}
		return "wait; profllm slurm status " + e.Dir + " asks Slurm again"
	}
	if e.neverRan() {
		return "nothing to read: it was cancelled before it started; " + e.runsAgain()
	}
	if s.Failure != nil {
		return s.Failure.Next
	}
	if s.Verdict == cancelled { // its checks say no more than that it was cut short
		return "the job was cancelled: " + e.runsAgain()
	}
	if e.Result != nil && e.Result.Validity != nil {
		for _, word := range e.Result.Validity.Words {
			if c := e.Result.Validity.Check(word); c != nil && c.Outcome == result.Fail {
				return "do not use the numbers: " + c.Why
			}
		}
	}
	return ""
}

// again is the command that runs it again, with flags of slurm resume, or these words if
// profllm cannot.
func (e *Evidence) again(flags string) string {
	return cmp.Or(e.Again.Command(flags), "run it again")
}

// runsAgain says what runs it again.
func (e *Evidence) runsAgain() string {
	if command := e.Again.Command(""); command != "" {
		return command + " runs it again"
	}
	return "run it again"
}

func (e *Evidence) logs() string {
	if len(e.Logs) == 0 {
		return e.Dir
	}
	return e.Dir + ": " + strings.Join(shortened(e.Logs, 6), ", ")
}

// shortened keeps the first ones of a long list, and says how many there are.
func shortened(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most-1]), fmt.Sprintf("and %d more", len(list)-most+1))
}

func lastOf(list []string, most int) []string { return list[max(0, len(list)-most):] }

// Write prints the story for a person; parts stand in a column of their own.
func (s Story) Write(w io.Writer) error { return s.Show(w, terminal.Screen{}) }

// copied are the parts that are log lines or may hold a command: they are not folded.
var copied = []string{"line", "tail", "do"}

// Show prints the story on a screen.
func (s Story) Show(w io.Writer, screen terminal.Screen) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", screen.Harmless(s.at), screen.Paint(tone(s.Verdict), s.Verdict))
	for _, l := range s.Lines {
		for i, text := range strings.Split(l.Text, "\n") {
			part := l.Part
			if i > 0 {
				part = ""
			}
			head, text := fmt.Sprintf("  %-9s ", part), screen.Harmless(printable(text))
			if slices.Contains(copied, l.Part) {
				text = head + text
			} else {
				text = screen.Hang(head, text)
			}
			b.WriteString(text + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tone is how a verdict is to be taken.
func tone(verdict string) terminal.Tone {
	switch {
	case strings.HasPrefix(verdict, string(result.VerdictValid)), verdict == noFailure:
		return terminal.Good
	case strings.HasPrefix(verdict, string(result.VerdictSuspect)), verdict == notOver, verdict == unclear:
		return terminal.Doubtful
	case verdict == result.Ended.String():
		return terminal.Plain
	}
	return terminal.Bad
}

// printable keeps what a log says from moving the reader's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}
