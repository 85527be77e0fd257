package pyjson

import (
	"math"
	"strconv"
	"strings"
)

// Float prints a number as Python's repr prints a float: 4.0, 1e+16, inf, nan.
func Float(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if format == 'f' && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// JSONFloat prints a number as Python's json.dumps prints a float, which also writes NaN and Infinity.
func JSONFloat(f float64) string {
	return strings.NewReplacer("inf", "Infinity", "nan", "NaN").Replace(Float(f))
}
