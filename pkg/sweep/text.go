package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/limit"
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
		v, err := parseJSON([]byte(s))
		if err != nil {
			return nil, err
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

// parseJSON reads one JSON value; null is a Value that holds nil. An integer
// stays one, and objects keep their order.
func parseJSON(data []byte) (*source.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := jsonValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the value")
	}
	return v, nil
}

func jsonValue(d *json.Decoder, depth int) (*source.Value, error) {
	if depth > limit.Depth {
		return nil, fmt.Errorf("nested more than %d deep", limit.Depth)
	}
	tok, err := token(d)
	if err != nil {
		return nil, err
	}
	switch x := tok.(type) {
	case json.Number:
		return jsonNumber(x.String())
	case json.Delim:
		if x == '[' {
			return jsonList(d, depth)
		}
		return jsonTable(d, depth)
	}
	return &source.Value{Any: tok}, nil // string, bool or nil
}

// token is the next token; the end of the text inside a value is an error.
func token(d *json.Decoder) (json.Token, error) {
	tok, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return tok, err
}

func jsonNumber(s string) (*source.Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the integer %s is out of range", s)
		}
		return &source.Value{Any: n}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is out of range", s)
	}
	return &source.Value{Any: f}, nil
}

func jsonList(d *json.Decoder, depth int) (*source.Value, error) {
	list := []*source.Value{}
	for d.More() {
		e, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	_, err := token(d)
	return &source.Value{Any: list}, err
}

func jsonTable(d *json.Decoder, depth int) (*source.Value, error) {
	t := source.NewTable(source.Pos{})
	for d.More() {
		tok, err := token(d)
		if err != nil {
			return nil, err
		}
		k, _ := tok.(string) // the decoder takes no other key
		if t.Has(k) {
			return nil, fmt.Errorf("the key %q stands there twice", k)
		}
		v, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		t.Set(k, v)
	}
	_, err := token(d)
	return &source.Value{Any: t}, err
}
