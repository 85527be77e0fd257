package story

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// Logs is what is known of logs that belong to no run.
type Logs struct {
	Path    string // as it is to be shown
	Files   []LogFile
	Notes   []string        // what could not be read
	Failure *result.Failure // nil if no log shows a failure
}

// A LogFile is a log and the role that probably wrote it, "" if nothing tells.
type LogFile struct{ Name, Role string }

// The verdicts on logs.
const (
	unclear   = "unclear"
	noFailure = "no failure found"
)

// OfLogs tells what logs say, in the form of a run's story.
func OfLogs(e Logs) Story {
	s := Story{Run: e.Path, Dir: e.Path, at: e.Path, Verdict: noFailure}
	if f := e.Failure; f != nil {
		s.Verdict = failed
		if f.Confidence == result.NoCause {
			s.Verdict = unclear
		}
		s.blame(f)
		s.add("followed", strings.Join(shortened(followers(f), 4), "; "))
		s.add("do", f.Next)
	} else {
		s.add("do", "nothing: no line says that something failed")
	}
	s.add("logs", strings.Join(shortened(e.files(), 6), ", "))
	s.add("note", noted(e.Notes))
	return s
}

func (e *Logs) files() []string {
	var names []string
	for _, f := range e.Files {
		names = append(names, fmt.Sprintf("%s (%s)", f.Name, cmp.Or(f.Role, "of an unknown role")))
	}
	return names
}

func noted(notes []string) string { return strings.Join(shortened(notes, 4), "; ") }
