package source

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// A slip is the place at which the parser gave up on a document, and why.
type slip struct {
	name string // of the file
	text string
	at   int    // byte offset
	line int    // of the parser; where it stops only behind the value, at is too far
	said string // by the parser
}

// A mend is what a rule recognised: where the mistake is, what it is, and what to write.
type mend struct {
	at        int
	msg, hint string
}

// slipRules recognise the usual mistakes; the first that knows one counts.
var slipRules = []func(*slip) *mend{
	(*slip).notText, (*slip).twice, (*slip).openString, (*slip).openList, (*slip).escape, (*slip).header,
	(*slip).keyLine,
	(*slip).noValue, (*slip).openEnd, (*slip).otherWord, (*slip).otherComment, (*slip).quoteInside, (*slip).number,
	(*slip).bare,
}

// syntaxError shows the line, points at the mistake and says how to mend it. What no
// rule recognises keeps the parser's words.
func syntaxError(name string, data []byte, pe toml.ParseError) *Error {
	said := strings.TrimSuffix(strings.TrimPrefix(pe.Message, "toml: "), ".")
	s := &slip{name: name, text: string(data), at: min(max(0, pe.Position.Start), len(data)), line: pe.Position.Line,
		said: said}
	m := &mend{at: s.at, msg: lowerFirst(said)}
	for _, rule := range slipRules {
		if known := rule(s); known != nil {
			m = known
			break
		}
	}
	if filepath.Ext(name) != ".toml" {
		m.msg = "this is not a TOML file (its name does not end in .toml): " + m.msg
		m.hint = "name a scenario, test or system file: *.toml"
	}
	return s.complaint(m)
}

func (s *slip) complaint(m *mend) *Error {
	pos := s.pos(m.at)
	return &Error{Pos: pos, Msg: m.msg, Hint: m.hint, Excerpt: excerpt(s.lineOf(m.at), pos.Col)}
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func (s *slip) pos(at int) Pos {
	before := s.text[:at]
	return Pos{File: s.name, Line: 1 + strings.Count(before, "\n"), Col: at - strings.LastIndexByte(before, '\n')}
}

// start is the offset of the first byte of the line of at.
func (s *slip) start(at int) int { return strings.LastIndexByte(s.text[:at], '\n') + 1 }

// end is the offset of the line's end, without its line feed.
func (s *slip) end(at int) int {
	if n := strings.IndexByte(s.text[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(s.text)
}

func (s *slip) lineOf(at int) string {
	return strings.TrimSuffix(s.text[s.start(at):s.end(at)], "\r")
}

// rest is what stands at an offset, to the end of its line.
func (s *slip) rest(at int) string { return strings.TrimSuffix(s.text[at:s.end(at)], "\r") }

// key is the key of the line, with its equals sign, ready to write a value behind it.
func (s *slip) key(at int) string {
	key, _, ok := strings.Cut(s.lineOf(at), "=")
	if at > s.start(at)+len(key) && s.inside() {
		return ""
	}
	if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, "[]{},\"'") {
		return ""
	}
	return key + " = "
}

// value is where the value of the line begins, and its text without a comment; in a
// list that began on an earlier line, or behind its first element, it is what stands at
// the place of the mistake.
func (s *slip) value() (at int, text string) {
	at, line := s.at, s.lineOf(s.at)
	if n := strings.IndexByte(line, '='); n >= 0 && s.start(s.at)+n < s.at &&
		!strings.ContainsAny(line[n:s.at-s.start(s.at)], "[{") {
		at = s.start(s.at) + n + 1
		at += len(s.rest(at)) - len(strings.TrimLeft(s.rest(at), " \t"))
		at = min(at, s.at)
	}
	text = s.rest(at)
	if n := strings.Index(text, " #"); n >= 0 {
		text = text[:n]
	}
	if at == s.at && s.inside() {
		if n := strings.IndexAny(text, ",]}"); n >= 0 {
			text = text[:n]
		}
	}
	return at, strings.TrimSpace(text)
}

// inside reports whether the mistake is in a list or an inline table of its line, or in
// one that began earlier.
func (s *slip) inside() bool {
	line := s.lineOf(s.at)
	n := strings.IndexByte(line, '=')
	return n < 0 || strings.ContainsAny(line[n:min(len(line), max(n, s.at-s.start(s.at)))], "[{")
}

// quoted writes text as a TOML string, as a person would.
func quoted(text string) string {
	if strings.ContainsAny(text, `"\`) && !strings.Contains(text, "'") {
		return "'" + text + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// widest is how much of a line an excerpt shows, in bytes.
const widest = 100

// excerpt is a line of a file with a caret under a column.
func excerpt(line string, col int) string {
	from, to := 0, len(line)
	if to > widest {
		from = min(max(0, col-1-widest/2), to-widest)
		to = from + widest
	}
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to++
	}
	shown, at := line[from:to], min(max(0, col-1-from), to-from)
	pad := strings.Map(func(r rune) rune { return blank(r, ' ') }, shown[:at])
	shown = strings.Map(func(r rune) rune { return blank(r, r) }, strings.ToValidUTF8(shown, "�"))
	lead, tail := "", ""
	if from > 0 {
		lead = "… "
		pad = "  " + pad
	}
	if to < len(line) {
		tail = " …"
	}
	return fmt.Sprintf("\t%s%s%s\n\t%s^", lead, shown, tail, pad)
}

// blank keeps a tab, makes a space of every other control character, and else is r.
func blank(r, other rune) rune {
	switch {
	case r == '\t':
		return r
	case r < ' ' || r == 0x7f:
		return ' '
	}
	return other
}
