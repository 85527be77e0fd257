package figure

import (
	"cmp"
	"math"
	"slices"

	"github.com/mattn/go-runewidth"

	"github.com/profllm/profllm/pkg/drawing"
)

const (
	markRadius = 3.6
	longest    = 32 // characters of a point's label
)

// laid is a panel whose measures are known; the origin is its own top left.
type laid struct {
	p                        *Panel
	height                   float64
	entries                  []entry // of its own legend, from its first line
	noX, noSpans             bool    // numbers and label of x, names of spans: another panel has them
	x, y                     ruler
	left, top, right, bottom float64 // of the data area
	title                    []string
	xLabel, yLabel           []string
	labels                   []label
	unlabelled               int // labels without room
}

// label is a placed label of a point.
type label struct {
	text string
	x, y float64 // of its baseline
}

// lay measures the panel of a row and a column of a figure, for a size.
func lay(p *pen, f *Figure, row, column int, width, height float64) *laid {
	panel := &f.Panels[row][column]
	l := &laid{p: panel, height: height}
	if f.SharedX {
		list := f.column(column)
		l.noX, l.noSpans = panel != list[len(list)-1], panel != list[0]
	}
	_, ys := panel.extent()
	l.y = panel.Y.rule(ys, max(2, int(height/55)))
	axis, xs := f.axisX(panel, column)
	l.x = axis.rule(xs, max(2, int(width/70)))
	widest := 0.0
	for _, t := range l.y.texts() {
		widest = max(widest, p.width(t, tickSize, false))
	}
	texts := l.x.texts()
	l.left = max(widest+10, p.width(texts[0], tickSize, false)/2)
	l.right = width - max(14, p.width(texts[len(texts)-1], tickSize, false)/2+4)
	l.title = firstLines(p.wrapped(clean(panel.Title), headSize, width-8, true), 3)
	l.yLabel = firstLines(p.wrapped(clean(panel.Y.Label), axisSize, width-8, false), 2)
	l.xLabel = firstLines(p.wrapped(clean(axis.Label), axisSize, l.right-l.left, false), 2)
	l.top = 8 + float64(len(l.title))*headSize*leading + l.headings(p, width)
	if len(panel.Spans) > 0 && !l.noSpans {
		l.top += labelSize * leading // for their names
	}
	below := tickSize*1.6 + float64(len(l.xLabel))*axisSize*leading
	l.bottom = max(height-12-below, l.top+20)
	if f.SharedX && len(f.Panels) > 1 { // all data areas are equally high
		if l.noX {
			below = 0
		}
		l.bottom = l.top + max(height-28-axisSize*leading, 20)
		l.height = l.bottom + 14 + below
	}
	return l
}

// headings places the entries of the panel's own legend behind the label of y, or below the label
// where they would have little room there, and returns the height of both.
func (l *laid) headings(p *pen, width float64) float64 {
	list, more := l.p.legend()
	const line = axisSize * leading
	labels := float64(len(l.yLabel)) * line
	first, x := labels, 0.0
	if len(l.yLabel) == 1 && p.width(l.yLabel[0], axisSize, false) < width/2 {
		first, x = 0, p.width(l.yLabel[0], axisSize, false)+between
	}
	var high float64
	if l.entries, high = entries(p, list, more, width-8, x); high == 0 {
		return labels
	}
	for i := range l.entries {
		l.entries[i].y += first
	}
	return max(first+high, labels)
}

// firstLines are at most n lines; a line that is left out is shown by an ellipsis.
func firstLines(lines []string, n int) []string {
	if len(lines) <= n {
		return lines
	}
	lines = slices.Clone(lines[:n])
	lines[n-1] += "…"
	return lines
}

func (l *laid) px(v float64) float64 { return l.left + l.x.frac(v)*(l.right-l.left) }
func (l *laid) py(v float64) float64 { return l.bottom - l.y.frac(v)*(l.bottom-l.top) }

// mostLabels bounds what is tried.
const mostLabels = 400

// place finds room for the labels of points: beside them, on no other label and no mark, and within
// the data area.
func (l *laid) place(p *pen) {
	var taken []drawing.Box
	marks, lines := l.crowds()
	tried := 0
	for _, s := range l.p.Series {
		for _, q := range l.p.usable(s) {
			if q.Label == "" {
				continue
			}
			if tried++; tried > mostLabels {
				l.unlabelled++
				continue
			}
			text := cut(q.Label, longest)
			w, x, y := p.width(text, labelSize, false), l.px(q.X), l.py(q.Y)
			at, ok := l.room(w, x, y, taken, marks, lines)
			if !ok {
				at, ok = l.room(w, x, y, taken, marks, nil) // better on a line than not at all
			}
			if !ok {
				l.unlabelled++
				continue
			}
			taken = append(taken, at)
			l.labels = append(l.labels, label{text, at.X1, at.Y2 - labelSize*0.2})
		}
	}
}

// crowd are places that labels keep clear of, by cells.
type crowd map[[2]int][][2]float64

func (c crowd) add(x, y float64) {
	if k := cell(x, y); len(c[k]) < 50 { // as good as full
		c[k] = append(c[k], [2]float64{x, y})
	}
}

