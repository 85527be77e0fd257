package chart

import (
	"slices"
	"unicode/utf8"
)

// area is where something is drawn that no label may cover.
type area struct{ left, top, right, bottom float64 }

func (a area) covers(b area) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

// labels writes the labels of named points, each where it covers no point and no other label;
// one that has no room is left out.
func labels(d *drawing, drawn []Point, x, y func(float64) float64) {
	const radius, gap = 5.0, 3.0
	var taken []area
	for _, q := range drawn {
		at := area{x(q.X) - radius, y(q.Y) - radius, x(q.X) + radius, y(q.Y) + radius}
		if q.Mark && !q.Named { // its label stands on one side
			wide := textWidth(cut(q.Label)) + 9
			if at.right += wide; x(q.X) > (plotLeft+plotRight)/2 {
				at.left, at.right = at.left-wide, at.right-wide
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
		for _, at := range []area{ // above, below, right, left
			{cx - wide/2, cy - radius - gap - textSize, cx + wide/2, cy - radius - gap},
			{cx - wide/2, cy + radius + gap, cx + wide/2, cy + radius + gap + textSize},
			{cx + radius + gap, cy - textSize/2, cx + radius + gap + wide, cy + textSize/2},
			{cx - radius - gap - wide, cy - textSize/2, cx - radius - gap, cy + textSize/2},
		} {
			if at.left < plotLeft || at.right > width || at.bottom > plotBottom || overlaps(at, taken) {
				continue
			}
			taken = append(taken, at)
			d.text((at.left+at.right)/2, at.bottom-2, "middle", class, cut(q.Label))
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

func overlaps(a area, others []area) bool {
	for _, b := range others {
		if a.covers(b) {
			return true
		}
	}
	return false
}

// textWidth is about the width of a text in the page's font.
func textWidth(s string) float64 { return 0.56 * textSize * float64(utf8.RuneCountInString(s)) }
