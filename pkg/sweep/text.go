package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/source"
)

// appendJSON writes v so that types stay apart: a float always has a point or
// an exponent. Tables are written with sorted keys.
func appendJSON(b []byte, v *source.Value) []byte {
	switch x := v.Any.(type) {
	case string:
		return appendString(b, x)
	case int64:
		return strconv.AppendInt(b, x, 10)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return append(b, "null"...)
		}
		return append(b, floatText(x)...)
	case bool:
		return strconv.AppendBool(b, x)
	case []*source.Value:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, e)
		}
		return append(b, ']')
	case *source.Table:
		keys := x.Keys()
		slices.Sort(keys)
		list := make([]Assignment, len(keys))
		for i, k := range keys {
			list[i] = Assignment{k, x.Get(k)}
		}
		return appendAssignments(b, list, false)
	}
	return append(b, "null"...)
}

// appendString writes a JSON string, without the escapes that HTML needs.
func appendString(b []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return append(append(append(b, '"'), s...), '"')
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// floatText is the shortest text that reads back as f and as a float, which is
// what Python's repr prints: an exponent below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	_, exp, _ := strings.Cut(s, "e")
	if n, _ := strconv.Atoi(exp); n < -4 || n >= 16 {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// cellText writes v for a cell: bare where it reads back as the same type, as
// JSON otherwise. The string 1 is "1" with its quotes.
func cellText(v *source.Value) string {
	s, ok := v.Any.(string)
	if !ok {
		return string(appendJSON(nil, v))
	}
	if back, err := parseCell(s); err == nil && back == any(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	return string(appendString(nil, s))
}

// labelText is cellText, also quoted where a space or an equals sign would make
// a label hard to read.
func labelText(v *source.Value) string {
	s, ok := v.Any.(string)
	if ok && strings.ContainsAny(s, "= ") {
		return string(appendString(nil, s))
	}
	return cellText(v)
}

// parseCell reads what cellText wrote: a scalar, or a list or table.
func parseCell(s string) (any, error) {
	switch {
	case s == "":
		return nil, nil
	case s == "true", s == "false":
		return s == "true", nil
	case s[0] == '"', s[0] == '[', s[0] == '{':
		v, err := parseJSON([]byte(s), 1)
		if err != nil {
			return nil, errors.New(err.Text)
		}
		return v.Any, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f, nil
	}
	return s, nil
}

// parseJSON reads the one JSON value of a line; null is a Value that holds nil. An integer
// stays one, and objects keep their order.
func parseJSON(text []byte, line int) (*source.Value, *pyjson.Error) {
	in := pyjson.NewPart(text, line, 1)
	v, err := jsonValue(in)
	if err == nil && in.End() != nil {
		err = in.Errorf("text after the end of the value")
	}
	if err != nil {
		at := pyjson.PlaceOf(err)
		if at.Cut {
			at.Text = "the value is incomplete"
		}
		return nil, at
	}
	return v, nil
}

func jsonValue(in *pyjson.Reader) (*source.Value, error) {
	switch in.Kind() {
	case pyjson.Object:
		t := source.NewTable(source.Pos{})
		err := in.Object(func(key string) error {
			if t.Has(key) {
				return in.Errorf("the key %q occurs twice", key)
			}
			v, err := jsonValue(in)
			t.Set(key, v)
			return err
		})
		return &source.Value{Any: t}, err
	case pyjson.List:
		list := []*source.Value{}
		err := in.List(func() error {
			v, err := jsonValue(in)
			list = append(list, v)
			return err
		})
		return &source.Value{Any: list}, err
	case pyjson.Text:
		v, err := in.Value()
		return &source.Value{Any: v.Str}, err
	}
	return jsonWord(in)
}

// jsonWord reads a number, true, false or null. NaN and infinities are refused: none of them is
// a value to try.
func jsonWord(in *pyjson.Reader) (*source.Value, error) {
	line, col := in.Place()
	word, err := in.Word()
	var v any
	switch {
	case err != nil:
		return nil, err
	case word == "null":
	case word == "true", word == "false":
		v = word == "true"
	case strings.ContainsAny(word, "NI"):
		return nil, &pyjson.Error{Line: line, Col: col, Text: word + " is not a JSON number"}
	case strings.ContainsAny(word, ".eE"):
		if v, err = strconv.ParseFloat(word, 64); err != nil {
			return nil, &pyjson.Error{Line: line, Col: col, Text: fmt.Sprintf("the number %s is out of range", word)}
		}
	default:
		if v, err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, &pyjson.Error{Line: line, Col: col, Text: fmt.Sprintf("the integer %s is out of range", word)}
		}
	}
	return &source.Value{Any: v}, nil
}