// along adds places on a line, but not its ends.
func (c crowd) along(x1, y1, x2, y2 float64) {
	const step = 6.0
	n := min(math.Ceil(math.Hypot(x2-x1, y2-y1)/step), 1000)
	for k := 1.0; k < n; k++ {
		c.add(x1+(x2-x1)*k/n, y1+(y2-y1)*k/n)
	}
}

// crowds are the middles of all marks with the ends of their error bars, and places on all lines and
// bars.
func (l *laid) crowds() (marks, lines crowd) {
	marks, lines = crowd{}, crowd{}
	for _, s := range l.p.Series {
		var before [2]float64
		for i, q := range l.p.usable(s) {
			x, y := l.px(q.X), l.py(q.Y)
			if s.Marks {
				marks.add(x, y)
			}
			if drawing.Finite(q.XErr) && q.XErr > 0 {
				right := l.px(q.X + q.XErr)
				marks.add(right, y)
				marks.add(2*x-right, y)
				lines.along(2*x-right, y, right, y)
			}
			if drawing.Finite(q.YErr) && q.YErr > 0 {
				above := l.py(q.Y + q.YErr)
				lines.along(x, above, x, 2*y-above)
			}
			if s.Line && i > 0 && !q.Gap {
				lines.along(before[0], before[1], x, y)
			}
			before = [2]float64{x, y}
		}
	}
	return marks, lines
}

const cellSize = 24.0

func cell(x, y float64) [2]int {
	return [2]int{int(math.Floor(x / cellSize)), int(math.Floor(y / cellSize))}
}

// room is the first of the places around a point where a label of a width has room.
func (l *laid) room(w, x, y float64, taken []drawing.Box, marks, lines crowd) (drawing.Box, bool) {
	const gap, h = markRadius + 2.5, labelSize * 1.15
	for _, at := range [][2]float64{
		{x + gap, y - h/2}, {x - gap - w, y - h/2}, {x - w/2, y - gap - h}, {x - w/2, y + gap},
		{x + gap*0.7, y - gap*0.7 - h}, {x + gap*0.7, y + gap*0.7}, {x - gap*0.7 - w, y - gap*0.7 - h},
		{x - gap*0.7 - w, y + gap*0.7},
	} {
		b := drawing.Between(at[0], at[1], at[0]+w, at[1]+h)
		if b.X1 < l.left || b.X2 > l.right+6 || b.Y1 < l.top-4 || b.Y2 > l.bottom {
			continue
		}
		if slices.ContainsFunc(taken, b.Meets) || marks.meets(b, markRadius) || lines.meets(b, 1) {
			continue
		}
		return b, true
	}
	return drawing.Box{}, false
}

// meets reports whether a box comes nearer to a place than a radius.
func (c crowd) meets(b drawing.Box, radius float64) bool {
	from, to := cell(b.X1-radius, b.Y1-radius), cell(b.X2+radius, b.Y2+radius)
	for i := from[0]; i <= to[0] && len(c) > 0; i++ {
		for j := from[1]; j <= to[1]; j++ {
			for _, m := range c[[2]int{i, j}] {
				if b.Meets(drawing.Between(m[0]-radius, m[1]-radius, m[0]+radius, m[1]+radius)) {
					return true
				}
			}
		}
	}
	return false
}

// draw draws the panel with its top left at a place.
func (l *laid) draw(p *pen, x0, y0 float64) {
	moved := *p
	moved.c.Push()
	defer moved.c.Pop()
	p.c.Translate(p.at(x0, y0))
	p = &moved
	p.height = 0
	l.frame(p)
	l.spanNames(p)
	for _, s := range l.p.Series {
		l.series(p, s)
	}
	for _, t := range l.labels {
		p.text(t.x, t.y, labelSize, false, start, ink, t.text)
	}
}

// frame draws what is not data.
func (l *laid) frame(p *pen) {
	y := headSize
	for _, line := range l.title {
		p.text(0, y, headSize, true, start, ink, line)
		y += headSize * leading
	}
	for _, e := range l.entries {
		e.draw(p, e.x, y+e.y)
	}
	for _, line := range l.yLabel {
		p.text(0, y, axisSize, false, start, dim, line)
		y += axisSize * leading
	}
	l.spans(p)
	for i, t := range l.y.texts() {
		at := l.py(l.y.ticks[i])
		p.line(gridInk, 0.7, l.left, at, l.right, at)
		p.text(l.left-6, at+tickSize*0.35, tickSize, false, end, dim, t)
	}
	l.frameX(p)
	p.line(dim, 1, l.left, l.bottom, l.right, l.bottom)
	p.line(dim, 1, l.left, l.top, l.left, l.bottom)
}

