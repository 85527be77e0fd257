package vllmserve

import (
	"bytes"
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/pyjson"
)

// A field is one key of an object with its undecoded value and the place of that.
type field struct {
	key       string
	raw       []byte
	line, col int
}

// open reads the value of a field.
func (f field) open() *pyjson.Reader { return open(f.raw, f.line, f.col) }

// open reads a document; a word that is not a value spoils only its own key.
func open(text []byte, line, col int) *pyjson.Reader {
	in := pyjson.NewPart(text, line, col)
	in.Loose = true
	return in
}

// document reads one object and returns its fields. Only values that somebody asks for are
// decoded, so that a
// 200 kB list of texts costs little.
func document(in *pyjson.Reader) (fields []field, err error) {
	if in.Kind() != pyjson.Object {
		e := &pyjson.Error{}
		e.Line, e.Col = in.Place()
		rest := in.Rest()
		e.Text = fmt.Sprintf("want an object, got %.20q", rest[:min(20, len(rest))])
		return nil, e
	}
	err = in.Object(func(key string) error {
		in.Kind() // to the place of the value
		line, col := in.Place()
		raw, err := in.Raw()
		fields = append(fields, field{key, raw, line, col})
		return err
	})
	return fields, err
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// number reads a JSON number or one of Python's words, also in quotes.
func number(raw []byte) (float64, error) {
	if v, ok := pyjson.ParseNumber(raw); ok && !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v, nil
	}
	switch string(bytes.Trim(raw, `"`)) {
	case "NaN", "nan":
		return math.NaN(), nil
	case "Infinity", "inf", "+inf":
		return math.Inf(1), nil
	case "-Infinity", "-inf":
		return math.Inf(-1), nil
	}
	return 0, fmt.Errorf("not a number: %.40s", raw)
}
