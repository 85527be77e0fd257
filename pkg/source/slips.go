package source

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// has reports whether the parser said one of these.
func (s *slip) has(parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s.said, p) {
			return true
		}
	}
	return false
}

// notText is a file that is not UTF-8.
func (s *slip) notText() *mend {
	if s.has("NULL bytes", "invalid UTF-8", "control characters") {
		return &mend{s.at, "this byte is not UTF-8 text", "save the file as UTF-8, without control characters"}
	}
	return nil
}

// twice is a key or a table that is there already.
func (s *slip) twice() *mend {
	if !s.has("already been defined", "cannot be used as an array") {
		return nil
	}
	for _, d := range walk(s.name, []byte(s.text)).again {
		if d.again.Line >= s.line {
			return s.again(d)
		}
	}
	return nil
}

// twiceError is what the decoder would say of a key that is defined twice.
func twiceError(d duplicate, text string) *Error {
	s := &slip{name: d.again.File, text: text}
	return s.complaint(s.again(d))
}

func (s *slip) again(d duplicate) *mend {
	at := s.offset(d.again)
	switch {
	case d.isTable && d.wasList:
		return &mend{at, fmt.Sprintf("%q is a list of tables (line %d), but this header has single brackets", d.name,
			d.first.Line),
			"write [[" + d.name + "]] to add an element to the list"}
	case d.isList:
		return &mend{at, fmt.Sprintf("%q is defined in line %d and cannot be a list of tables", d.name, d.first.Line),
			"write [[" + d.name + "]] in both places, or another name"}
	case d.isTable:
		return &mend{at, fmt.Sprintf("table %q is defined twice, first in line %d", d.name, d.first.Line),
			"put its keys under one header; a list of tables has double brackets: [[" + d.name + "]]"}
	}
	return &mend{at, fmt.Sprintf("key %q is defined twice, first in line %d", d.name, d.first.Line),
		"delete one of the two"}
}

func (s *slip) offset(p Pos) int {
	at := 0
	for range p.Line - 1 {
		at = s.end(at) + 1
	}
	return min(at+p.Col-1, len(s.text))
}

// openString is a string without its closing quotes.
func (s *slip) openString() *mend {
	switch {
	case s.has("strings cannot contain newlines"):
		at := lastOpenQuote(s.text, s.start(s.at), s.at)
		q := s.text[at : at+1]
		return &mend{at, "this string is not closed on its line",
			"end the string with " + q + "; a text of several lines stands between " + strings.Repeat(q,
				3) + " and " + strings.Repeat(q, 3)}
	case s.has("unexpected EOF; expected '\"\"\"'", "unexpected EOF; expected \"'''\""):
		q := `"""`
		if s.has("'''") {
			q = "'''"
		}
		at := max(0, strings.LastIndex(s.text, q))
		return &mend{at, "this text of several lines is not closed", "end the text with " + q}
	}
	return nil
}

// openEnd is a file that ends too early.
func (s *slip) openEnd() *mend {
	if s.has("unexpected EOF") {
		return &mend{s.at, "the file ends inside a value or a header", "complete its last line"}
	}
	return nil
}

// lastOpenQuote is where the string begins that is open at to, from the begin of its line.
func lastOpenQuote(text string, from, to int) int {
	for i := from; i < to; i++ {
		switch text[i] {
		case '#':
			return to
		case '"', '\'':
			n := quotedLen([]byte(text[i:to]))
			if i+n >= to {
				return i
			}
			i += n - 1
		}
	}
	return min(from, len(text)-1)
}

var newEntry = lazyregexp.New(`^\s*(\[|["']?[\w.-]+["']?\s*=)`)

// openList is a list or an inline table that is not closed, or lacks a comma.
func (s *slip) openList() *mend {
	open, end, what := byte('['), "]", "list"
	switch {
	case s.has("array terminator"):
	case s.has("inline table terminator", "within inline tables"):
		open, end, what = '{', "}", "inline table"
	case s.has("unexpected comma"):
		return &mend{s.at, "a value must stand before this comma", "remove the comma"}
	default:
		return nil
	}
	begin := lastOpen([]byte(s.text[:s.at]), open)
	if begin < 0 {
		return nil
	}
	if s.has("end of file", "within inline tables") || s.start(s.at) > begin && newEntry.MatchString(s.lineOf(s.at)) {
		return &mend{begin, "this " + what + " is not closed", "end the " + what + " with " + end}
	}
	if word := s.wordBefore(); word != "" {
		return &mend{s.at, "a comma is missing between two elements of a " + what,
			"write a comma before " + word + ", or put the text in one pair of quotes"}
	}
	return nil
}

// wordBefore is the word at the mistake, for a hint.
func (s *slip) wordBefore() string {
	word := s.rest(s.at)
	if n := strings.IndexAny(word, " ,]}#"); n > 0 {
		word = word[:n]
	}
	return strings.TrimSpace(word)
}

// lastOpen is where the innermost bracket begins that is still open, -1 if none is.
func lastOpen(data []byte, open byte) int {
	var stack []int
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '#':
			for i < len(data) && data[i] != '\n' {
				i++
			}
		case '"', '\'':
			i += quotedLen(data[i:]) - 1
		case '[', '{':
			stack = append(stack, i)
		case ']', '}':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
		}
	}
	for i := len(stack) - 1; i >= 0; i-- {
		if data[stack[i]] == open {
			return stack[i]
		}
	}
	return -1
}

// goodText is text up to a backslash that begins no escape of TOML.
var goodText = lazyregexp.New(`^(?:[^\\]|\\[btnfre"\\\s]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*`)

// escape is a backslash that TOML does not know.
func (s *slip) escape() *mend {
	if !s.has("invalid escape", "hexadecimal digits after", "is not valid UTF-8") {
		return nil
	}
	at := s.at
	if n := goodText.FindString(s.text[s.at:]); s.at+len(n) < len(s.text) {
		at += len(n)
	}
	return &mend{at, "unknown escape: in double quotes, a backslash begins an escape",
		`write \\ for a backslash, or put the string in single quotes: 'C:\data'`}
}

// header is a mistake in the header of a table.
func (s *slip) header() *mend {
	line := s.lineOf(s.at)
	trimmed := strings.TrimSpace(strings.SplitN(line, "#", 2)[0])
	if strings.HasPrefix(trimmed, "[") && s.has("end with a newline") && strings.Contains(trimmed, "=") &&
		!strings.HasPrefix(s.rest(s.at), "]") {
		return &mend{s.at, "a header and a key stand on one line", "write each on a line of its own"}
	}
	if !strings.HasPrefix(trimmed, "[") || strings.Contains(line[:s.at-s.start(s.at)], "=") {
		return nil
	}
	name := strings.Trim(trimmed, "[] \t")
	right := "[" + name + "]"
	if strings.HasPrefix(trimmed, "[[") {
		right = "[[" + name + "]]"
	}
	switch {
	case name == "":
		return &mend{s.at, "this table has no name", "write [NAME], or [[NAME]] for a list of tables"}
	case strings.HasSuffix(name, ".") || strings.HasPrefix(name, ".") || strings.Contains(name, ".."):
		return &mend{s.at, "a part of this table's name is empty", "write one dot between two names: [a.b]"}
	case strings.ContainsAny(name, " \t") && !strings.ContainsAny(name, `"'.`):
		return &mend{s.at, "a name with a space needs quotes", `write ["` + name + `"]`}
	}
	return &mend{s.at, "the brackets of this header do not match",
		"write " + right + "; [NAME] is a table, [[NAME]] an element of a list of tables"}
}