// frameX draws the grid of x, and below it the numbers and the label.
func (l *laid) frameX(p *pen) {
	last := math.Inf(-1)
	for i, t := range l.x.texts() {
		at := l.px(l.x.ticks[i])
		p.line(gridInk, 0.7, at, l.top, at, l.bottom)
		if w := p.width(t, tickSize, false); at-w/2 > last+6 && !l.noX {
			p.text(at, l.bottom+tickSize*1.4, tickSize, false, middle, dim, t)
			last = at + w/2
		}
	}
	if l.noX {
		return
	}
	for i, line := range l.xLabel {
		p.text((l.left+l.right)/2, l.bottom+tickSize*1.6+axisSize+float64(i)*axisSize*leading, axisSize, false, middle,
			dim, line)
	}
}

// spans draws the named ranges.
func (l *laid) spans(p *pen) {
	for _, s := range l.p.Spans {
		if l.x.scale.holds(s.From) && l.x.scale.holds(s.To) {
			x1, x2 := l.px(s.From), l.px(s.To)
			p.rect(shade, x1, l.top, max(x2, x1+0.5), l.bottom)
			p.line(greyInk, 0.6, x1, l.top, x1, l.bottom)
		}
	}
}

// spanNames writes the names of ranges above them, those of wide ones first, where they have room.
func (l *laid) spanNames(p *pen) {
	if l.noSpans {
		return
	}
	wide := slices.DeleteFunc(slices.Clone(l.p.Spans), func(s Span) bool {
		return !l.x.scale.holds(s.From) || !l.x.scale.holds(s.To)
	})
	slices.SortStableFunc(wide, func(a, b Span) int { return cmp.Compare(b.To-b.From, a.To-a.From) })
	var taken []drawing.Box
	for _, s := range wide {
		name := cut(s.Name, longest)
		x := l.px(s.From)
		b := drawing.Between(x, l.top-labelSize, x+p.width(name, labelSize, false)+4, l.top)
		if b.X2 > l.right+8 || slices.ContainsFunc(taken, b.Meets) {
			continue
		}
		taken = append(taken, b)
		p.text(x, l.top-3, labelSize, false, start, dim, name)
	}
}

// series draws one series: its line, its error bars, its marks.
func (l *laid) series(p *pen, s Series) {
	points := l.p.usable(s)
	if s.Line {
		l.line(p, s, points)
	}
	for _, q := range points {
		l.bars(p, s, q)
	}
	if s.Sparse {
		points = l.sparse(s, points)
	} else if !s.Marks {
		return
	}
	radius := markRadius
	if len(points) > 1000 {
		radius = markRadius / 2
	}
	for _, q := range points {
		p.mark(s.Style, l.px(q.X), l.py(q.Y), radius, q.Hollow)
	}
}

// sparse are points of a series at a distance from each other. Those of another style stand at other
// places, so that lines that lie on each other can be told apart.
func (l *laid) sparse(s Series, points []Point) []Point {
	const apart, styles = 64.0, 4
	var list []Point
	next := l.left + apart/styles*(0.5+float64(max(s.Style, 0)%styles))
	for _, q := range points {
		if x := l.px(q.X); x >= next {
			list = append(list, q)
			next += apart * math.Ceil((x-next)/apart+1e-9)
		}
	}
	return list
}

// line draws the lines of a series. A point between two gaps is a dot.
func (l *laid) line(p *pen, s Series, points []Point) {
	for _, part := range unbroken(points) {
		xy := make([][2]float64, len(part))
		for i, q := range part {
			xy[i] = [2]float64{l.px(q.X), l.py(q.Y)}
		}
		if len(part) == 1 && len(points) > 1 && !s.Marks {
			p.mark(s.Style, xy[0][0], xy[0][1], 1.2, false)
		}
		p.polyline(inkOf(s.Style), 1.6, dashesOf(s), thinned(xy))
	}
}

// thinned leaves out points that lie within a tenth of a point of the one before.
func thinned(xy [][2]float64) [][2]float64 {
	return slices.CompactFunc(xy, func(a, b [2]float64) bool {
		return math.Abs(a[0]-b[0]) < 0.1 && math.Abs(a[1]-b[1]) < 0.1
	})
}

// bars draws the error bars of a point, as far as its scales have a place for them.
func (l *laid) bars(p *pen, s Series, q Point) {
	const cap = 2.5
	ink := inkOf(s.Style)
	if q.YErr > 0 && drawing.Finite(q.YErr) {
		x, y1, y2 := l.px(q.X), l.bottom, l.py(q.Y+q.YErr)
		p.line(ink, 1, x-cap, y2, x+cap, y2)
		if l.y.scale.holds(q.Y - q.YErr) {
			y1 = l.py(q.Y - q.YErr)
			p.line(ink, 1, x-cap, y1, x+cap, y1)
		}
		p.line(ink, 1, x, y1, x, y2)
	}
	if q.XErr > 0 && drawing.Finite(q.XErr) {
		y, x1, x2 := l.py(q.Y), l.left, l.px(q.X+q.XErr)
		p.line(ink, 1, x2, y-cap, x2, y+cap)
		if l.x.scale.holds(q.X - q.XErr) {
			x1 = l.px(q.X - q.XErr)
			p.line(ink, 1, x1, y-cap, x1, y+cap)
		}
		p.line(ink, 1, x1, y, x2, y)
	}
}

// cells is the width of a text on a terminal.
func cells(s string) int { return runewidth.StringWidth(s) }
