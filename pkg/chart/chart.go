// Package chart draws bars and points as SVG for a page that has no network:
// plain markup without script, fonts or styles of its own. Colours come from the
// page, by the classes s0 to s7 (series), l0 to l7 (their lines), axis, grid, mark, dim, hollow
// and legend.
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

	"github.com/profllm/profllm/pkg/drawing"
)

const (
	width     = 720.0
	barHeight = 14.0
	textSize  = 12.0
	longest   = 30 // runes of a label; the tooltip has all
)

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

// markup collects markup. Text goes through escape, numbers through f.
type markup struct{ strings.Builder }

func (d *markup) addf(format string, args ...any) { fmt.Fprintf(&d.Builder, format, args...) }

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

func cut(s string) string { return drawing.Cut(s, longest) }

func (d *markup) open(title string, height float64) {
	d.addf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" width="%s" height="%s" aria-label="%s">`,
		f(width), f(height), f(width), f(height), escape(title))
	d.addf("<title>%s</title>", escape(title))
}

func (d *markup) text(x, y float64, anchor, class, s string) {
	if s == "" {
		return
	}
	d.addf(`<text x="%s" y="%s" text-anchor="%s"`, f(x), f(y), anchor)
	if class != "" {
		d.addf(` class="%s"`, class)
	}
	d.addf(">%s</text>", escape(s))
}

func (d *markup) line(class string, x1, y1, x2, y2 float64) {
	d.addf(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, f(x1), f(y1), f(x2), f(y2))
}
