package result

import (
	"fmt"
	"slices"
	"strings"
)

// JobEnd is what the files of a run say of its job's end. Slurm's word is in the record.
type JobEnd struct {
	// Script is the exit code of the job's script as it stands in the sentinel, before
	// phases and results were judged; nil without a sentinel.
	Script *int
	// Judged is the exit code that the job took for a failed phase or an invalid result,
	// which other checks report; 0 for neither. For says which of the two.
	Judged int
	For    string
	// Source is the program whose word the record has of Slurm, such as sacct. The record
	// of a job that Slurm has forgotten repeats the sentinel.
	Source string
	// Local is how a job of this machine ended, in Slurm's words; nil for others.
	Local *Slurm
}

// FromSentinel is the Source of a record that repeats the sentinel.
const FromSentinel = "sentinel"

// open are the states of a job whose end is not known.
var open = []string{"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "UNKNOWN"}

// jobState hears every witness of the job's end. The worst of them decides, and all of
// them are named.
func jobState(c *facts) answer {
	var end JobEnd
	if c.e.Job != nil {
		end = *c.e.Job
	}
	var parts []string
	bad := false
	add := func(text string, isBad bool) { parts, bad = append(parts, text), bad || isBad }
	if end.Script != nil {
		add(fmt.Sprintf("the script ended with %d (its sentinel)", *end.Script), *end.Script != 0)
	}
	unknown := ""
	for _, w := range end.schedulers(c.r.Slurm) {
		if state := w.word(); slices.Contains(open, state) {
			unknown = fmt.Sprintf("job %s is %s; how it ended is not known", w.JobID, state)
			continue
		}
		add(fmt.Sprintf("job %s is %s, exit code %s (%s)", w.JobID, w.State, orNone(w.ExitCode), w.by), w.bad(end.Judged))
	}
	text := strings.Join(parts, "; ")
	switch {
	case len(parts) == 0 && unknown != "":
		return notPossible("%s", unknown)
	case len(parts) == 0:
		return notPossible("not run under Slurm, or its state is not known")
	case bad && c.e.Apart:
		return pass("this load was over before its job ended: %s", text)
	case bad:
		return fail("%s", text)
	case end.Judged != 0:
		return pass("%s; the job's exit code %d means %s", text, end.Judged, end.For)
	}
	return pass("%s", text)
}

// schedulerWord is what a scheduler says of a job.
type schedulerWord struct {
	*Slurm
	by string
}

// schedulers lists the words of schedulers.
func (e *JobEnd) schedulers(s *Slurm) []schedulerWord {
	var list []schedulerWord
	if s != nil && s.State != "" && e.Source != FromSentinel {
		by := e.Source
		if by == "" {
			by = "Slurm"
		}
		list = append(list, schedulerWord{s, by})
	}
	if e.Local != nil {
		list = append(list, schedulerWord{e.Local, "this machine"})
	}
	return list
}

// word is the state without what Slurm adds to it, as in "CANCELLED by 1000".
func (w schedulerWord) word() string {
	state, _, _ := strings.Cut(w.State, " ")
	return state
}

// bad reports whether the job did not end well by this word, for another reason than
// its own judgement. An exit code that is not known contradicts no judgement.
func (w schedulerWord) bad(judged int) bool {
	switch w.word() {
	case "COMPLETED":
		return w.ExitCode != "" && w.ExitCode != "0:0"
	case "FAILED":
		return judged == 0 || w.ExitCode != "" && w.ExitCode != fmt.Sprintf("%d:0", judged)
	}
	return true
}

// JobFailed tells a run that did not do what it should from one that did and whose numbers
// cannot be believed.
func (r *Result) JobFailed() bool {
	if r.Status == Failed || r.Status == Cancelled {
		return true
	}
	if r.Validity == nil {
		return false
	}
	for _, word := range []string{"job-state", "phase-failed", "role-died"} {
		if c := r.Validity.Check(word); c != nil && c.Outcome == Fail {
			return true
		}
	}
	return false
}
