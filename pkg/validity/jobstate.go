package validity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// open are the states of a job whose end is not known.
var open = []string{"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "UNKNOWN"}

// jobState hears every witness of the job's end. The worst of them decides, and all of
// them are named.
func jobState(c *facts) answer {
	var end result.JobEnd
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
	for _, w := range schedulerWords(&end, c.r.Slurm) {
		if state := w.word(); slices.Contains(open, state) {
			unknown = fmt.Sprintf("job %s is %s; how it ended is not known", w.JobID, state)
			continue
		}
		add(fmt.Sprintf("job %s is %s, exit code %s (%s)", w.JobID, w.State, orNone(w.ExitCode), w.by),
			w.bad(end.Judged))
	}
	text := strings.Join(parts, "; ")
	switch {
	case len(parts) == 0 && unknown != "":
		return notPossible("%s", unknown)
	case len(parts) == 0:
		return notPossible("not run under Slurm, or its state is not known")
	case bad && c.e.OverBefore:
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
	*result.Slurm
	by string
}

// schedulerWords lists the words of schedulers.
func schedulerWords(e *result.JobEnd, s *result.Slurm) []schedulerWord {
	var list []schedulerWord
	if s != nil && s.State != "" && e.Source != result.FromSentinel {
		by := e.Source
		if by == "" {
			by = "Slurm"
		}
		list = append(list, schedulerWord{s, by})
	}
	if e.Local != nil {
		by := "this machine"
		if e.Source == "kubectl" {
			by = "the cluster"
		}
		list = append(list, schedulerWord{e.Local, by})
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
