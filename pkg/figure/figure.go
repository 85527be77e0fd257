// Package figure draws figures of panels with curves and points, as PNG, as SVG and as text on a
// terminal. It knows nothing of results: whoever asks for a figure says what stands where.
//
// Every form shows the same: marks that differ in shape and in lightness, so that neither colour
// blindness nor a printer loses a series, a legend below the panels, and a caption. A point that
// is not finite, or that its scale has no place for, is left out and counted in the caption.
// The bytes of PNG and SVG are the same for the same figure.
//
//	f := figure.Figure{Title: "TTFT", Panels: [][]figure.Panel{{panel}}}
//	err := f.SVG(w)
package figure

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/drawing"
	"github.com/profllm/profllm/pkg/printable"
)

// Figure is rows of panels below a title and above a legend and a caption.
type Figure struct {
	Title   string
	Caption []string  // a paragraph each
	Panels  [][]Panel // rows
	// Height of a panel in inches, with its labels; 0 for DefaultHeight.
	Height float64
	Aspect float64 // width of a panel over its height; 0 for 1
	// SharedX gives the panels of a column one x axis. Its numbers and its label stand below the
	// lowest panel only, and the names of spans above the highest.
	SharedX bool
}

// DefaultHeight is that of vllm bench sweep plot, in inches.
const DefaultHeight = 6.4

// Panel is one pair of axes.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
	Spans  []Span
	// OwnLegend lists the series of this panel in its heading, and not below the figure.
	OwnLegend bool
}

// Axis is one dimension. Its label names the unit.
type Axis struct {
	Label    string
	Scale    Scale
	FromZero bool // the axis begins at 0, if its scale has a 0
	Tight    bool // the axis ends where the numbers do, and not at the next tick
	// Low and High are kept within the axis, whatever the points are; nil for none.
	Low, High *float64
}

// Span is a range of X with a name, behind the data.
type Span struct {
	Name     string
	From, To float64
}

// Series is points of one kind.
type Series struct {
	Name string // in the legend; series of one name share an entry; "" for none
	// Style chooses colour, mark and dashes: series of one style look alike. See Grey.
	Style  int
	Line   bool // through the points, in their order
	Dashed bool // whatever the style says
	Marks  bool
	Sparse bool // marks at some of the points of a long line
	Points []Point
}

// Grey is the style of what stands in the background.
const Grey = -1

// Point is one point.
type Point struct {
	X, Y       float64
	XErr, YErr float64 // half the length of an error bar; 0 for none
	Label      string  // beside the point, where there is room
	Hollow     bool    // an outline: the value stands, and what it shows is in doubt
	Gap        bool    // data is missing before the point: no line leads to it
}

// usable are the points of a series that a panel has a place for. A gap before a point that has
// none is one before the next.
func (p *Panel) usable(s Series) []Point {
	out := make([]Point, 0, len(s.Points))
	gap := false
	for _, q := range s.Points {
		gap = gap || q.Gap
		if p.X.Scale.holds(q.X) && p.Y.Scale.holds(q.Y) {
			q.Gap, gap = gap, false
			out = append(out, q)
		}
	}
	return out
}

// unbroken divides points where data is missing between them.
func unbroken(points []Point) [][]Point {
	var list [][]Point
	for i, q := range points {
		if i == 0 || q.Gap {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], q)
	}
	return list
}

// lost counts the points that are not drawn.
func (f *Figure) lost() (n int) {
	for _, row := range f.Panels {
		for i := range row {
			for _, s := range row[i].Series {
				n += len(s.Points) - len(row[i].usable(s))
			}
		}
	}
	return n
}

// named is a series of the legend.
type named struct {
	name  string
	style int
	look  Series
}

// mostNames is how many series a legend lists.
const mostNames = 24

// legend lists the series of panels without a legend of their own.
func (f *Figure) legend() (list []named, more int) {
	var series []Series
	for _, row := range f.Panels {
		for _, p := range row {
			if !p.OwnLegend {
				series = append(series, p.Series...)
			}
		}
	}
	return listed(series)
}

// legend lists the series of a panel that has its own legend.
func (p *Panel) legend() (list []named, more int) {
	if !p.OwnLegend {
		return nil, 0
	}
	return listed(p.Series)
}

// listed are the series that have a name, each once, and how many more there are.
func listed(series []Series) (list []named, more int) {
	seen := map[string]bool{}
	for _, s := range series {
		if s.Name == "" || seen[s.Name] {
			continue
		}
		if seen[s.Name] = true; len(list) == mostNames {
			more++
			continue
		}
		list = append(list, named{name: s.Name, style: s.Style, look: s})
	}
	return list, more
}

// column are the panels one below the other, in their order.
func (f *Figure) column(i int) []*Panel {
	var list []*Panel
	for _, row := range f.Panels {
		if i < len(row) {
			list = append(list, &row[i])
		}
	}
	return list
}

// axisX is the x axis of a panel with the numbers that the axis must show: those of its column, if
// the panels share one.
func (f *Figure) axisX(p *Panel, column int) (Axis, []float64) {
	if !f.SharedX {
		xs, _ := p.extent()
		return p.X, xs
	}
	list := f.column(column)
	var xs []float64
	for _, other := range list {
		more, _ := other.extent()
		xs = append(xs, more...)
	}
	return list[len(list)-1].X, xs
}

// notes are the caption with what the drawing itself left out.
func (f *Figure) notes(unlabelled int) []string {
	list := slices.Clone(f.Caption)
	if n := f.lost(); n > 0 {
		list = append(list, fmt.Sprintf("%s not drawn: not a finite number, or not above 0 on a log scale.",
			points(n)))
	}
	if unlabelled > 0 {
		list = append(list, fmt.Sprintf("No room for %d of the labels.", unlabelled))
	}
	return list
}

func points(n int) string {
	if n == 1 {
		return "1 point is"
	}
	return fmt.Sprintf("%d points are", n)
}

// columns is the width of the widest row, at least 1.
func (f *Figure) columns() int {
	n := 1
	for _, row := range f.Panels {
		n = max(n, len(row))
	}
	return n
}

// clean makes text of unknown origin a single line that XML and a terminal can hold.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, printable.Line(s))
}

// cut shortens a text to a number of characters.
func cut(s string, most int) string { return drawing.Cut(clean(s), most) }
