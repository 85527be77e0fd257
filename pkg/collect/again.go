package collect

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/again"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/shell"
)

// Again is how a run is made again. The zero value is that of a run which profllm did not make.
type Again struct {
	Resume string // directory for resume, quoted; "": none
	Verbs  string // the group of its commands; "": slurm
	Local  string // the whole command of a run on one machine; "": none
}

// AgainOf looks how the run in a directory is made again. shown is its path in commands.
func AgainOf(dir, shown string) Again {
	root := run.Root(dir)
	if root == "" {
		return Again{}
	}
	s, err := run.ReadScenario(root)
	if err != nil {
		return Again{}
	}
	if !s.Local {
		return Again{Resume: shell.Quote(shown), Verbs: run.Verbs(dir)}
	}
	back, err := filepath.Rel(dir, root)
	if err != nil {
		return Again{}
	}
	e := again.Execution{Root: root, Shown: filepath.Join(shown, back), Run: dir, Simulated: s.Simulated}
	if p, err := run.ReadPlan(dir); err == nil {
		e.Speed = p.Speed()
	}
	command, _ := e.Command(again.Verb(root))
	return Again{Local: command}
}

// Command makes the run again: slurm resume with these flags, or run or rehearse, which need none
// of them; "" if profllm cannot make it again.
func (a Again) Command(flags string) string {
	switch {
	case a.Local != "":
		return a.Local
	case a.Resume == "":
		return ""
	case flags != "":
		flags += " "
	}
	return "profllm " + cmp.Or(a.Verbs, "slurm") + " resume " + flags + a.Resume
}

// NextStep is what to do about a failure of a run: the sentence of its cause, and behind it the
// command that does it, if there is such a command for this run. jobID is "" for a run without a job
// of Slurm.
func NextStep(next string, command result.Command, a Again, jobID string) string {
	text := ""
	switch {
	case command == result.Resume:
		text = a.Command("")
	case command == result.ResumeFailed:
		text = a.Command("--failed")
	case jobID != "":
		text = strings.ReplaceAll(string(command), result.JobID, jobID)
	}
	if text == "" {
		return next
	}
	return next + ": " + text
}

// jobOf is the id of the run's job of Slurm, "" if it is not known or was none.
func jobOf(e *evidence) string {
	id := e.claim.JobID
	if e.state != nil && e.state.JobID != "" {
		id = e.state.JobID
	}
	if strings.HasPrefix(id, run.LocalPrefix) || strings.HasPrefix(id, run.KubePrefix) {
		return ""
	}
	return id
}
