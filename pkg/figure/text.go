package figure

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/profllm/profllm/pkg/drawing"
)

// Terminal says what a figure is shown on.
type Terminal struct {
	Columns int // 0 for 80
	Colour  bool
}

const (
	narrowest  = 40
	panelLines = 18 // of the data area
)

// Text writes the figure for a terminal: the panels one below the other.
func (f *Figure) Text(w io.Writer, t Terminal) error {
	if t.Columns == 0 {
		t.Columns = 80
	}
	t.Columns = min(max(t.Columns, narrowest), 200)
	var b bytes.Buffer
	t.lines(&b, f.Title)
	unlabelled := 0
	lines := panelLines
	if len(f.Panels)*f.columns() > 3 {
		lines = panelLines / 2
	}
	for _, row := range f.Panels {
		for i := range row {
			g := newGrid(f, &row[i], i, t, lines)
			unlabelled += g.unlabelled
			g.write(&b)
		}
	}
	t.legend(&b)(f.legend())
	for _, note := range f.notes(unlabelled) {
		t.lines(&b, note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// legend writes a legend, a line for each series.
func (t Terminal) legend(b *bytes.Buffer) func(list []named, more int) {
	return func(list []named, more int) {
		for _, n := range list {
			key := string(shapeOf(n.style).full)
			if !n.look.Marks {
				key = string(lineRune(n.look))
			}
			fmt.Fprintf(b, "  %s %s\n", t.paint(n.style, key), t.short(n.name, 4))
		}
		if more > 0 {
			fmt.Fprintf(b, "  and %d more\n", more)
		}
	}
}

// lines writes a text in as many lines as it needs.
func (t Terminal) lines(b *bytes.Buffer, s string) {
	for _, line := range wrap(clean(s), func(s string) bool { return cells(s) <= t.Columns }) {
		fmt.Fprintln(b, line)
	}
}

// short is a text that fits into a line behind some cells.
func (t Terminal) short(s string, behind int) string {
	return runewidth.Truncate(clean(s), t.Columns-behind, "…")
}

// colours of a terminal for the styles, by its 256 colours.
var terminalColours = []int{33, 214, 250, 36, 175, 166, 117}

func (t Terminal) paint(style int, s string) string {
	if !t.Colour {
		return s
	}
	n := 245
	if style >= 0 {
		n = terminalColours[style%len(terminalColours)]
	}
	return fmt.Sprintf("\x1b[38;5;%dm%s\x1b[0m", n, s)
}

// glyph is one cell of the data area.
type glyph struct {
	r      rune // 0: nothing
	style  int
	wide   bool // the cell before has a character of two cells
	strong bool // a mark or a label, which no line covers
}

// grid is a panel in cells.
type grid struct {
	p          *Panel
	t          Terminal
	x, y       ruler
	cols, rows int
	left       int // cells before the data area
	cells      [][]glyph
	unlabelled int
	noX        bool   // a panel below has the numbers and the label of x
	spans      []Span // to list below the panel
}

// newGrid draws the panel of a column of a figure.
func newGrid(f *Figure, p *Panel, column int, t Terminal, rows int) *grid {
	g := &grid{p: p, t: t, rows: rows}
	of := []*Panel{p}
	if f.SharedX {
		of = f.column(column)
	}
	g.noX, g.spans = p != of[len(of)-1], of[0].Spans
	for _, other := range of {
		_, ys := other.extent()
		y := other.Y.rule(ys, max(2, rows/3))
		for _, text := range y.texts() {
			g.left = max(g.left, cells(text))
		}
		if other == p {
			g.y = y
		}
	}
	g.cols = max(t.Columns-g.left-3, 10)
	axis, xs := f.axisX(p, column)
	g.x = axis.rule(xs, max(2, g.cols/12))
	g.cells = make([][]glyph, rows)
	for i := range g.cells {
		g.cells[i] = make([]glyph, g.cols)
	}
	for _, background := range []bool{false, true} { // the first line in a cell stays
		for _, s := range p.Series {
			if s.Line && (s.Style == Grey) == background {
				g.line(s)
			}
		}
	}
	for _, s := range p.Series {
		if s.Marks {
			for _, q := range p.usable(s) {
				mark := shapeOf(s.Style).full
				if q.Hollow {
					mark = shapeOf(s.Style).empty
				}
				x, y := g.at(q)
				g.cells[y][x] = glyph{r: mark, style: s.Style, strong: true}
			}
		}
	}
	for _, s := range p.Series {
		for _, q := range p.usable(s) {
			if q.Label != "" && !g.label(q) {
				g.unlabelled++
			}
		}
	}
	return g
}

func (g *grid) at(q Point) (x, y int) {
	clamp := func(v float64, n int) int { return min(max(int(math.Round(v*float64(n-1))), 0), n-1) }
	return clamp(g.x.frac(q.X), g.cols), g.rows - 1 - clamp(g.y.frac(q.Y), g.rows)
}

// line draws dots between the points of a series.
func (g *grid) line(s Series) {
	points, dot := g.p.usable(s), '·'
	if !s.Marks {
		dot = lineRune(s)
	}
	for i, q := range points {
		if i == 0 || q.Gap {
			x, y := g.at(q)
			if c := &g.cells[y][x]; c.r == 0 {
				*c = glyph{r: dot, style: s.Style}
			}
			continue
		}
		x1, y1 := g.at(points[i-1])
		x2, y2 := g.at(points[i])
		n := max(abs(x2-x1), abs(y2-y1), 1)
		for k := 0; k <= n; k++ {
			x := x1 + int(math.Round(float64(k*(x2-x1))/float64(n)))
			y := y1 + int(math.Round(float64(k*(y2-y1))/float64(n)))
			if c := &g.cells[y][x]; c.r == 0 {
				*c = glyph{r: dot, style: s.Style}
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// label writes the label of a point beside it, or reports that there is no room.
func (g *grid) label(q Point) bool {
	text := cut(q.Label, longest)
	x, y := g.at(q)
	w := cells(text)
	for _, at := range [][2]int{{x + 2, y}, {x - 1 - w, y}, {x - w/2, y - 1}, {x - w/2, y + 1}} {
		if g.free(at[0], at[1], w) {
			g.put(at[0], at[1], text)
			return true
		}
	}
	return false
}

func (g *grid) free(x, y, w int) bool {
	if x < 0 || x+w > g.cols || y < 0 || y >= g.rows {
		return false
	}
	for i := max(x-1, 0); i < min(x+w+1, g.cols); i++ { // a space between two labels
		if c := g.cells[y][i]; c.strong && (c.style == plain || i >= x && i < x+w) {
			return false
		}
	}
	return true
}

// plain is the style of text.
const plain = -2

func (g *grid) put(x, y int, text string) {
	for _, r := range text {
		g.cells[y][x] = glyph{r: r, style: plain, strong: true}
		x++
		if runewidth.RuneWidth(r) == 2 {
			g.cells[y][x] = glyph{style: plain, strong: true, wide: true}
			x++
		}
	}
}

// write writes the panel with its axes.
func (g *grid) write(b *bytes.Buffer) {
	fmt.Fprintln(b)
	g.t.lines(b, g.p.Title)
	g.t.lines(b, g.p.Y.Label)
	ticks := map[int]string{}
	for i, text := range g.y.texts() {
		_, y := g.at(Point{X: g.x.lo, Y: g.y.ticks[i]})
		ticks[y] = text
	}
	for y, row := range g.cells {
		sign := "│"
		if ticks[y] != "" {
			sign = "┤"
		}
		fmt.Fprintf(b, "%*s %s%s\n", g.left, ticks[y], sign, g.row(row))
	}
	fmt.Fprintf(b, "%*s └%s\n", g.left, "", strings.Repeat("─", g.cols))
	if g.noX {
		g.t.legend(b)(g.p.legend())
		return
	}
	fmt.Fprintln(b, strings.TrimRight(g.below(), " "))
	label := g.t.short(g.p.X.Label, g.left+2)
	fmt.Fprintf(b, "%*s%s\n", g.left+2+max(g.cols-cells(label), 0)/2, "", label)
	g.t.legend(b)(g.p.legend())
	g.listSpans(b)
}

func (g *grid) row(cells []glyph) string {
	var b strings.Builder
	for _, c := range cells {
		switch {
		case c.wide:
		case c.r == 0:
			b.WriteByte(' ')
		case c.style == plain:
			b.WriteRune(c.r)
		default:
			b.WriteString(g.t.paint(c.style, string(c.r)))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// below are the ticks of x.
func (g *grid) below() string {
	line := []rune(strings.Repeat(" ", g.left+2+g.cols+8))
	free := 0
	for i, text := range g.x.texts() {
		x, _ := g.at(Point{X: g.x.ticks[i], Y: g.y.lo})
		at := g.left + 2 + x - len(text)/2
		if at <= free && free > 0 || at+len(text) > len(line) {
			continue
		}
		copy(line[max(at, 0):], []rune(text))
		free = at + len(text)
	}
	return string(line)
}

// listSpans lists the named ranges below the panel.
func (g *grid) listSpans(b *bytes.Buffer) {
	for _, s := range g.spans {
		fmt.Fprintf(b, "  %s to %s: %s\n", drawing.Tick(s.From), drawing.Tick(s.To), g.t.short(s.Name, 20))
	}
}
