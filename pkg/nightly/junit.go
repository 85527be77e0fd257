package nightly

import (
	"io"

	"github.com/profllm/profllm/pkg/junit"
)

// JUnit writes a case for each run and each number of the night. Failed and invalid runs
// are errors, and a regression is a failure. Runs and numbers that are suspect, to watch,
// or were not compared are skipped.
func (v Verdict) JUnit(w io.Writer) error {
	s := junit.Suite{Name: "nightly " + v.Scenario, Time: v.Created, Properties: [][2]string{{"root", v.Root}}}
	for _, c := range v.Checked {
		name := c.Metric
		if name == "" {
			name = "run"
		}
		x := junit.Case{Class: c.Test, Name: name, Outcome: junit.Passed, Type: string(c.Kind), Message: c.String(),
			Text: c.Dir}
		switch c.Kind {
		case Failed, Invalid:
			x.Outcome = junit.Broken
		case Regressed:
			x.Outcome = junit.Failed
		case Suspect, Watch, NotCompared:
			x.Outcome = junit.Skipped
		}
		s.Cases = append(s.Cases, x)
	}
	return junit.Write(w, []junit.Suite{s})
}
