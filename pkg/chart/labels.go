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
		class := ""
		if q.Mark {
			class = "mark"
		}
		wide := textWidth(cut(q.Label))
		cx, cy := x(q.X), y(q.Y)
		for i, at := range []drawing.Box{ // above, below, right, left
			drawing.Between(cx-wide/2, cy-radius-gap-textSize, cx+wide/2, cy-radius-gap),
			drawing.Between(cx-wide/2, cy+radius+gap, cx+wide/2, cy+radius+gap+textSize),
			drawing.Between(cx+radius+gap, cy-textSize/2, cx+radius+gap+wide, cy+textSize/2),
			drawing.Between(cx-radius-gap-wide, cy-textSize/2, cx-radius-gap, cy+textSize/2),
		} {
			if at.X1 < plotLeft || at.X2 > width || at.Y2 > plotBottom || slices.ContainsFunc(taken, at.Meets) {
				continue
			}
			taken = append(taken, at)
			anchor := []string{"middle", "middle", "start", "end"}[i] // a page may write larger
			d.text([]float64{cx, cx, at.X1 + 2, at.X2 - 2}[i], at.Y2-2, anchor, class, cut(q.Label))
			break
		}
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
