package field

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Value is a number or a text; the zero Value is neither.
type Value struct {
	Number float64
	Text   string
	kind   kind
}

type kind uint8

const (
	none kind = iota
	number
	text
)

// OfNumber is a finite number; of any other it is no value.
func OfNumber(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{Number: x + 0, kind: number} // -0 + 0 is 0
}

// OfText is a text that is not empty.
func OfText(s string) Value {
	if s == "" {
		return Value{}
	}
	return Value{Text: s, kind: text}
}

// Read is what a setting says: a finite number that is written in digits, or else a text.
func Read(s string) Value {
	if s == "" || len(s) > 40 {
		return OfText(s)
	}
	if c := s[0]; c != '-' && c != '.' && (c < '0' || c > '9') { // inf, nan, 0x1p4
		return OfText(s)
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xX_") || math.IsInf(x, 0) { // -0x1p4, 1_000
		return OfText(s)
	}
	return OfNumber(x)
}

// OfTime is a time in Unix milliseconds.
func OfTime(t time.Time) Value {
	if t.IsZero() {
		return Value{}
	}
	return OfNumber(float64(t.UnixMilli()))
}

// Has reports whether there is a value.
func (v Value) Has() bool { return v.kind != none }

// IsNumber reports whether the value is a number.
func (v Value) IsNumber() bool { return v.kind == number }

// String is the text, or the number in the fewest digits that give it back.
func (v Value) String() string {
	if v.kind == number {
		return strconv.FormatFloat(v.Number, 'g', -1, 64)
	}
	return v.Text
}

// Compare orders numbers before texts; no value stands last.
func Compare(a, b Value) int {
	rank := func(v Value) int { return int(v.kind+2) % 3 } // number, text, none
	if a.kind != b.kind {
		return cmp.Compare(rank(a), rank(b))
	}
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Text, b.Text))
}

// MarshalJSON writes a number, a string or null.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case number:
		return json.Marshal(v.Number)
	case text:
		return json.Marshal(v.Text)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and true and false as texts.
func (v *Value) UnmarshalJSON(data []byte) error {
	var x any
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	switch x := x.(type) {
	case nil:
		*v = Value{}
	case float64:
		*v = OfNumber(x)
	case bool:
		*v = OfText(strconv.FormatBool(x))
	case string:
		*v = OfText(x)
	default:
		return errors.New("a value is a number, a text or null, not an object or array")
	}
	return nil
}
