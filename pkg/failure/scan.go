package failure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// window is how much is read of a log's head and of its tail (PL-F8).
	window = 8 << 20
	// lineLimit is the longest line reported, in characters (PL-F7).
	lineLimit = 500
	// tailLines is how much is shown of a log without a cause (PL-F1).
	tailLines = 50
	// reach bounds the text around a hit that patterns are put to.
	reach = 32 << 10
	// keep is how many findings of one signature are kept of one log.
	keep = 5
	// backLines is how far a stamp or the head of a traceback is looked for.
	backLines = 300

	// vLLM prints it when it is asked to stop. What follows in the same log
	// is the stop's doing: a healthy server prints EngineDeadError there.
	shutdownMarker = "[shutdown] api server: shutdown triggered"
)

// A Log is the output of one process, or of one step.
type Log struct {
	Role  string // as planned, such as decode or decode[1]
	Node  string
	Rank  int
	File  string    // as it is to be reported
	Ended time.Time // exit of the process, zero if it is not known
	Data  io.Reader
}

// A Finding is a line that matched a signature.
type Finding struct {
	ID    string `json:"id"`
	Kind  Kind   `json:"kind"`
	Line  string `json:"line"`        // redacted, at most 500 characters
	No    int    `json:"line_number"` // 1 for the first
	Rank  string `json:"rank,omitempty"`
	Block int    `json:"block,omitempty"` // line number of the traceback it belongs to
	// Time is the line's stamp, or that of the last line before it that has
	// one; zero if there is none, year 0 if the stamp names no year.
	Time time.Time `json:"time,omitzero"`
	// Quoted lines repeat another process's words.
	Quoted bool `json:"quoted,omitempty"`
	// Stopping lines follow the process's own note that it was told to stop.
	Stopping bool `json:"stopping,omitempty"`
}

// A Report is what a log gave; it can be written on the node that owns the
// log and judged elsewhere.
type Report struct {
	Role     string    `json:"role"`
	Node     string    `json:"node,omitempty"`
	File     string    `json:"file"`
	Ended    time.Time `json:"ended,omitzero"`
	Findings []Finding `json:"findings,omitempty"` // in order of lines
	Tail     []string  `json:"tail,omitempty"`     // last 50 lines, redacted
}

// Scan reads a log once and returns what it found in its first and last
// 8 MiB. Stamps without a zone are taken to be in loc; nil means UTC.
func (t *Table) Scan(l Log, loc *time.Location) (Report, error) {
	if loc == nil {
		loc = time.UTC
	}
	r := Report{Role: l.Role, Node: l.Node, File: l.File, Ended: l.Ended}
	head, tail, tailLine, err := ends(l.Data)
	if err != nil {
		return r, fmt.Errorf("scan %s: %w", l.File, err)
	}
	s := scanner{t: t, log: l, loc: loc, conditions: Conditions(l.Role), kept: map[int]int{}}
	s.candidates = make([]bool, len(t.entries)+1)
	s.window(stripANSI(head), 1)
	last := head
	if tail != nil {
		s.window(stripANSI(tail), tailLine)
		last = tail
	}
	r.Findings = s.findings
	r.Tail = lastLines(stripANSI(last))
	return r, nil
}

// ends returns the first and the last window of a text, and the number of the
// line with which the last one begins; tail is nil if head is everything.
func ends(r io.Reader) (head, tail []byte, tailLine int, err error) {
	head, err = io.ReadAll(io.LimitReader(r, window))
	if err != nil || len(head) < window {
		return head, nil, 0, err
	}
	tailLine = 1 + bytes.Count(head, []byte("\n"))
	// older and newer are consecutive blocks; the tail is cut out of both.
	older, newer := []byte(nil), make([]byte, 0, window)
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		if len(newer) == window {
			tailLine += bytes.Count(older, []byte("\n"))
			if older == nil {
				older = make([]byte, 0, window)
			}
			older, newer = newer, older[:0]
		}
		n, err := io.ReadFull(in, newer[len(newer):window])
		newer = newer[:len(newer)+n]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, nil, 0, err
		}
	}
	tail = slices.Concat(older, newer)
	if cut := len(tail) - window; cut > 0 {
		tailLine += bytes.Count(tail[:cut], []byte("\n"))
		tail = tail[cut:]
		if i := bytes.IndexByte(tail, '\n'); i >= 0 { // the first line is a piece
			tail = tail[i+1:]
			tailLine++
		}
	}
	return head, tail, tailLine, nil
}

