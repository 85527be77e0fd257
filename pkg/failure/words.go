package failure

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/result"
)

// How well a line tells what a program failed of.
const (
	saysNothing = iota
	isLast      // the last line of a program that failed
	ended       // a container did not start, a command failed
	complains   // "cannot", "no such file"
	marked      // calls itself an error
	named       // the last line of a traceback, a panic, a fatal error
)

var (
	// complaint is how programs begin or mark what they end with.
	complaint = lazyregexp.New(`(?i)(?:^|[\s:\])(])(?:error|\w+error|\w+exception|exception|aborted|abort|assertion failed|` +
		`cannot|can't|could not|couldn't|unable to|failed|failure|no such \w+|not found|not a \w+|not in \w+ format|\w* ?denied|refused|timed out|undefined reference|invalid|illegal|unrecognized|unknown|unexpected|unsupported|not supported|unavailable|limit exceeded|missing|corrupt\w*)(?:[:;,.\s!]|$)`)
	// mark is how a line says that it is an error: a word, or a letter in the place
	// where a logger puts the level. NCCL calls its errors warnings.
	mark = lazyregexp.New(`(?i:(?:^|[\s:\])(\w])(?:error|exception)(?:[:\s!(\[]|$))|\[E\]|^E\d{4} \d\d:\d\d:\d\d|\bNCCL WARN\b|\[(?:ERROR|CRITICAL|FATAL|ERR|FTL)\]|"level":"(?i:error|fatal|d?panic)"`)
	// name is how a line begins that names what happened.
	name = lazyregexp.New(`^(?:[\w.]+\()?(?:(?:[A-Za-z_]\w*\.)+_?[A-Z]\w*|[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Expired)|Exception)\)?(?::|$)|` +
		`^(?:panic|what\(\)): |panicked at|(?:^|[\s:\])(])(?i:fatal(?: error)?)[\s:!]`)
	// prefixes are what loggers and launchers put in front of a traceback's lines.
	prefixes = lazyregexp.New(`^(?:\[?\w*\d+\]?: ?|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \S+?:\d+\] ?|\(\w+[^)]*\) )+`)
	// inTraceback is a line of a traceback that is not its last.
	inTraceback = lazyregexp.New(`^\s+(?:File "|[~^]+$)|^Traceback \(most recent call last\)|^frame #\d+: |^Exception raised from `)
	warned      = lazyregexp.New(`(?i)\b(?:DEBUG|INFO|WARN|WARNING|\w+Warning|note|hint)\b ?[]:\d\[ ]|level=(?:info|warning)\b|\[[WI]\] |\bfailed requests:|\bgoing to \S+ instead`)
)

// bareKill is what a shell prints of a program of its own that got SIGKILL.
var bareKill = lazyregexp.New(`^Killed$`)

// nothing is how a line says that there is nothing to complain about, what click and Slurm print of a program that was
// told to stop, what Dynamo then calls errors, and the rows of AIPerf's table of results.
var nothing = lazyregexp.New(`(?i)\b(?:0|no) (?:errors?|failed|failures)\b|^Aborted!$|\*\*\* STEP \S+ ON \S+ CANCELLED AT |` +
	`dynamo_\S+ .{0,200}\bchannel closed\b|response failed classification=Status code: 503 Service Unavailable latency=\d+ ms$|` +
	`^│ +Request Error Rate \(%\) │`)

// weigh says how much a line tells.
func (t *Table) weigh(line string) int {
	text := strings.TrimSpace(line)
	if _, after := split(line); after != line {
		text = after
	}
	plain := text[len(prefixes.FindString(text)):]
	if continues(line) || nothing.MatchString(plain) || strings.IndexFunc(plain, unicode.IsLetter) < 0 ||
		inTraceback.MatchString(plain) || isHeader(line) || ours.MatchString(line) {
		return saysNothing
	}
	switch tail := t.tail(line); {
	case bareKill.MatchString(plain):
		return named
	case slices.Contains(betterThanNone, tail):
		return ended
	case tail != "":
		return saysNothing
	case name.MatchString(plain) && !warned.MatchString(plain):
		return named
	case strings.Contains(line, "NCCL WARN"):
		return marked
	case warned.MatchString(line):
		return saysNothing
	case mark.MatchString(line):
		return marked
	case complaint.MatchString(line):
		return complains
	}
	return isLast
}

