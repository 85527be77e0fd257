package chart_test

import (
	"encoding/xml"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/chart"
)

// element is what the tests look at.
type element struct {
	name string
	attr map[string]string
	text string
}

// parse reads a drawing; it must be one well-formed svg element.
func parse(t *testing.T, svg string) []element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	var all []element
	var open []int
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			e := element{name: x.Name.Local, attr: map[string]string{}}
			for _, a := range x.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			open = append(open, len(all))
			all = append(all, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			all[open[len(open)-1]].text += string(x)
		}
	}
	require.Equal(t, "svg", all[0].name)
	return all
}

func named(all []element, name string) []element {
	var out []element
	for _, e := range all {
		if e.name == name {
			out = append(out, e)
		}
	}
	return out
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	nan := math.NaN()
	all := parse(t, chart.Bars{Title: "TTFT", Unit: "ms", Series: []string{"mean", "p99"}, Bars: []chart.Bar{
		{Label: "a", Values: []*float64{new(50.0), new(100.0)}}, {Label: "b", Values: []*float64{nil, &nan}, Mark: true},
	}}.SVG())
	var bars []float64
	for _, r := range named(all, "rect") {
		if r.attr["height"] != "10" { // not the legend
			bars = append(bars, number(t, r.attr["width"]))
		}
	}
	require.Len(t, bars, 2)
	require.InDelta(t, 2*bars[0], bars[1], 0.2)
	missing := 0
	for _, e := range named(all, "text") {
		if e.text == "n/a" {
			missing++
		}
		require.NotContains(t, e.text, "NaN")
	}
	require.Equal(t, 2, missing)
}

func TestPointsLieWhereTheAxesSay(t *testing.T) {
	all := parse(t, chart.Points{Title: "t", XLabel: "x", YLabel: "y", FromZero: true, Line: true,
		Points: []chart.Point{
			{Label: "a", X: 0, Y: 0}, {Label: "b", X: 50, Y: 1000, Mark: true}, {Label: "c", X: 100, Y: 500}, {Label: "d", X: math.Inf(1), Y: 1},
		}}.SVG())
	circles := named(all, "circle")
	require.Len(t, circles, 3)
	x := func(i int) float64 { return number(t, circles[i].attr["cx"]) }
	y := func(i int) float64 { return number(t, circles[i].attr["cy"]) }
	require.InDelta(t, x(2)-x(0), 2*(x(1)-x(0)), 0.3)
	require.InDelta(t, y(0)-y(1), 2*(y(0)-y(2)), 0.3, "y grows upwards")
	require.Len(t, strings.Fields(named(all, "polyline")[0].attr["points"]), 3)
}

// A label is text, whatever it says.
func TestLabelsAreEscaped(t *testing.T) {
	evil := "</text><script>alert(1)</script>\"'&\x00\x1b[31m" + strings.Repeat("x", 100)
	for _, svg := range []string{
		chart.Bars{Title: evil, Unit: evil, Series: []string{evil, evil},
			Bars: []chart.Bar{{Label: evil, Tip: evil, Values: []*float64{new(1.0), nil}}}}.SVG(),
		chart.Points{Title: evil, XLabel: evil, YLabel: evil,
			Points: []chart.Point{{Label: evil, Tip: evil, X: 1, Y: 1, Mark: true}}}.SVG(),
	} {
		all := parse(t, svg)
		require.Empty(t, named(all, "script"))
		require.NotContains(t, svg, "<script")
		for _, e := range all {
			for name := range e.attr {
				require.NotContains(t, name, "on", "no event handler")
			}
		}
	}
}

func TestEmptyCharts(t *testing.T) {
	parse(t, chart.Bars{Series: []string{"x"}}.SVG())
	parse(t, chart.Points{}.SVG())
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 12.3456: "12.35", 1234.5: "1234", 0.7951: "0.7951",
		123456789: "1.235e+08", -3.5: "-3.5"} {
		require.Equal(t, want, chart.Number(v))
	}
}

// Whatever the numbers, the drawing is well-formed and its coordinates are numbers.
func TestExtremes(t *testing.T) {
	values := []float64{0, -1, 1e-300, 1e300, -1e308, 1e308, math.MaxFloat64, 1e16, 1e16 + 2, math.Inf(-1), math.NaN()}
	for _, a := range values {
		for _, b := range values {
			for _, svg := range []string{
				chart.Points{Points: []chart.Point{{X: a, Y: b}, {X: b, Y: a}}}.SVG(),
				chart.Bars{Series: []string{""},
					Bars: []chart.Bar{{Values: []*float64{&a}}, {Values: []*float64{&b}}}}.SVG(),
			} {
				parse(t, svg)
				require.NotContains(t, svg, "NaN")
				require.NotContains(t, svg, "Inf")
			}
		}
	}
}

