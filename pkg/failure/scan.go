package failure

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/redact"
)

const (
	// block is how much of a log is read at once, and context how much of what
	// came before stays in memory, for stamps and heads of tracebacks.
	block   = 1 << 20
	context = 128 << 10
	// lineLimit is the longest line reported, in characters.
	lineLimit = 500
	// tailLines is how much is shown of a log without a cause.
	tailLines = 50
	// reach bounds the text around a hit that patterns are put to.
	reach = 32 << 10
	// keep is how many findings of one signature are kept of one log: that many
	// of the first, and that many of the last. What comes early may turn out to be
	// a client's attempts before its server was ready.
	keep = 5
	// backLines is how far a stamp or the head of a traceback is looked for.
	backLines = 300
)

// Lines that change what the lines after them mean.
const (
	// vLLM and Ray print these when they are asked to stop. What follows in the
	// same log is the stop's doing: a healthy server prints EngineDeadError there,
	// a healthy head that it cannot reach its GCS.
	shutdownMarker = "[shutdown] api server: shutdown triggered"
	drainingMarker = "received sigterm. draining"
	sigtermMarker  = "sigterm received. signum="
	// Older vLLM prints only this; it counts if nothing went wrong before, since
	// an engine that died ends its server in the same way.
	closingMarker = "] shutting down fastapi http server"
	// Slurm appends the output of the next attempt of a job to the same log.
	requeueMarker = "due to job requeue"
	// Our own job shows the end of a dead role's log between these two. The log
	// itself is scanned as well, under its own name.
	quoteBegins, quoteEnds = "--- end of ", "---"
)

// A Log is the output of one process, or of one step.
type Log struct {
	Role  string // as planned, such as decode or decode[1]
	Node  string
	Rank  int
	File  string    // as it is to be reported
	Ended time.Time // the process ended by itself then; zero if it did not, or nobody knows
	Exit  int       // its exit code if it ended by itself, 128 and the signal that ended it; 0 if nobody knows
	Argv  []string  // the step's own command, if it is known; else the log may repeat it
	Data  io.Reader // text, or text packed by xz
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
	// Since says that Time is of a line before it: a lower bound.
	Since bool `json:"since,omitempty"`
	// Nature and About are what kind of thing the line speaks of, and which one.
	Nature string `json:"nature,omitempty"`
	About  string `json:"about,omitempty"`
	// Passing lines are warnings, or tell of an attempt that will be repeated.
	Passing bool `json:"passing,omitempty"`
	// Overcome lines were followed by success.
	Overcome bool `json:"overcome,omitempty"`
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
	Exit     int       `json:"exit,omitempty"`
	Findings []Finding `json:"findings,omitempty"` // in order of lines
	// LastWords is the line near the end that looks most like a complaint, for a
	// failure that no signature knows; nil if none does.
	LastWords *Finding `json:"last_words,omitempty"`
	Final     bool     `json:"final,omitempty"` // the log ends with its last words
	// Done says that a client of this log got an answer to every request.
	Done  bool     `json:"done,omitempty"`
	Tail  []string `json:"tail,omitempty"`  // last 50 lines, redacted
	Lines int      `json:"lines,omitempty"` // how many the log has
}

// Scan reads a log once, from its first byte to its last, in constant memory,
// and returns what it found. Stamps without a zone are taken to be in loc; nil
// means UTC. A packed log that ends early is scanned as far as it goes.
func (t *Table) Scan(l Log, loc *time.Location) (Report, error) {
	if loc == nil {
		loc = time.UTC
	}
	r := Report{Role: l.Role, Node: l.Node, File: l.File, Ended: l.Ended, Exit: l.Exit}
	s := scanner{t: t, log: l, loc: loc, conditions: Conditions(l.Role), line1: 1,
		kept: map[int]int{}, beside: map[int]bool{}, refusedOnly: map[int]bool{}, last: map[int][]Finding{},
		recent: map[int][]span{}, options: optionsOf(l.Argv)}
	s.candidates = make([]bool, len(t.entries)+markers)
	if err := s.read(l.Data); err != nil {
		return r, fmt.Errorf("scan %s: %w", l.File, err)
	}
	for _, last := range s.last {
		s.findings = append(s.findings, last...)
	}
	slices.SortStableFunc(s.findings, func(a, b Finding) int { return cmp.Compare(a.No, b.No) })
	r.Findings = s.findings
	r.Tail = lastLines(s.text)
	r.Lines = s.line1 + bytes.Count(bytes.TrimRight(s.text, "\r\n \t"), []byte("\n"))
	if !s.stopping {
		r.LastWords, r.Final = s.lastWords()
	}
	s.settleAttempts(&r)
	r.Done = s.done
	return r, nil
}

