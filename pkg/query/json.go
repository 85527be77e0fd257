package query

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/profllm/profllm/pkg/field"
)

// MarshalJSON writes a table in one piece. encoding/json would ask each of its values for its text, which takes
// most of the time of an answer with 10,000 rows.
func (t *Table) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 64+len(t.IDs)*(32+12*len(t.Columns)))
	b = appendList(append(b, `{"ids":`...), t.IDs, appendText)
	b = appendList(append(b, `,"fields":`...), t.Fields, appendText)
	b = appendList(append(b, `,"columns":`...), t.Columns, func(b []byte, column []field.Value) []byte {
		return appendList(b, column, appendValue)
	})
	return append(b, '}'), nil
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, x := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, x)
	}
	return append(b, ']')
}

func appendValue(b []byte, v field.Value) []byte {
	switch {
	case !v.Has():
		return append(b, "null"...)
	case !v.IsNumber():
		return appendText(b, v.Text)
	}
	if x := math.Abs(v.Number); x == 0 || x >= 1e-6 && x < 1e21 { // as encoding/json writes numbers without an exponent
		return strconv.AppendFloat(b, v.Number, 'f', -1, 64)
	}
	return appendAny(b, v.Number)
}

// appendText writes a text; encoding/json does it where something is to be escaped.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendAny(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendAny(b []byte, x any) []byte {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err) // a text, or a number that is finite
	}
	return append(b, text...)
}