// A hollow point is an outline, marked or not; the others are as they were.
func TestHollow(t *testing.T) {
	svg := chart.Points{Points: []chart.Point{{X: 1, Y: 1}, {X: 2, Y: 2, Hollow: true},
		{X: 3, Y: 3, Hollow: true, Mark: true}}}.SVG()
	require.Equal(t, 1, strings.Count(svg, `class="s0"`))
	require.Equal(t, 1, strings.Count(svg, `class="s0 hollow"`))
	require.Equal(t, 1, strings.Count(svg, `class="s1 hollow"`))
}

// Each series has a line, and its name in the legend with the look of the line.
func TestLinesOfSeries(t *testing.T) {
	var points []chart.Point
	for i := range 9 {
		for x := range 3 {
			points = append(points,
				chart.Point{X: float64(x), Y: 100 + float64(x) + float64(i), Series: "<tp=" + strconv.Itoa(i), Mark: i == 1 && x == 2})
		}
	}
	c := chart.Points{Title: "t", FromZero: true, Line: true, Points: points}
	all := parse(t, c.SVG())
	lines := named(all, "polyline")
	require.Len(t, lines, 9)
	require.Equal(t, "line l3", lines[3].attr["class"])
	require.Equal(t, "line l0", lines[8].attr["class"])
	legend := parse(t, "<svg>"+c.Legend()+"</svg>")
	require.Len(t, named(legend, "span"), 9)
	require.Equal(t, "line l3", named(legend, "line")[3].attr["class"])
	require.Contains(t, c.Legend(), "</svg> &lt;tp=3</span>")
	for _, e := range named(all, "circle") {
		if e.attr["r"] == "6" {
			require.Equal(t, "s1", e.attr["class"], "a marked point has the colour of its line")
		}
	}
	c.Points = points[:3]
	require.Equal(t, 1, strings.Count(c.SVG(), "<polyline"))
	require.Empty(t, c.Legend(), "one line needs no name")
}

// The x axis has the numbers that it is given, as far as they have room.
func TestGivenTicks(t *testing.T) {
	c := chart.Points{Title: "t", FromZero: true, XTicks: []float64{1, 2, 8, 128}, Points: []chart.Point{{X: 1, Y: 5}, {X: 128, Y: 7}}}
	var said []string
	for _, e := range named(parse(t, c.SVG()), "text") {
		if e.attr["text-anchor"] == "middle" && e.text != "" {
			said = append(said, e.text)
		}
	}
	require.Equal(t, []string{"1", "8", "128"}, said)
}

// A label at the edge of the chart stands within it, and not on the line that leads to its point.
func TestLabelsAtTheEdge(t *testing.T) {
	c := chart.Points{Title: "t", FromZero: true, Line: true, Points: []chart.Point{
		{X: 1, Y: 7800}, {X: 2, Y: 8050, Label: "8050 tok/s", Mark: true, Named: true},
	}}
	for _, e := range named(parse(t, c.SVG()), "text") {
		if e.text == "8050 tok/s" {
			require.Equal(t, "end", e.attr["text-anchor"])
			require.Less(t, number(t, e.attr["y"]), 100.0, "above the point")
			return
		}
	}
	t.Fatal("no label")
}

// A named point has its label beside it, unless there is no room.
func TestNamedPoints(t *testing.T) {
	var points []chart.Point
	for _, x := range []float64{1, 1.001, 2, 4} {
		points = append(points, chart.Point{Label: "n" + strconv.FormatFloat(x, 'g', -1, 64), X: x, Y: x, Named: true})
	}
	points = append(points, chart.Point{Label: "silent", X: 3, Y: 1})
	for range 20 { // no room around this one
		points = append(points, chart.Point{Label: "crowd", X: 2.5, Y: 2.5, Named: true})
	}
	var said []string
	all := parse(t, chart.Points{Title: "t", FromZero: true, Points: points}.SVG())
	for _, e := range named(all, "text") {
		if strings.HasPrefix(e.text, "n") || e.text == "silent" || e.text == "crowd" {
			said = append(said, e.text)
		}
	}
	require.Contains(t, said, "n1")
	require.Contains(t, said, "n2")
	require.Contains(t, said, "n4")
	require.NotContains(t, said, "silent")
	require.Less(t, strings.Count(strings.Join(said, " "), "crowd"), 5)
}
