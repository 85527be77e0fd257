package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/drawing"
)

// Points is a chart of points, or of lines through those of one series in the order given.
type Points struct {
	Title          string
	XLabel, YLabel string
	Points         []Point
	Line           bool
	FromZero       bool      // both axes begin at zero
	XTicks         []float64 // the numbers of the x axis that have room; nil for round ones
}

// Point is one point. Its label stands beside it if it is marked or named.
type Point struct {
	Label string
	Tip   string // a tooltip; "" for the label
	X, Y  float64
	Mark  bool
	// Series names the line that the point lies on. Of several, Legend has the names.
	Series string
	// Hollow points are outlines, by the class hollow: their value stands, and what is
	// claimed of it is not proven.
	Hollow bool
	// Named points have their label beside them where there is room.
	Named bool
}

const (
	plotLeft, plotTop     = 80.0, 46.0
	plotRight, plotBottom = width - 24, 330.0
)

// SVG draws the chart. Points that are not finite are left out.
func (p Points) SVG() string {
	var d markup
	d.open(p.Title, plotBottom+44)
	d.text(0, 14, "start", "head", p.Title)
	drawn := p.drawn()
	x := p.axis(drawn, p.XTicks, Point.x, plotLeft, plotRight, func(at float64, label string) {
		d.line("grid", at, plotTop, at, plotBottom)
		d.text(at, plotBottom+16, "middle", "dim", label)
	})
	y := p.axis(drawn, nil, Point.y, plotBottom, plotTop, func(at float64, label string) {
		d.line("grid", plotLeft, at, plotRight, at)
		d.text(plotLeft-6, at+textSize/3, "end", "dim", label)
	})
	d.line("axis", plotLeft, plotBottom, plotRight, plotBottom)
	d.line("axis", plotLeft, plotTop, plotLeft, plotBottom)
	d.text((plotLeft+plotRight)/2, plotBottom+36, "middle", "dim", p.XLabel)
	d.text(0, plotTop-13, "start", "dim", p.YLabel)
	if p.Line {
		p.lines(&d, drawn, x, y)
	}
	names := series(drawn)
	for _, q := range drawn {
		colour := slices.Index(names, q.Series) % colours
		if q.Mark && len(names) == 1 {
			colour = 1
		}
		q.draw(&d, x(q.X), y(q.Y), colour)
	}
	labels(&d, drawn, x, y)
	d.addf("</svg>")
	return d.String()
}

// lines draws a line for each series of two points or more.
func (p Points) lines(d *markup, drawn []Point, x, y func(float64) float64) {
	names := series(drawn)
	paths := map[string][]string{}
	for _, q := range drawn {
		paths[q.Series] = append(paths[q.Series], f(x(q.X))+","+f(y(q.Y)))
	}
	for i, name := range names {
		if len(paths[name]) > 1 {
			d.addf(`<polyline class="line l%d" points="%s"/>`, i%colours, strings.Join(paths[name], " "))
		}
	}
}

// Legend names the lines of a page's chart, in HTML; "" for a single one.
func (p Points) Legend() string {
	names := series(p.drawn())
	if len(names) < 2 || !p.Line {
		return ""
	}
	var d markup
	d.addf(`<p class="legend">`)
	for i, name := range names {
		d.addf(`<span><svg viewBox="0 0 28 10" aria-hidden="true"><line class="line l%d" x1="0" y1="5" x2="28" y2="5"/>`+
			`<circle class="s%d" cx="14" cy="5" r="4"/></svg> %s</span> `, i%colours, i%colours, escape(name))
	}
	d.addf("</p>")
	return d.String()
}

func (q Point) x() float64 { return q.X }
func (q Point) y() float64 { return q.Y }

// drawn are the points that have a place.
func (p Points) drawn() []Point {
	return slices.DeleteFunc(slices.Clone(p.Points), func(q Point) bool {
		return !drawing.Finite(q.X) || !drawing.Finite(q.Y)
	})
}

// colours is how many the page tells apart.
const colours = 8

// series are the names of the lines, in the order of their first points.
func series(points []Point) []string {
	var names []string
	for _, q := range points {
		if !slices.Contains(names, q.Series) {
			names = append(names, q.Series)
		}
	}
	return names
}

func (q Point) draw(d *markup, x, y float64, colour int) {
	class, radius := fmt.Sprintf("s%d", colour), 4.0
	if q.Mark {
		radius = 6
	}
	if q.Hollow {
		class += " hollow"
	}
	d.addf(`<circle class="%s" cx="%s" cy="%s" r="%s"><title>%s</title></circle>`, class, f(x), f(y), f(radius),
		escape(cmp.Or(q.Tip, q.Label)))
	if q.Mark && !q.Named { // labels places the others
		anchor, at := "start", x+9
		if x > (plotLeft+plotRight)/2 {
			anchor, at = "end", x-9
		}
		d.text(at, y+textSize/3, anchor, "mark", cut(q.Label))
	}
}

// axis draws the ticks of one dimension, those that are given or round ones, and returns its scale.
func (p Points) axis(points []Point, given []float64, of func(Point) float64, from, to float64,
	draw func(at float64, label string)) func(float64) float64 {
	lo, hi := 0.0, 1.0
	for i, q := range points {
		if i == 0 {
			lo, hi = of(q), of(q)
		}
		lo, hi = min(lo, of(q)), max(hi, of(q))
	}
	if p.FromZero {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	ticks := drawing.Ticks(lo, hi, 6)
	lo, hi = ticks[0], ticks[len(ticks)-1]
	scale := func(v float64) float64 { return from + (v-lo)/(hi-lo)*(to-from) }
	if len(given) > 0 {
		ticks = given
	}
	end := math.Inf(-1)
	for i, text := range drawing.TickTexts(ticks) {
		at, wide := scale(ticks[i]), textWidth(text)
		if len(given) > 0 && at-wide/2 < end+8 {
			text = "" // no room
		} else {
			end = at + wide/2
		}
		draw(at, text)
	}
	return scale
}
