// Package pyjson reads the JSON files of Python programs as a stream: with the bare
// words NaN, Infinity and -Infinity, and of any length, because lists of requests
// are passed one element at a time or skipped.
//
// BenchmarkReader, on a result of 9 MB: 1.7 times as fast as encoding/json, and 0.7 times as fast as the experimental
// second version of that, which take neither these words nor say where a value is.
//
// It knows no client. Whoever walks a file decides what of it is kept:
//
//	r := pyjson.NewReader(f)
//	err := r.Object(func(key string) error {
//		if key == "requests" {
//			return r.Skip()
//		}
//		v, err := r.Value()
//		...
//	})
package pyjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/limit"
)

// Bounds of what is read. A file is only walked, so that its bound is one of time;
// the others are of memory.
const (
	maxText   = 16 << 20 // of the strings of one Value
	maxValues = 1 << 18  // in one Value
)

// An Error is a place where the text is no JSON.
type Error struct {
	Line, Col int  // from 1; Col in bytes
	Cut       bool // the file ends inside a value
	Text      string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Text) }

// A Kind is what a value is.
type Kind byte

// The kinds. The zero Value is Absent.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	Text
	List
	Object
)

// A Value is one value with its place, and what is in it.
type Value struct {
	Kind      Kind
	Line, Col int // from 1; Col in bytes
	Num       float64
	Str       string // of a text; "true" or "false"
	Items     []Value
	Fields    []Field
}

// Finite is the number, if it is one that is neither NaN nor infinite.
func (v Value) Finite() (float64, bool) { return v.Num, v.Kind == Number && v.Num-v.Num == 0 }

// A Field is one key of an object. A key may be there twice.
type Field struct {
	Key   string
	Value Value
}

// At goes into objects; the Value is Absent where a key is missing. Of a key that
// is there twice it takes the last, as Python does.
func (v Value) At(keys ...string) Value {
	for _, key := range keys {
		next := Value{}
		for _, f := range v.Fields {
			if f.Key == key {
				next = f.Value
			}
		}
		v = next
	}
	return v
}

// A Reader walks one document. It is not safe for concurrent use.
type Reader struct {
	// Loose lets words pass that are no values: whoever decodes them says so.
	Loose bool

	in         io.Reader
	buf        []byte
	at, end    int
	before     int64 // offset of buf[0] in the file
	line       int
	lineStart  int64
	err        error // why no more is read
	depth      int
	text, kept int // of the Value that is being read
	twice      []Value
}

// Twice are keys that are there a second time in their object, each as a Value with its
// place and the key as its text: those of the outer objects, and the first few.
func (r *Reader) Twice() []Value { return r.twice }

// TwiceMessage is what is said of such a key: Python writes none, and readers do not
// agree on which of the two counts.
const TwiceMessage = "the key is there twice"

// Twice are the keys of an object that are there a second time.
func Twice(data []byte) []Value {
	r := NewBytes(data)
	_ = r.Skip() // whoever decodes the text says what is wrong with it
	return r.Twice()
}

// Bounds of the keys that are looked for twice: of objects of requests there are many.
const (
	twiceDepth = 6
	mostTwice  = 5
)

// NewReader reads from the beginning of a document.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: in, buf: make([]byte, 64<<10), line: 1}
}

// NewBytes reads a text that is in memory, which must not change meanwhile.
func NewBytes(text []byte) *Reader { return NewPart(text, 1, 1) }

// NewPart is NewBytes for a part of a document, with the place where it begins.
func NewPart(text []byte, line, col int) *Reader {
	return &Reader{buf: text, end: len(text), line: line, lineStart: 1 - int64(col), err: io.EOF}
}

// Rest returns what has not been read, of a Reader that [NewBytes] made.
func (r *Reader) Rest() []byte { return r.buf[r.at:r.end] }

// Object calls visit for each key of the object that comes next. visit has to read
// or skip the value. An error of visit ends the walk and is returned.
func (r *Reader) Object(visit func(key string) error) error {
	var seen map[string]bool
	return r.inside('{', '}', func() error {
		r.space()
		line, col := r.Place()
		key, err := r.str(maxText)
		if err != nil {
			return err
		}
		if r.depth <= twiceDepth && len(r.twice) < mostTwice {
			if seen[key] {
				r.twice = append(r.twice, Value{Kind: Text, Line: line, Col: col, Str: key})
			}
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[key] = true
		}
		r.space()
		if c, ok := r.peek(); !ok || c != ':' {
			return r.fail("want a colon after key %.40q", key)
		}
		r.at++
		return visit(key)
	})
}

// List calls visit before each element of the list that comes next. visit has to
// read or skip it.
func (r *Reader) List(visit func() error) error { return r.inside('[', ']', visit) }

