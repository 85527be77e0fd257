package collect

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/profllm/profllm/pkg/run"
)

// Again is how a run is made again. The zero value is that of a run which profllm did not make.
type Again struct {
	Resume   string // directory for slurm resume; "": none
	Rehearse string // arguments of rehearse; "": none
}

// The definitions that are kept with an execution, as package definition names them.
const (
	scenarioCopy = "scenario.toml"
	systemCopy   = "system.toml"
)

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
		return Again{Resume: shellWord(shown)}
	}
	back, err := filepath.Rel(dir, root)
	if err != nil {
		return Again{}
	}
	return Again{Rehearse: rehearseArguments(root, filepath.Join(shown, back))}
}

// rehearseArguments are those of the definitions that are kept in an execution; "" without them.
func rehearseArguments(root, shown string) string {
	kept, shown := filepath.Join(root, run.DefinitionDir), filepath.Join(shown, run.DefinitionDir)
	if _, err := os.Stat(filepath.Join(kept, scenarioCopy)); err != nil {
		return ""
	}
	args := shellWord(filepath.Join(shown, scenarioCopy))
	if _, err := os.Stat(filepath.Join(kept, systemCopy)); err == nil {
		args += " --system " + shellWord(filepath.Join(shown, systemCopy))
	}
	return args
}

// Command makes the run again: slurm resume with these flags, or rehearse, which needs none of
// them; "" if profllm cannot make it again.
func (a Again) Command(flags string) string {
	switch {
	case a.Rehearse != "":
		return "profllm rehearse " + a.Rehearse
	case a.Resume == "":
		return ""
	case flags != "":
		flags += " "
	}
	return "profllm slurm resume " + flags + a.Resume
}

var (
	resumeStep = regexp.MustCompile(`(: )?profllm[ ]slurm resume(?: (--failed))? DIR\b`)
	jobStep    = regexp.MustCompile(`(: | \()((?:sacct|scontrol) [^():;]*\bJOB\b[^():;]*)(\)?)`)
)

// NextStep puts into a next step of the table of causes what it stands for in one run: how the
// run is made again for "profllm slurm resume DIR", and the id of its job for JOB. A command that
// does not exist for the run is left out; jobID is "" for a run without a job of Slurm.
func NextStep(next string, a Again, jobID string) string {
	next = resumeStep.ReplaceAllStringFunc(next, func(text string) string {
		m := resumeStep.FindStringSubmatch(text)
		switch command := a.Command(m[2]); {
		case command != "":
			return m[1] + command
		case m[1] != "":
			return ""
		}
		return "run it again"
	})
	return jobStep.ReplaceAllStringFunc(next, func(text string) string {
		if jobID == "" {
			return ""
		}
		return strings.ReplaceAll(text, "JOB", jobID)
	})
}

// jobOf is the id of the run's job of Slurm, "" if it is not known or was none.
func jobOf(e *evidence) string {
	id := e.claim.JobID
	if e.state != nil && e.state.JobID != "" {
		id = e.state.JobID
	}
	if strings.HasPrefix(id, run.LocalPrefix) {
		return ""
	}
	return id
}

var plainWord = regexp.MustCompile(`^[\pL\pN_@%+=:,./-]+$`)

// shellWord is a path as a word of a command line.
func shellWord(path string) string {
	if plainWord.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
