package vllmserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// The client writes JSON with Python's additions: the bare tokens NaN,
// Infinity and -Infinity, and several documents in one file. encoding/json
// refuses both, so the top level is split here and only values that somebody
// asks for are decoded. It also keeps a 200 kB list of texts from costing
// anything.

var errTruncated = errors.New("the file ends inside a document")

// A field is one key of a document's top level with its undecoded value.
type field struct {
	key    string
	raw    []byte
	offset int // of raw in the file
}

// document reads one object at data[at:] and returns its fields and the
// offset behind it. Only brackets and strings of the values are checked.
func document(data []byte, at int) (fields []field, end int, err error) {
	i := space(data, at)
	if i >= len(data) || data[i] != '{' {
		return nil, i, fmt.Errorf("want an object, got %.20q", data[min(i, len(data)):min(i+20, len(data))])
	}
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		return nil, i + 1, nil
	}
	for {
		start := i
		if i, err = skipString(data, i); err != nil {
			return fields, i, err
		}
		key, err := unquote(data[start:i])
		if err != nil {
			return fields, start, fmt.Errorf("bad key: %w", err)
		}
		i = space(data, i)
		if i >= len(data) {
			return fields, i, errTruncated
		}
		if data[i] != ':' {
			return fields, i, fmt.Errorf("want a colon after key %q", key)
		}
		i = space(data, i+1)
		start = i
		if i, err = skipValue(data, i); err != nil {
			return fields, i, err
		}
		fields = append(fields, field{key, data[start:i], start})
		i = space(data, i)
		if i >= len(data) {
			return fields, i, errTruncated
		}
		switch data[i] {
		case '}':
			return fields, i + 1, nil
		case ',':
			i = space(data, i+1)
		default:
			return fields, i, fmt.Errorf("want a comma or brace after key %q", key)
		}
	}
}

// unquote reads a JSON string. Most have no escape and are in ASCII.
func unquote(quoted []byte) (text string, err error) {
	inside := quoted[1 : len(quoted)-1]
	for _, c := range inside {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			err = json.Unmarshal(quoted, &text)
			return text, err
		}
	}
	return string(inside), nil
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

func skipString(data []byte, i int) (int, error) {
	if i >= len(data) {
		return i, errTruncated
	}
	if data[i] != '"' {
		return i, fmt.Errorf("want a string, got %q", data[i])
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return len(data), errTruncated
}

func skipValue(data []byte, i int) (end int, err error) {
	if i >= len(data) {
		return i, errTruncated
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		var open []byte
		for i < len(data) {
			switch c := data[i]; c {
			case '"':
				if i, err = skipString(data, i); err != nil {
					return i, err
				}
				continue
			case '{', '[':
				open = append(open, c+2) // the closing one, in ASCII
			case '}', ']':
				if open[len(open)-1] != c {
					return i, fmt.Errorf("unexpected %q", c)
				}
				if open = open[:len(open)-1]; len(open) == 0 {
					return i + 1, nil
				}
			}
			i++
		}
		return i, errTruncated
	}
	start := i
	for i < len(data) && !endsValue(data[i]) {
		i++
	}
	if i == start {
		return i, fmt.Errorf("want a value, got %q", data[i])
	}
	if i == len(data) {
		return i, errTruncated
	}
	return i, nil
}

// endsValue reports whether a byte stands behind a number or a word.
func endsValue(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// position returns the line and column, both from 1, of a byte.
func position(data []byte, offset int) (line, col int) {
	before := data[:min(offset, len(data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// number reads a JSON number or one of Python's tokens, also in quotes.
func number(raw []byte) (float64, error) {
	if plain(raw) {
		if v, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return v, nil
		}
	}
	text := string(bytes.Trim(raw, `"`))
	switch text {
	case "NaN", "nan":
		return math.NaN(), nil
	case "Infinity", "inf", "+inf":
		return math.Inf(1), nil
	case "-Infinity", "-inf":
		return math.Inf(-1), nil
	}
	if raw[0] == '"' || !json.Valid(raw) {
		return 0, fmt.Errorf("no number: %.40s", raw)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("no number: %.40s", raw)
	}
	return v, nil
}

// plain reports whether raw is a JSON number of the form that most have, digits with
// a fraction, which needs no further look.
func plain(raw []byte) bool {
	whole, fraction, point := bytes.Cut(raw, []byte("."))
	digits := func(s []byte) bool {
		for _, c := range s {
			if c < '0' || c > '9' {
				return false
			}
		}
		return len(s) > 0
	}
	return digits(whole) && (len(whole) == 1 || whole[0] != '0') && (!point || digits(fraction))
}

// elements hands on the values that a list holds, until one is refused.
func elements(raw []byte, f func(item []byte) error) error {
	if len(raw) < 2 || raw[0] != '[' {
		return fmt.Errorf("no list: %.40s", raw)
	}
	i := space(raw, 1)
	if raw[i] == ']' {
		return nil
	}
	for {
		start := i
		end, err := skipValue(raw, start)
		if err != nil {
			return fmt.Errorf("bad list: %w", err)
		}
		if err := f(raw[start:end]); err != nil {
			return err
		}
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ',' && raw[i] != ']' {
			return fmt.Errorf("bad list: want a comma")
		}
		if raw[i] == ']' {
			return nil
		}
		i = space(raw, i+1)
	}
}