func (r *Reader) inside(first, last byte, visit func() error) error {
	r.space()
	if c, ok := r.peek(); !ok || c != first {
		return r.fail("want %q", first)
	}
	if r.depth++; r.depth > limit.Depth {
		return r.fail("more than %d values within each other", limit.Depth)
	}
	r.at++
	r.space()
	if c, ok := r.peek(); ok && c == last {
		r.at++
		r.depth--
		return nil
	}
	for {
		if err := visit(); err != nil {
			return err
		}
		r.space()
		c, ok := r.peek()
		switch {
		case ok && c == ',':
			r.at++
		case ok && c == last:
			r.at++
			r.depth--
			return nil
		default:
			return r.fail("want a comma or %q", last)
		}
	}
}

// End fails if anything but blanks follows.
func (r *Reader) End() error {
	r.space()
	if c, ok := r.peek(); ok {
		return r.fail("text behind the end of the document: %q", c)
	}
	if r.err != io.EOF {
		return r.fail("%v", r.err)
	}
	return nil
}

// Kind says what comes next without reading it; Absent at the end and where no
// value begins.
func (r *Reader) Kind() Kind {
	r.space()
	c, ok := r.peek()
	switch {
	case !ok:
		return Absent
	case c == '{':
		return Object
	case c == '[':
		return List
	case c == '"':
		return Text
	case c == 'n':
		return Null
	case c == 't' || c == 'f':
		return Bool
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		return Number
	}
	return Absent
}

// Offset is how many bytes lie before the place where the Reader is.
func (r *Reader) Offset() int64 { return r.before + int64(r.at) }

// Place is where the Reader is, both from 1.
func (r *Reader) Place() (line, col int) { return r.line, int(r.Offset()-r.lineStart) + 1 }

// Skip passes the value that comes next, of any length.
func (r *Reader) Skip() error {
	switch r.Kind() {
	case Object:
		return r.Object(func(string) error { return r.Skip() })
	case List:
		return r.List(r.Skip)
	case Text:
		return r.skipString()
	}
	_, err := r.scalar()
	return err
}

// Raw passes the value that comes next and returns its bytes, of a Reader that [NewBytes] made.
func (r *Reader) Raw() ([]byte, error) {
	r.space()
	start := r.at
	err := r.Skip()
	return r.buf[start:r.at], err
}

// Value reads the value that comes next, with all that is in it.
func (r *Reader) Value() (Value, error) {
	r.text, r.kept = 0, 0
	return r.value()
}

func (r *Reader) value() (v Value, err error) {
	v.Kind = r.Kind()
	v.Line, v.Col = r.Place()
	if r.kept++; r.kept > maxValues {
		return v, r.fail("more than %d values in one", maxValues)
	}
	switch v.Kind {
	case Object:
		err = r.Object(func(key string) error {
			x, err := r.value()
			if r.text += len(key); r.text > maxText {
				return r.fail("more than %d MiB of text in one value", maxText>>20)
			}
			v.Fields = append(v.Fields, Field{key, x})
			return err
		})
	case List:
		err = r.List(func() error {
			x, err := r.value()
			v.Items = append(v.Items, x)
			return err
		})
	case Text:
		v.Str, err = r.str(maxText - r.text)
		r.text += len(v.Str)
	default:
		var word []byte
		switch word, err = r.scalar(); v.Kind {
		case Bool:
			v.Str = string(word)
		case Number:
			v.Num, _ = ParseNumber(word)
		}
	}
	return v, err
}

// Word reads the number, true, false or null that comes next, as it is written.
func (r *Reader) Word() (string, error) {
	word, err := r.scalar()
	return string(word), err
}

// scalar reads a number, true, false or null. The word is valid until the next read.
func (r *Reader) scalar() ([]byte, error) {
	kind := r.Kind()
	line, col := r.Place()
	word, err := r.word()
	if err != nil {
		return nil, err
	}
	switch string(word) {
	case "null", "true", "false", "NaN", "Infinity", "-Infinity":
		return word, nil
	}
	if !r.Loose && (kind != Number || !plain(word) && !json.Valid(word)) {
		return nil, &Error{Line: line, Col: col, Text: fmt.Sprintf("no value: %.40q", word)}
	}
	return word, nil
}

// plain reports whether a word is a JSON number of the form that most have, digits with a fraction, which needs no
// further look.
func plain(word []byte) bool {
	whole := digits(word)
	switch {
	case whole == 0 || whole > 1 && word[0] == '0':
		return false
	case whole == len(word):
		return true
	}
	rest := word[whole:]
	return rest[0] == '.' && len(rest) > 1 && digits(rest[1:]) == len(rest)-1
}

// digits returns how many digits a word begins with.
func digits(word []byte) int {
	n := 0
	for n < len(word) && word[n] >= '0' && word[n] <= '9' {
		n++
	}
	return n
}

// ParseNumber reads a JSON number or one of Python's words. What is too large for a float64 is infinite.
func ParseNumber(word []byte) (x float64, ok bool) {
	switch string(word) {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	case "-Infinity":
		return math.Inf(-1), true
	}
	x, err := strconv.ParseFloat(string(word), 64)
	return x, (plain(word) || json.Valid(word)) && (err == nil || errors.Is(err, strconv.ErrRange))
}