// scanner goes through one log, block by block.
type scanner struct {
	t          *Table
	log        Log
	loc        *time.Location
	conditions []string
	text       []byte // the block, and the context before it
	line1      int    // number of the line with which text begins
	stamp      time.Time
	kept       map[int]int       // by entry
	last       map[int][]Finding // by entry: the last ones, of those with too many
	recent     map[int][]span    // by entry: the last ones of this block, of those
	candidates []bool            // by entry, then the markers; reused
	findings   []Finding
	options    []option           // of the step's own command
	launcher   *lazyregexp.Regexp // what stands in front of every line; nil for nothing
	sampled    bool
	requeued   int // the line that ended the attempt before; 0 for none
	ready      readiness
	beside     map[int]bool // by line number: an exception that ends no process
	// refusedOnly, by line number: an exception of a request that got an answer
	refusedOnly map[int]bool
	done        bool // all requests of a client were answered
	success     int  // the last line that says that what was tried worked; 0 for none
	stopping    bool
	quoting     bool // between quoteBegins and quoteEnds
}

// blocks are used again: most logs are much smaller than one.
var blocks = sync.Pool{New: func() any { return new([block]byte) }}

// xzMagic begins every file that xz wrote.
var xzMagic = []byte("\xfd7zXZ\x00")

