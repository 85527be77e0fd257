// Package chart draws bars and points as SVG for a page that has no network:
// plain markup without script, fonts or styles of its own. Colours come from the
// page, by the classes s0, s1, s2 (series), l0, l1, l2 (their lines), axis, grid, mark, dim
// and hollow.
//
// It knows nothing of results. Every label is escaped; a number that is not
// finite, or beyond 1e100, is left out.
//
//	svg := chart.Bars{Title: "TTFT", Unit: "ms", Series: []string{"mean"}, Bars: bars}.SVG()
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	width     = 720.0
	barHeight = 14.0
	textSize  = 12.0
	longest   = 30 // runes of a label; the tooltip has all
)

// Ticks returns round numbers that cover lo to hi in at most n+1 steps: 1, 2 or
// 5 times a power of ten apart. The first is at most lo, the last at least hi.
func Ticks(lo, hi float64, n int) []float64 {
	if !finite(lo) || !finite(hi) || n < 1 {
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

// finite reports whether x can be drawn: a number, and small enough for the
// arithmetic of scales.
func finite(x float64) bool { return math.Abs(x) <= 1e100 }

// Number writes a value with the digits a reader can use: four significant ones
// below a thousand, none behind the point above.
func Number(x float64) string {
	switch abs := math.Abs(x); {
	case abs >= 1e7:
		return strconv.FormatFloat(x, 'g', 4, 64)
	case abs >= 1000 || x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// tick writes a tick without the noise of binary fractions.
func tick(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// drawing collects markup. Text goes through escape, numbers through f.
type drawing struct{ strings.Builder }

func (d *drawing) addf(format string, args ...any) { fmt.Fprintf(&d.Builder, format, args...) }

// f writes a coordinate.
func f(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escape makes a string safe in XML text and attributes; what XML cannot hold
// becomes the replacement character.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError {
			return utf8.RuneError
		}
		return r
	}, s)
	return escaper.Replace(s)
}

func cut(s string) string {
	if utf8.RuneCountInString(s) <= longest {
		return s
	}
	return string([]rune(s)[:longest-1]) + "…"
}

func (d *drawing) open(title string, height float64) {
	d.addf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" width="%s" height="%s" aria-label="%s">`,
		f(width), f(height), f(width), f(height), escape(title))
	d.addf("<title>%s</title>", escape(title))
}

func (d *drawing) text(x, y float64, anchor, class, s string) {
	d.addf(`<text x="%s" y="%s" text-anchor="%s"`, f(x), f(y), anchor)
	if class != "" {
		d.addf(` class="%s"`, class)
	}
	d.addf(">%s</text>", escape(s))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.addf(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, f(x1), f(y1), f(x2), f(y2))
}
