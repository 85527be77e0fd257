package failure

import (
	"bytes"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

var (
	// retrying is how a line says that an attempt will be made again.
	retrying = lazyregexp.New(`(?i)\b(?:retry(?:ing)?|retries left|will (?:re)?try(?: again)?|reconnect\w*|attempt \d+(?:/| of )\d+|backing off|sleeping \d)`)
	// warning is how a line says that it is no end.
	warning = lazyregexp.New(`(?i)\bWARN(?:ING)?\b`)
	// refusedForGood is what further attempts do not change: an answer of which lm-eval warns, whose
	// exception names the status, but not the server's reason; a tokenizer that Dynamo's frontend
	// cannot read; the end of a lease in etcd.
	refusedForGood = lazyregexp.New(`API request failed(?:! Status code: 40[0134]\b| with error message: .*"code": ?40[0134]\b)|` +
		`Model materialization failed; .{0,400}error="(?:tokenizer|chat pipeline)|Unable to maintain lease`)
)

// isPassing reports whether a line is a warning, or tells of an attempt that will be repeated.
func isPassing(line string) bool {
	return (warning.MatchString(line) || retrying.MatchString(line)) && !refusedForGood.MatchString(line)
}

// successWords are in the lines that succeeded looks at, in lower case.
var successWords = []string{"initial test run completed", "application startup complete", "ray runtime started",
	"failed requests:", "step created for",
	"connected to", "reconnected", "connection established", "server is ready", "fired up and ready"}

// succeeded is how a program says that what it tried worked at last.
var succeeded = lazyregexp.New(`(?i)initial test run completed|application startup complete|ray runtime started|failed requests:\s+0\b|step created for|` +
	`\b(?:re)?connected to (?:ray|gcs|nats|etcd|the server|server|\S+:\d+)|\breconnected\b|connection established|server is ready|fired up and ready`)

// answered is how a client says that all its requests were answered.
var answered = lazyregexp.New(`(?i)failed requests:\s+0\b`)

// attempted are the areas in which programs try again.
var attempted = []string{"client", "proxy", "network", "ray", "services", "slurm-step", "slurm-submit", "nccl", "hub",
	"port"}

// settleAttempts marks what was overcome: a symptom before a line of success, and an
// attempt of a log that does not end with a complaint. A refused value is a cause only
// where it ended the program.
func (s *scanner) settleAttempts(r *Report) {
	again := s.requeued > 0 && r.Lines-s.requeued > epilogue
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
		if again && f.No <= s.requeued {
			f.Overcome = true // of the attempt before
			continue
		}
		index, ok := s.t.byID[f.ID]
		repeated := retrying.MatchString(f.Line) && !refusedForGood.MatchString(f.Line)
		attempt := repeated || ok && f.Kind == Symptom && slices.Contains(attempted, s.t.entries[index].Area)
		f.Overcome = attempt && (f.No < s.success || repeated && !ended) || f.Passing && f.No < s.success ||
			!ended && (s.beside[f.No] && f.No < s.success || s.startedAgain(f) ||
				s.refusedOnly[f.No] && s.answersAfter(f.No))
	}
}

// A readiness is the line by which a server says that it takes requests.
type readiness struct {
	no     int
	writer string // the prefix that names the process
}

var (
	ready = lazyregexp.New(`(?i)application startup complete|fired up and ready`)
	// besides is the head of a traceback that ends no process: that of another thread,
	// or of what Python met while it cleaned up.
	besides = lazyregexp.New(`^Exception (?:in thread \S+|ignored in)\b`)
	// handler is a line of the part of a server that reads a request, and badRequest
	// and goodRequest are how such a one was answered.
	handler     = lazyregexp.New(`\[serving\w*\.py:\d+\]`)
	badRequest  = lazyregexp.New(`"POST \S+ HTTP/[\d.]+" 4\d\d\b`)
	goodRequest = lazyregexp.New(`"POST \S+ HTTP/[\d.]+" 200\b`)
)

// mostReply is how far below an exception the answer to its request may stand.
const mostReply = 3

// startedAgain reports whether a port that was taken did not matter: the same program
// was started once more, and became ready.
func (s *scanner) startedAgain(f *Finding) bool {
	was, is := process.FindStringSubmatch(f.Line), process.FindStringSubmatch(s.ready.writer)
	return f.ID == "port-in-use" && f.No < s.ready.no && was != nil && is != nil && was[1] == is[1] && was[0] != is[0]
}

// answersAfter reports whether a server answered a request below a line.
func (s *scanner) answersAfter(no int) bool {
	all := goodRequest.FindAllIndex(s.text, -1)
	return len(all) > 0 && s.line1+bytes.Count(s.text[:all[len(all)-1][0]], []byte("\n")) > no
}

// notesAround keeps in mind what only the lines around a finding say: that its exception
// was that of another thread, or that only the request was refused.
func (s *scanner) notesAround(f *Finding, x span, before []string) {
	if above := x.no - f.Block; f.Block > 1 && above < len(before) {
		if _, text := split(before[above]); besides.MatchString(text) {
			s.beside[x.no] = true
		}
	}
	if f.ID == generic && handler.Match(s.text[x.start:x.end]) {
		s.refusedOnly[x.no] = slices.ContainsFunc(s.linesAfter(x, mostReply), badRequest.MatchString)
	}
}

// retriesBelow reports whether the line below says that the attempt will be made again.
func (s *scanner) retriesBelow(x span) bool {
	return slices.ContainsFunc(s.linesAfter(x, 1),
		func(next string) bool { return strings.HasPrefix(next, "Retrying in ") })
}
