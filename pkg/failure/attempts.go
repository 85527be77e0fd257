package failure

import (
	"regexp"
	"slices"
)

var (
	// retrying is how a line says that an attempt will be made again.
	retrying = regexp.MustCompile(`(?i)\b(?:retry(?:ing)?|retries left|will (?:re)?try(?: again)?|reconnect\w*|attempt \d+(?:/| of )\d+|backing off|sleeping \d)`)
	// warning is how a line says that it is no end.
	warning = regexp.MustCompile(`(?i)\bWARN(?:ING)?\b`)
)

// successWords are in the lines that succeeded looks at, in lower case.
var successWords = []string{"initial test run completed", "application startup complete", "ray runtime started", "failed requests:", "step created for",
	"connected to", "reconnected", "connection established", "server is ready", "fired up and ready"}

// succeeded is how a program says that what it tried worked at last.
var succeeded = regexp.MustCompile(`(?i)initial test run completed|application startup complete|ray runtime started|failed requests:\s+0\b|step created for|` +
	`\b(?:re)?connected to (?:ray|gcs|nats|etcd|the server|server|\S+:\d+)|\breconnected\b|connection established|server is ready|fired up and ready`)

// attempted are the areas in which programs try again.
var attempted = []string{"client", "proxy", "network", "ray", "services", "slurm-step", "slurm-submit", "nccl", "hub", "port"}

// settleAttempts marks what was overcome: a symptom before a line of success, and an
// attempt of a log that does not end with a complaint. A refused value is a cause only
// where it ended the program.
func (s *scanner) settleAttempts(r *Report) {
	ended := r.Final || r.Exit != 0 || !r.Ended.IsZero()
	for i := range r.Findings {
		f := &r.Findings[i]
		switch {
		case f.ID != badValue || f.Kind == Root:
		case ended:
			f.Kind = Root
		default:
			f.ID = generic
		}
		index, ok := s.t.byID[f.ID]
		again := retrying.MatchString(f.Line)
		attempt := again || ok && f.Kind == Symptom && slices.Contains(attempted, s.t.entries[index].Area)
		f.Overcome = attempt && (f.No < s.success || again && !ended)
	}
}