// unpack returns the text of a log, and whether xz had packed it.
func unpack(in *bufio.Reader) (text io.Reader, unpacking bool, err error) {
	magic, err := in.Peek(len(xzMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if !bytes.Equal(magic, xzMagic) {
		return in, false, nil
	}
	text, err = packed.NewReader(in)
	return text, true, err
}

// read puts the whole log to the patterns.
func (s *scanner) read(r io.Reader) error {
	text, unpacking, err := unpack(bufio.NewReaderSize(r, len(xzMagic)+10))
	if err != nil {
		return err
	}
	buffer := blocks.Get().(*[block]byte)
	defer blocks.Put(buffer)
	raw, rest := buffer[:], 0
	for {
		n, err := io.ReadFull(text, raw[rest:])
		n += rest
		over := err != nil
		if over && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !unpacking {
			return err
		}
		cut := n
		if i := bytes.LastIndexByte(raw[:n], '\n'); !over && i >= 0 {
			cut = i + 1
		}
		s.block(stripANSI(s.unwrap(raw[:cut])))
		if over {
			return nil
		}
		rest = copy(raw, raw[cut:n])
	}
}

// block puts the lines of new text to the patterns. Of a line that is longer
// than a block, the pieces overlap by the length of a line that is reported.
func (s *scanner) block(text []byte) {
	from := len(s.text)
	if cut := from - context; cut > 0 {
		s.line1 += bytes.Count(s.text[:cut], []byte("\n"))
		s.text = append(s.text[:0], s.text[cut:]...)
		from = context
	}
	s.text = append(s.text, text...)
	if from > 0 && s.text[from-1] != '\n' {
		from = max(0, from-lineLimit)
	}
	s.window(from)
	s.settle()
}

// window puts every line that may match to the patterns, from an offset on. A
// carriage return ends a line like a line feed, but is not counted as one:
// progress bars overwrite themselves.
func (s *scanner) window(from int) {
	text := s.text
	counted, lineNo := 0, s.line1
	for at := from; at < len(text); {
		hit := at + 1
		if len(s.t.always) == 0 {
			if hit = s.t.filter.find(text, at); hit < 0 {
				return
			}
		}
		start, end := around(text, at, hit)
		lineNo += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		s.line(start, end, lineNo)
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

func (s *scanner) line(start, end, lineNo int) {
	line := s.text[start:end]
	clear(s.candidates)
	s.t.filter.all(line, s.candidates)
	if s.marker(line, lineNo) {
		return
	}
	for _, i := range s.t.always {
		s.candidates[i] = true
	}
	for i := range s.t.entries {
		e := &s.t.entries[i]
		if !s.candidates[i] || !e.meets(s.conditions) || !e.re.Match(line) {
			continue
		}
		x := span{start: start, end: end, no: lineNo}
		if ours.Match(line) || bytes.Contains(line, noise) || s.isSource(start, line) || s.saysNothing(i, x) {
			return
		}
		if x.text = s.boxed(x); x.text != "" {
			i = s.t.firstFor(boxPrefix+x.text, s.conditions, i)
		}
		s.keep(i, x)
		return
	}
}

// saysNothing reports whether a line that matches is a header, or the bare name of an
// exception that nothing raised.
func (s *scanner) saysNothing(entry int, x span) bool {
	line := string(s.text[x.start:x.end])
	if s.t.entries[entry].ID != generic {
		return isTraceback(line) && errorN.MatchString(line)
	}
	if _, text := split(line); !bareName.MatchString(text) {
		return false
	}
	for _, above := range linesBefore(s.text, x.start, 1) { // most bare names are prose: one look is enough
		if proc, text := split(above); proc != "slurm" && !strings.HasPrefix(text, " ") {
			return true
		}
	}
	return tracebackHead(line, linesBefore(s.text, x.start, backLines), x.no) == 0
}

// ours is what this program prints at the end of a job: it repeats the cause that
// it found.
var ours = lazyregexp.New(`^\S+: (?:cause \S+ \((?:exact|job-state|symptom|unknown)\)|next: |invalid \S+: |suspect \S+: )`)

// noise is in lines of NCCL that tell of what it looked for and went on without.
var noise = []byte(" NCCL INFO ")

// isSource reports whether a line is a line of a program, as a traceback shows
// it: the error texts in it are not what happened.
func (s *scanner) isSource(start int, line []byte) bool {
	_, text := split(string(line))
	if !strings.HasPrefix(text, "    ") {
		return false
	}
	before := linesBefore(s.text, start, 1)
	if len(before) == 0 {
		return false
	}
	_, text = split(before[0])
	return strings.HasPrefix(text, "  File \"")
}

// The markers have the places behind the entries in candidates.
const (
	markShutdown = iota
	markClosing
	markRequeue
	markQuoteBegins
	markQuoteEnds
	markTold
	markSuccess
	markers
)

var markerWords = [][]string{{shutdownMarker, drainingMarker, sigtermMarker}, {closingMarker}, {requeueMarker},
	{quoteBegins}, {quoteEnds}, lower(told), successWords}

func lower(words []string) []string {
	var list []string
	for _, w := range words {
		list = append(list, strings.ToLower(w))
	}
	return list
}

// marker notes what the line means for the following ones, and reports whether
// it is itself beyond consideration.
func (s *scanner) marker(line []byte, no int) bool {
	found := s.candidates[len(s.t.entries):]
	s.stopping = s.stopping || found[markShutdown] || found[markClosing] && s.quiet()
	switch {
	case found[markQuoteBegins] && bytes.HasPrefix(line, []byte(quoteBegins)):
		s.quoting = true
	case s.quoting && found[markQuoteEnds] && string(line) == quoteEnds:
		s.quoting = false
	case found[markRequeue]:
		s.requeued, s.stopping, s.success, s.done, s.ready = no, false, 0, false, readiness{}
	case found[markTold] && len(s.options) == 0:
		s.options = toldOptions(string(line))
	case found[markSuccess] && succeeded.Match(line):
		s.success = no
		s.done = s.done || answered.Match(line)
		if ready.Match(line) {
			s.ready = readiness{no, process.FindString(string(line))}
		}
	}
	return s.quoting
}

// quiet reports whether nothing was found so far but warnings and refused requests.
func (s *scanner) quiet() bool {
	return !slices.ContainsFunc(s.findings, func(f Finding) bool { return !f.Passing && f.Kind != Answer })
}

// span is a line of the text in memory.
type span struct {
	start, end, no int
	text           string // what a box under the line says
}

// keep remembers the first matches of an entry, and the last.
func (s *scanner) keep(entry int, x span) {
	if s.kept[entry]++; s.kept[entry] <= keep {
		s.findings = append(s.findings, s.finding(&s.t.entries[entry], x))
		return
	}
	recent := s.recent[entry]
	if len(recent) == keep {
		recent = recent[:copy(recent, recent[1:])]
	}
	s.recent[entry] = append(recent, x)
}

// settle turns the last matches of this block into findings: a log may have
// millions of them, and most are not worth the look around.
func (s *scanner) settle() {
	for entry, spans := range s.recent {
		for _, x := range spans {
			s.last[entry] = append(s.last[entry], s.finding(&s.t.entries[entry], x))
		}
		s.last[entry] = s.last[entry][max(0, len(s.last[entry])-keep):]
	}
	clear(s.recent)
}

func (s *scanner) finding(e *entry, x span) Finding {
	line := string(s.text[x.start:x.end])
	before := linesBefore(s.text, x.start, backLines)
	said := cmp.Or(x.text, inJSON(line, e.re), s.whole(x, before))
	f := Finding{ID: e.ID, Kind: e.Kind, Line: redact.Line(clip(said)), No: x.no, Stopping: s.stopping,
		Passing: isPassing(line) || s.retriesBelow(x)}
	f.Rank = rankOf(line)
	if f.Rank == "" && s.log.Rank > 0 {
		f.Rank = strconv.Itoa(s.log.Rank)
	}
	f.Time, f.Since = s.timeOf(line, before)
	f.Block = unitHead(line, before, x.no)
	if slices.Contains(s.conditions, "client") {
		f.Quoted = quoted(line, before)
	}
	s.judge(e, &f, said, before)
	quoteLibrary(&f, before)
	s.notesAround(&f, x, before)
	return f
}

// timeOf is the time a line was written, and whether it is only known to be no earlier.
func (s *scanner) timeOf(line string, before []string) (at time.Time, since bool) {
	at, own := stampOf(line, s.loc)
	for i := 0; at.IsZero() && i < len(before); i++ {
		at, _ = stampOf(before[i], s.loc)
	}
	if at.IsZero() { // none near: that of the finding before
		at = s.stamp
	}
	s.stamp = at
	return at, !own && !at.IsZero()
}

// judge says what kind of thing a line speaks of. What refuses a word of the step's own
// command is a bad value of that option.
func (s *scanner) judge(e *entry, f *Finding, said string, before []string) {
	proc, text := split(said)
	text = strings.TrimSpace(text)
	sp := speech{text: text[len(prefixes.FindString(text)):], options: s.options}
	if f.Block != 0 {
		sp.frames = frames(proc, before)
	}
	n := sp.nature()
	if kind := kindOf(e.ID, e.Area); kind != "" && !slices.Contains(silent, e.ID) {
		n = nature{kind, sp.about(kind, sp.text)}
	} else if kind == "" && e.ID != "" { // a site's own
		n = nature{}
	}
	f.Nature, f.About = n.kind, redact.Line(clip(n.about))
	if o, ok := sp.badValue(); ok && e.ID == generic && !f.Quoted {
		f.ID, f.Nature, f.About = badValue, configuration, o.name
	}
}

// linesBefore returns up to most lines in front of an offset, nearest first.
func linesBefore(text []byte, start, most int) []string {
	var lines []string
	for len(lines) < most && start > 0 {
		end := start - 1 // the line feed
		low := max(0, end-reach)
		start = low + bytes.LastIndexByte(text[low:end], '\n') + 1
		lines = append(lines, string(text[start:end]))
	}
	return lines
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
		lines = append(lines, redact.Line(clip(string(line))))
		text = text[:max(i, 0)]
	}
	slices.Reverse(lines)
	return lines
}
