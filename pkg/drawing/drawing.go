// Package drawing is what charts of pages and figures of files have in common: the round numbers of
// an axis and their text, shortened labels, and places that labels must not share.
//
//	ticks := drawing.Ticks(0, 15, 6)
//	text := drawing.Tick(ticks[1])
package drawing

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Finite reports whether x can be drawn: a number, and small enough for the arithmetic of scales.
func Finite(x float64) bool { return math.Abs(x) <= 1e100 }

// Ticks returns round numbers that cover lo to hi in at most n+1 steps: 1, 2 or 5 times a power of
// ten apart. The first is at most lo, the last at least hi.
func Ticks(lo, hi float64, n int) []float64 {
	if !Finite(lo) || !Finite(hi) || n < 1 {
		return []float64{0, 1}
	}
	if hi-lo <= math.Abs(hi)*1e-12 { // one value, or too near for a scale
		hi, n = lo+max(1, math.Abs(lo)/10), 1
	}
	step := niceStep((hi - lo) / float64(n))
	first, last := math.Floor(lo/step), math.Ceil(hi/step)
	var ticks []float64
	for i := first; i <= last && len(ticks) < 4*n+4; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// niceStep is the least of 1, 2, 5 times a power of ten that is not below x.
func niceStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= x*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// Tick writes a tick: thousands as k, millions as M, without the noise of binary fractions.
func Tick(v float64) string {
	switch abs := math.Abs(v); {
	case abs < 1e-12:
		return "0"
	case abs >= 1e12 || abs < 1e-4:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case abs >= 1e9:
		return strconv.FormatFloat(v/1e9, 'g', 5, 64) + "G"
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 5, 64) + "M"
	case abs >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 5, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// TickTexts are ticks as text, no two alike.
func TickTexts(ticks []float64) []string {
	list := make([]string, len(ticks))
	alike := false
	for i, v := range ticks {
		list[i] = Tick(v)
		alike = alike || i > 0 && list[i] == list[i-1]
	}
	for i, v := range ticks {
		if alike { // 1234567.5 and 1234567.6
			list[i] = strconv.FormatFloat(v, 'g', 12, 64)
		}
	}
	return list
}

// Cut shortens a label to a number of characters.
func Cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Box is a rectangle, with X1 < X2 and Y1 < Y2.
type Box struct{ X1, Y1, X2, Y2 float64 }

// Between is the box between two corners: the lesser x and y, and the greater.
func Between(x1, y1, x2, y2 float64) Box { return Box{x1, y1, x2, y2} }

// Meets reports whether two rectangles share a place.
func (b Box) Meets(o Box) bool { return b.X1 < o.X2 && o.X1 < b.X2 && b.Y1 < o.Y2 && o.Y1 < b.Y2 }
