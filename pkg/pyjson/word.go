package pyjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

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
		return nil, &Error{Line: line, Col: col, Text: fmt.Sprintf("not a value: %.40q", word)}
	}
	return word, nil
}

// plain reports whether a word is a JSON number of the form that most have, digits with a
// fraction, which needs no further look.
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

// ParseNumber reads a JSON number or one of Python's words. What is too large for a float64 is
// infinite.
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

// ending are the bytes behind a word, and special those of a string that more than its text
// hangs on.
var ending, special = table(" \t\r\n,]}:{[\""), table("\"\\\n")

func table(chars string) (t [256]bool) {
	for _, c := range []byte(chars) {
		t[c] = true
	}
	return t
}

// until returns where in the buffer the first byte of a table is, from the next one on, or the
// buffer ends.
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
			return nil, r.Errorf("the file ends inside a value")
		}
		if !ok || ending[c] {
			break
		}
		if len(b) == longestWord {
			return nil, r.Errorf("not a value: %.40q", b)
		}
		b = append(b, c)
		r.at++
	}
	if len(b) == 0 {
		c, ok := r.peek()
		if !ok {
			return nil, r.Errorf("expected a value")
		}
		return nil, &Error{Line: line, Col: col, Text: fmt.Sprintf("expected a value, got %q", c)}
	}
	return b, nil
}

// str reads a string of at most limit bytes; bytes that are no text become U+FFFD, as
// where encoding/json reads it.
func (r *Reader) str(limit int) (string, error) {
	if c, ok := r.peek(); !ok || c != '"' {
		return "", r.Errorf("expected a string")
	}
	line, col := r.Place()
	r.at++
	// most are whole, and as they are written
	if n := r.until(&special); n < r.end && r.buf[n] == '"' && n-r.at < limit {
		text := r.buf[r.at:n]
		r.at = n + 1
		return strings.ToValidUTF8(string(text), "\uFFFD"), nil
	}
	b := []byte{'"'}
	escaped := false
	for ; ; r.at++ {
		c, ok := r.peek()
		if !ok {
			return "", r.Errorf("the file ends inside a string")
		}
		if len(b) > limit {
			return "", r.Errorf("a string of more than %d MiB", maxText>>20)
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
				return "", r.Errorf("the file ends inside a string")
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
			return r.Errorf("the file ends inside a string")
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
				return r.Errorf("the file ends inside a string")
			}
		}
	}
}