// continues reports whether a line goes on with a message of several lines, each of which
// a logger gave a prefix.
func continues(line string) bool {
	_, text := split(line)
	return text != line && (strings.HasPrefix(text, "  ") || strings.HasPrefix(text, "\t"))
}

// tail is the id of a line that only says that something ended, "" of others.
func (t *Table) tail(line string) string {
	found := make([]bool, len(t.entries)+markers)
	t.filter.all([]byte(line), found)
	for _, i := range t.always {
		found[i] = true
	}
	for i, e := range t.entries {
		if found[i] && e.re.MatchString(line) {
			if e.Kind == Tail {
				return e.ID
			}
			break
		}
	}
	return ""
}

// burst is how many lines that say less may stand between two complaints of one
// event.
const burst = 6

// panicked is how a runtime announces that it ends the program; a trace follows.
var panicked = lazyregexp.New(`^panic: |panicked at|^fatal error: `)

// epilogue is how many ordinary lines a program may print when it has given up.
const epilogue = 3

// betterThanNone are the tails that say at least what ended.
var betterThanNone = []string{"container-failed", "command-failed"}

// lastWords returns the line near the end that looks most like what a program
// says when it gives up; nil if none does. Of tracebacks the last one counts, of
// other complaints the first of the last event: what follows it follows from it.
//
// Final reports whether the log ends with them: a complaint that a program went
// on after is shown, but it is no cause of the program's end.
func (s *scanner) lastWords() (words *Finding, final bool) {
	end := len(bytes.TrimRight(s.text, "\r\n \t"))
	no := s.line1 + bytes.Count(s.text[:end], []byte("\n"))
	least := ended
	if s.log.Exit != 0 {
		least = isLast // the last line is better than none
	}
	var best span
	most, since := saysNothing, 0
	ordinary, after := 0, 0 // lines that say nothing bad: so far, and behind the best
	var box notice
	for n := 0; n < tailLines && end > 0; n++ {
		start := bytes.LastIndexByte(s.text[:end], '\n') + 1
		line := shown(string(s.text[start:end]))
		weight := s.t.weigh(line)
		since++
		switch {
		case weight < least:
		case weight > most, weight == most && weight < named && weight > isLast && since <= burst:
			most, best, since, after = weight, span{start: start, end: end, no: no}, 0, ordinary
		}
		if begun := box.add(line, span{start: start, end: end, no: no}, ordinary); begun && most < complains {
			most, best, since, after = complains, box.text, 0, box.after
		}
		if weight == isLast || weight == saysNothing && warned.MatchString(line) {
			ordinary++
		}
		end, no = max(0, start-1), no-1
	}
	if most == saysNothing {
		return nil, false
	}
	f := s.finding(&entry{}, best)
	f.ID, f.Kind = "unknown", Tail
	if f.Line = redact.Line(clip(shown(strings.ReplaceAll(string(s.text[best.start:best.end]), "\r\n",
		"\n")))); strings.Contains(f.Line, "\n") {
		f.Line = strings.Join(strings.Fields(f.Line), " ")
	}
	return &f, after <= epilogue || panicked.MatchString(f.Line)
}

// edge is the line above and below a message of Open MPI and of PRRTE.
var edge = strings.Repeat("-", 74)

// A notice is such a message, which is read from below; its first paragraph says what
// is wrong.
type notice struct {
	open, blank bool
	warned      bool
	text        span
	after       int // ordinary lines below it
}

// add takes the next line upwards, and reports whether the notice begins with it.
func (n *notice) add(line string, x span, ordinary int) (begun bool) {
	switch text := strings.TrimSpace(line); {
	case text == edge && n.open:
		n.open = false
		return n.text.end > 0 && !n.warned
	case text == edge:
		*n = notice{open: true, blank: true, after: ordinary}
	case text == "":
		n.blank = true
	case n.open && n.blank:
		n.text, n.blank, n.warned = x, false, warned.MatchString(line)
	case n.open:
		n.text.start, n.text.no, n.warned = x.start, x.no, n.warned || warned.MatchString(line)
	}
	return false
}