const longestWord = 1 << 10

// ending are the bytes behind a word, and special those of a string that more than its text hangs on.
var ending, special = table(" \t\r\n,]}:{[\""), table("\"\\\n")

func table(chars string) (t [256]bool) {
	for _, c := range []byte(chars) {
		t[c] = true
	}
	return t
}

// until returns where in the buffer the first byte of a table is, from the next one on, or the buffer ends.
func (r *Reader) until(t *[256]bool) int {
	n := r.at
	for n < r.end && !t[r.buf[n]] {
		n++
	}
	return n
}

// word reads what ends at a blank, a comma or a bracket. It is valid until the next read.
func (r *Reader) word() ([]byte, error) {
	r.space()
	if n := r.until(&ending); n < r.end && n > r.at && n-r.at <= longestWord {
		word := r.buf[r.at:n]
		r.at = n
		return word, nil
	}
	line, col := r.Place()
	var b []byte
	for {
		c, ok := r.peek()
		if !ok && r.depth > 0 {
			return nil, r.fail("the file ends inside a value")
		}
		if !ok || ending[c] {
			break
		}
		if len(b) == longestWord {
			return nil, r.fail("no value: %.40q", b)
		}
		b = append(b, c)
		r.at++
	}
	if len(b) == 0 {
		c, ok := r.peek()
		if !ok {
			return nil, r.fail("want a value")
		}
		return nil, &Error{Line: line, Col: col, Text: fmt.Sprintf("want a value, got %q", c)}
	}
	return b, nil
}

// str reads a string of at most limit bytes; bytes that are no text become U+FFFD, as
// where encoding/json reads it.
func (r *Reader) str(limit int) (string, error) {
	if c, ok := r.peek(); !ok || c != '"' {
		return "", r.fail("want a string")
	}
	line, col := r.Place()
	r.at++
	if n := r.until(&special); n < r.end && r.buf[n] == '"' && n-r.at < limit { // most are whole, and as they are written
		text := r.buf[r.at:n]
		r.at = n + 1
		return strings.ToValidUTF8(string(text), "\uFFFD"), nil
	}
	b := []byte{'"'}
	escaped := false
	for ; ; r.at++ {
		c, ok := r.peek()
		if !ok {
			return "", r.fail("the file ends inside a string")
		}
		if len(b) > limit {
			return "", r.fail("a string of more than %d MiB", maxText>>20)
		}
		b = append(b, c)
		switch {
		case c == '"':
			r.at++
			if !escaped {
				return strings.ToValidUTF8(string(b[1:len(b)-1]), "\uFFFD"), nil
			}
			var s string
			if err := json.Unmarshal(b, &s); err != nil {
				return "", &Error{Line: line, Col: col, Text: "bad string: " + err.Error()}
			}
			return s, nil
		case c == '\n':
			r.newline()
		case c == '\\':
			escaped = true
			r.at++
			if c, ok = r.peek(); !ok {
				return "", r.fail("the file ends inside a string")
			}
			b = append(b, c)
		}
	}
}

// skipString passes a string without keeping it.
func (r *Reader) skipString() error {
	for r.at++; ; r.at++ {
		r.at = r.until(&special)
		c, ok := r.peek()
		if !ok {
			return r.fail("the file ends inside a string")
		}
		switch c {
		case '"':
			r.at++
			return nil
		case '\n':
			r.newline()
		case '\\':
			r.at++
			if _, ok := r.peek(); !ok {
				return r.fail("the file ends inside a string")
			}
		}
	}
}

func (r *Reader) space() {
	if r.at < r.end && r.buf[r.at] > ' ' {
		return
	}
	for {
		c, ok := r.peek()
		if !ok || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		if c == '\n' {
			r.newline()
		}
		r.at++
	}
}

// newline notes that the byte at r.at ends a line.
func (r *Reader) newline() {
	r.line++
	r.lineStart = r.Offset() + 1
}

func (r *Reader) peek() (byte, bool) {
	for r.at >= r.end {
		if r.err != nil {
			return 0, false
		}
		r.before += int64(r.end)
		r.at = 0
		if r.end, r.err = r.in.Read(r.buf); r.end == 0 && r.err == nil {
			r.err = io.ErrNoProgress
		}
	}
	return r.buf[r.at], true
}

// fail is an Error at this place. At the end of the file it is that.
func (r *Reader) fail(format string, args ...any) error {
	e := &Error{Text: fmt.Sprintf(format, args...)}
	e.Line, e.Col = r.Place()
	if _, ok := r.peek(); !ok {
		e.Cut = true
		if e.Text = "the file ends inside a document"; r.err != io.EOF {
			e.Text = r.err.Error()
		}
	}
	return e
}