var ansi = regexp.MustCompile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\n]*\x07|[@-Z\\\\-_])")

func stripANSI(text []byte) []byte {
	if bytes.IndexByte(text, 0x1b) < 0 {
		return text
	}
	return ansi.ReplaceAll(text, nil)
}

// scanner goes through the windows of one log.
type scanner struct {
	t          *Table
	log        Log
	loc        *time.Location
	conditions []string
	kept       map[int]int // by entry
	candidates []bool      // by entry, then the shutdown marker; reused
	findings   []Finding
	stopping   bool
}

// window puts every line that may match to the patterns. A carriage return
// ends a line like a line feed, but is not counted as one: progress bars
// overwrite themselves.
func (s *scanner) window(text []byte, firstLine int) {
	counted, lineNo := 0, firstLine
	for at := 0; at < len(text); {
		hit := at + 1
		if len(s.t.always) == 0 {
			if hit = s.t.filter.find(text, at); hit < 0 {
				return
			}
		}
		start, end := around(text, at, hit)
		lineNo += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		s.line(text, start, end, lineNo)
		at = max(end, at+1)
	}
}

// around returns the bounds of the line that holds the byte before hit, not
// before from, and no further than reach away.
func around(text []byte, from, hit int) (start, end int) {
	low := max(from, hit-reach)
	start = low + bytes.LastIndexAny(text[low:hit-1], "\n\r") + 1
	high := min(len(text), hit+reach)
	end = hit - 1 + bytes.IndexAny(text[hit-1:high], "\n\r")
	if end < hit-1 {
		end = high
	}
	return start, end
}

func (s *scanner) line(text []byte, start, end, lineNo int) {
	line := text[start:end]
	clear(s.candidates)
	s.t.filter.all(line, s.candidates)
	if s.candidates[len(s.t.entries)] {
		s.stopping = true
	}
	for _, i := range s.t.always {
		s.candidates[i] = true
	}
	for i := range s.t.entries {
		e := &s.t.entries[i]
		if !s.candidates[i] || !e.meets(s.conditions) || !e.re.Match(line) {
			continue
		}
		if s.kept[i]++; s.kept[i] <= keep {
			s.findings = append(s.findings, s.finding(e, text, start, string(line), lineNo))
		}
		return
	}
}

func (s *scanner) finding(e *entry, text []byte, start int, line string, lineNo int) Finding {
	f := Finding{ID: e.ID, Kind: e.Kind, Line: Redact(clip(line)), No: lineNo, Stopping: s.stopping}
	f.Rank = rankOf(line)
	if f.Rank == "" && s.log.Rank > 0 {
		f.Rank = strconv.Itoa(s.log.Rank)
	}
	before := linesBefore(text, start)
	f.Time, _ = stampOf(line, s.loc)
	for i := 0; f.Time.IsZero() && i < len(before); i++ {
		f.Time, _ = stampOf(before[i], s.loc)
	}
	f.Block = tracebackHead(line, before, lineNo)
	if slices.Contains(s.conditions, "client") {
		f.Quoted = quoted(line, before)
	}
	return f
}

// linesBefore returns up to backLines lines in front of an offset, nearest first.
func linesBefore(text []byte, start int) []string {
	var lines []string
	for len(lines) < backLines && start > 0 {
		end := start - 1 // the line feed
		low := max(0, end-reach)
		start = low + bytes.LastIndexByte(text[low:end], '\n') + 1
		lines = append(lines, string(text[start:end]))
	}
	return lines
}

