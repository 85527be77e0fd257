package chart

import (
	"slices"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/drawing"
)

// labels writes the labels of named points, each where it covers no point and no other label;
// one that has no room is left out.
func labels(d *markup, drawn []Point, x, y func(float64) float64) {
	const radius, gap = 5.0, 3.0
	var taken []drawing.Box
	for _, q := range drawn {
		at := drawing.Between(x(q.X)-radius, y(q.Y)-radius, x(q.X)+radius, y(q.Y)+radius)
		if q.Mark && !q.Named { // its label stands on one side
			wide := textWidth(cut(q.Label)) + 9
			if at.X2 += wide; x(q.X) > (plotLeft+plotRight)/2 {
				at.X1, at.X2 = at.X1-wide, at.X2-wide
			}
		}
		taken = append(taken, at)
	}
	marked := slices.Clone(drawn)
	slices.SortStableFunc(marked, func(a, b Point) int { return rank(a) - rank(b) })
	for _, q := range marked {
		if !q.Named || q.Label == "" {
			continue
		}
		wide, class := textWidth(cut(q.Label)), ""
		if q.Mark {
			wide, class = wide*1.15, "mark" // bold
		}
		for _, p := range around(x(q.X), y(q.Y), radius+gap, wide) {
			at := p.at
			if at.X1 < plotLeft || at.X2 > width || at.Y2 > plotBottom || slices.ContainsFunc(taken, at.Meets) {
				continue
			}
			taken = append(taken, at)
			d.text(p.x, at.Y2-2, p.anchor, class, cut(q.Label))
			break
		}
	}
}

// spot is a place for a label, which grows from x where a page writes larger.
type spot struct {
	at     drawing.Box
	x      float64
	anchor string
}

// around are the places for a label beside a point, the best first: lines seldom go straight up
// or down from a point.
func around(x, y, gap, wide float64) []spot {
	above, below := y-gap-textSize, y+gap
	row := func(top, left, at float64, anchor string) spot {
		return spot{drawing.Between(left, top, left+wide, top+textSize), at, anchor}
	}
	return []spot{
		row(above, x-wide/2, x, "middle"), row(above, x-wide+gap, x+gap, "end"), row(above, x-gap, x-gap, "start"),
		row(below, x-wide/2, x, "middle"), row(below, x-wide+gap, x+gap, "end"), row(below, x-gap, x-gap, "start"),
		row(y-textSize/2, x+gap, x+gap+2, "start"), row(y-textSize/2, x-gap-wide, x-gap-2, "end"),
	}
}

// rank puts marked points before the others.
func rank(q Point) int {
	if q.Mark {
		return 0
	}
	return 1
}

// textWidth is about the width of a text in the page's font.
func textWidth(s string) float64 { return 0.56 * textSize * float64(utf8.RuneCountInString(s)) }