// shown is a line as a terminal shows it: what follows a carriage return
// overwrites what stands before it. A shell that names a word of a script with
// Windows line ends prints one in the middle, which is made visible.
func shown(line string) string {
	line = strings.ReplaceAll(strings.TrimRight(line, "\r"), "\r: ", `\r: `)
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// hints are the system's own words for what is wrong. They prove nothing in the
// middle of a log; as the last words of a process that failed they name its cause.
var hints = []struct {
	re *lazyregexp.Regexp
	id string
}{
	{lazyregexp.New(`\\r: `), "script-line-ends"},
	{bareKill, killed},
	{lazyregexp.New(`(?i)(?:cuda|gpu|hip|nvml).*(?:out of memory|insufficient memory)`), "cuda-oom"},
	{lazyregexp.New(`(?i)permission denied|operation not permitted|\bEACCES\b`), "permission-denied"},
	{lazyregexp.New(`(?i)executable file .{0,60}not found|command not found|required file not found`),
		"program-missing"},
	{lazyregexp.New(`(?i)no such file or directory|\bENOENT\b`), "file-missing"},
	{lazyregexp.New(`(?i)address already in use`), "port-in-use"},
	{lazyregexp.New(`(?i)cannot assign requested address`), "address-not-local"},
	{lazyregexp.New(`(?i)connection refused`), "connection-refused"},
	{lazyregexp.New(`(?i)could not resolve host|no such host|name resolution`), "host-unknown"},
	{lazyregexp.New(`(?i)too many open files`), "too-many-files"},
	{lazyregexp.New(`(?i)cannot allocate|out of memory`), "python-memory-error"},
	{lazyregexp.New(`(?i)input/output error|read-only file system`), "fs-io-error"},
	{lazyregexp.New(`(?i)\b(?:invalid value|is not a valid|missing (?:required )?(?:option|argument|parameter)|required arguments? were not|flag needs an argument|no such command|unknown command)\b`), badValue},
	{lazyregexp.New(`(?i)(?:unrecognized|unknown|illegal|no such) (?:option|flag)|unrecognized arguments?|invalid option`), "unknown-flag"},
}

// library is in what libraries and daemons call errors of programs that go on.
var library = lazyregexp.New(`\bNCCL WARN\b|\bUCX\s+(?:ERROR|WARN)\b|^slurmstepd\b`)

// container is how pyxis, and enroot through it, say why a container did not start.
var container = lazyregexp.New(`\bpyxis: +(?:\[ERROR\]|error:)`)

// goesOn reports whether a program may go on after such a line.
func goesOn(line string) bool { return library.MatchString(line) && !container.MatchString(line) }

// spoken names the cause that the last words of a process stand for: what the system
// says in them, else what the program itself calls an error.
func (t *Table) spoken(r *Report, f *result.Failure) *result.Failure {
	id := ""
	for _, h := range hints {
		if h.re.MatchString(f.Line) {
			id = h.id
			break
		}
	}
	if id == "" && r.LastWords != nil && t.weigh(r.LastWords.Line) >= marked && !goesOn(f.Line) {
		id = ownMessage
	}
	i, known := t.byID[id]
	if !known {
		return f
	}
	e := &t.entries[i]
	c := clue{Finding: *r.LastWords, entry: e}
	if kind := kindOf(e.ID, e.Area); kind != "" && !slices.Contains(silent, e.ID) {
		c.Nature = kind
	}
	f.Cause, f.Next, f.Command, f.Confidence = e.ID, c.next(), e.Command, result.FromSymptom
	f.Kind, f.About, f.Tail = c.Nature, c.About, nil
	return f
}

// stepEnded is what srun says of a task that ended badly.
var stepEnded = lazyregexp.New(`error: \S+: tasks? [\d,\-]+: (Killed|Aborted|Exited with exit code ([1-9]\d*))`)

// toldToStop are the exit codes of what got INT or TERM.
var toldToStop = []int{130, 143}

// stepEnd names the cause that the end of a step stands for, if nobody cancelled or
// stopped it; an exit code that stands for none is shown with the end of the log.
func (t *Table) stepEnd(r *Report) *result.Failure {
	for i, line := range r.Tail {
		if strings.Contains(line, " CANCELLED AT ") {
			return nil
		}
		m := stepEnded.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		code, _ := strconv.Atoi(cmp.Or(m[2], map[string]string{"Killed": "137", "Aborted": "134"}[m[1]]))
		if slices.Contains(toldToStop, code) {
			continue
		}
		f := unknown(r, nil)
		f.Line, f.LineNumber = line, r.Lines-len(r.Tail)+i+1
		if e, ok := endings[code]; ok {
			f.Cause, f.Next, f.Confidence, f.Kind, f.Tail = e.ID, e.Next, result.FromState, kindOf(e.ID, "engine"), nil
		}
		return f
	}
	return nil
}