var (
	// vLLM's prefix: "(Worker_TP3 pid=41822) ERROR 11-21 10:14:07 [core.py:1] "
	process = regexp.MustCompile(`^\(([\w-]+)(?:[ =][^)]*)?\) `)
	level   = regexp.MustCompile(`^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?`)
	worker  = regexp.MustCompile(`^\(\w*?Worker_((?:[A-Z]{2,3}\d+_?)+)|\[rank(\d+)\]`)
	// the last line of a traceback, or one of a chain
	raised = regexp.MustCompile(`^(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout))(?::|$)`)
	// a client's report of failed requests
	errorN = regexp.MustCompile(`^Error \d+: `)
)

func rankOf(line string) string {
	m := worker.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return strings.TrimRight(m[1]+m[2], "_")
}

// split takes vLLM's prefix off a line and returns the process it names.
func split(line string) (proc, text string) {
	if m := process.FindStringSubmatch(line); m != nil {
		proc, line = m[1], line[len(m[0]):]
	}
	return proc, line[len(level.FindString(line)):]
}

// tracebackHead returns the number of the line with which the traceback
// begins that ends in the given line, 0 if there is none. Chained tracebacks
// are one; lines of other processes in between are passed over.
func tracebackHead(line string, before []string, lineNo int) int {
	proc, _ := split(line)
	head, inside := 0, true
	for i, b := range before {
		p, text := split(b)
		if p != proc {
			continue
		}
		switch {
		case text == "":
		case strings.HasPrefix(text, "During handling of the above"), strings.HasPrefix(text, "The above exception was"):
			inside = true // of the traceback in front of this one
		case !inside:
			return head
		case strings.HasPrefix(text, "Traceback (most recent call last)"):
			head, inside = lineNo-i-1, false
		case text[0] == ' ', text[0] == '\t', raised.MatchString(text):
		default:
			return head
		}
	}
	return head
}

// quoted reports whether a line stands in a client's "Error N:" block.
func quoted(line string, before []string) bool {
	for _, b := range append([]string{line}, before...) {
		switch {
		case errorN.MatchString(b):
			return true
		case strings.HasPrefix(b, "===="), strings.HasPrefix(b, "tip: "):
			return false
		}
	}
	return false
}

// clip shortens a line to lineLimit characters, keeping its front.
func clip(line string) string {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD")
	if utf8.RuneCountInString(line) <= lineLimit {
		return line
	}
	return string([]rune(line)[:lineLimit-1]) + "…"
}

// lastLines returns the last tailLines lines as a terminal would show them.
func lastLines(text []byte) []string {
	text = bytes.TrimRight(text, "\r\n \t")
	var lines []string
	for len(lines) < tailLines && len(text) > 0 {
		i := bytes.LastIndexByte(text, '\n')
		line := bytes.TrimRight(text[i+1:], "\r")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		lines = append(lines, Redact(clip(string(line))))
		text = text[:max(i, 0)]
	}
	slices.Reverse(lines)
	return lines
}

var secrets = regexp.MustCompile(`\b(?:hf|nvapi|ghp|gho|github_pat|glpat|sk)[_-][A-Za-z0-9_-]{8,}|` +
	`(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}|` +
	`(?i:\b[a-z_-]*(?:api[_-]?key|secret|passw(?:or)?d|access[_-]?token|auth[_-]?token|hf_token))['"]?\s*[:=]\s*['"]?[^\s'",}]{4,}|` +
	`://[^/\s:@]+:[^/\s@]+@`)

// Redact replaces what looks like a secret. It knows shapes, not values:
// whoever knows the run's secrets removes those as well.
func Redact(line string) string { return secrets.ReplaceAllString(line, "[redacted]") }
