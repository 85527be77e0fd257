package figure_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/tier"
)

var update = flag.Bool("update", false, "rewrite golden files")

// figures are one of each form.
func figures() map[string]figure.Figure {
	var curves []figure.Series
	for i, name := range []string{"tp=1", "tp=2", "tp=4"} {
		s := figure.Series{Name: name, Style: i, Line: true, Marks: true}
		for k := range 6 {
			c := math.Pow(2, float64(k))
			s.Points = append(s.Points, figure.Point{
				X: 300 * float64(i+1) * c / (c + 14), Y: 20 + 3*c*float64(4-i), YErr: 8, XErr: float64(k),
				Label: fmt.Sprint(c), Hollow: k == 4,
			})
		}
		curves = append(curves, s)
	}
	axes := func(scale figure.Scale) figure.Panel {
		return figure.Panel{
			X:      figure.Axis{Label: "Throughput (tok/s)", Scale: scale},
			Y:      figure.Axis{Label: "Median TTFT (ms)", Scale: scale, FromZero: true},
			Series: curves,
		}
	}
	load := figure.Series{Name: "running", Line: true, Points: []figure.Point{{X: 0, Y: 0}, {X: 5, Y: 8}, {X: 10, Y: 8}}}
	time := figure.Panel{
		Title: "Engines", X: figure.Axis{Label: "Time (s)"}, Y: figure.Axis{Label: "Requests", FromZero: true},
		Series: []figure.Series{load}, Spans: []figure.Span{{Name: "warm-up", From: 0, To: 4}, {Name: "bench", From: 4, To: 10}},
	}
	holes := figure.Series{Name: "waiting", Style: 1, Line: true, Dashed: true, Points: []figure.Point{
		{X: 2, Y: 0}, {X: 3, Y: 400}, {X: 6, Y: 20, Gap: true}, {X: 9, Y: 100, Gap: true}, {X: 12, Y: 2000},
	}}
	above, below := time, time
	above.OwnLegend, below.OwnLegend = true, true
	below.Series, below.Spans = append(slices.Clone(time.Series), holes), nil
	row := []figure.Panel{axes(figure.Linear), axes(figure.Linear)}
	row[0].Title, row[1].Title = "a=1", "a=2"
	return map[string]figure.Figure{
		"curves": {Title: "TTFT against throughput", Caption: []string{"n = 3 at each point."},
			Panels: [][]figure.Panel{{axes(figure.Linear)}}},
		"log":    {Title: "Logarithmic", Panels: [][]figure.Panel{{axes(figure.Log)}}},
		"sqrt":   {Title: "Square root", Panels: [][]figure.Panel{{axes(figure.Sqrt)}}},
		"grid":   {Title: "A grid of panels", Panels: [][]figure.Panel{row, row}, Height: 2.5},
		"time":   {Title: "A run over time", Panels: [][]figure.Panel{{time}, {time}}, Height: 2, Aspect: 3},
		"shared": {Title: "One axis of time", Panels: [][]figure.Panel{{above}, {below}}, Height: 2, Aspect: 3, SharedX: true},
	}
}

// The bytes of a figure are always the same.
func TestGolden(t *testing.T) {
	for name, f := range figures() {
		var svg, text bytes.Buffer
		require.NoError(t, f.SVG(&svg))
		require.NoError(t, f.Text(&text, figure.Terminal{}))
		for ext, have := range map[string][]byte{".svg": svg.Bytes(), ".txt": text.Bytes()} {
			file := filepath.Join("testdata", name+ext)
			if *update {
				require.NoError(t, os.WriteFile(file, have, 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(have), file)
		}
		var one, two bytes.Buffer
		require.NoError(t, f.PNG(&one, 60))
		require.NoError(t, f.PNG(&two, 60))
		require.Equal(t, one.Bytes(), two.Bytes(), name)
	}
}

// shown parses an SVG and returns its texts.
func shown(t *testing.T, svg []byte) []string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	var texts []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			require.NotContains(t, []string{"script", "a", "foreignObject", "image"}, x.Name.Local)
			for _, a := range x.Attr {
				require.NotContains(t, a.Name.Local, "on")
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(x)); s != "" {
				texts = append(texts, s)
			}
		}
	}
}

// all writes a figure in every form.
func all(t *testing.T, f figure.Figure) (svg []byte, text string) {
	t.Helper()
	var b, p, x bytes.Buffer
	require.NoError(t, f.SVG(&b))
	require.NoError(t, f.PNG(&p, 40))
	_, err := png.Decode(&p)
	require.NoError(t, err)
	require.NoError(t, f.Text(&x, figure.Terminal{Columns: 60}))
	require.True(t, utf8.Valid(x.Bytes()))
	shown(t, b.Bytes())
	return b.Bytes(), x.String()
}

// Text is text, whatever it says and however long it is.
func TestHostileText(t *testing.T) {
	tier.Alone(t)
	for _, evil := range []string{
		"</text><script>alert(1)</script>\"'&\x00\x1b[31m\u202e",
		strings.Repeat("averylongword", 60), strings.Repeat("many words ", 200), "模型 推理 吞吐量 " + strings.Repeat("令牌", 40),
		"\xff\xfe broken", "\uffff\ufffe", "", " ", "😀👩‍👩‍👧 ☃", `style="font-family:Liberation Sans;font-variant:normal;`,
	} {
		f := figure.Figure{Title: evil, Caption: []string{evil}, Height: 2, Panels: [][]figure.Panel{{{
			Title: evil, X: figure.Axis{Label: evil}, Y: figure.Axis{Label: evil},
			Spans:  []figure.Span{{Name: evil, From: 0, To: 2}},
			Series: []figure.Series{{Name: evil, Line: true, Marks: true, Points: []figure.Point{{X: 1, Y: 1, Label: evil}, {X: 2, Y: 3}}}},
		}}}}
		svg, text := all(t, f)
		require.NotContains(t, string(svg), "<script")
		for _, obeyed := range []string{"\x1b", "\x00", "\u202e"} {
			require.NotContains(t, text, obeyed)
			require.NotContains(t, string(svg), obeyed)
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "  ") { // names of the legend are whole
				require.Less(t, len([]rune(line)), 600)
			}
		}
	}
}

// Whatever the numbers, every form can be drawn, and what has no place is counted.
func TestExtremes(t *testing.T) {
	values := []float64{0, -1, 1e-300, 1e300, 1e16, 1e16 + 2, 1e-5, 123456.5, 123456.6, math.Inf(-1), math.NaN()}
	for _, scale := range figure.Scales {
		for _, a := range values {
			for _, b := range values {
				f := figure.Figure{Height: 2, Panels: [][]figure.Panel{{{
					X: figure.Axis{Scale: scale}, Y: figure.Axis{Scale: scale}, Spans: []figure.Span{{From: a, To: b}},
					Series: []figure.Series{{Line: true, Marks: true, Points: []figure.Point{{X: a, Y: b, YErr: a}, {X: b, Y: a, XErr: b}}}},
				}}}}
				var svg, text bytes.Buffer
				require.NoError(t, f.SVG(&svg))
				shown(t, svg.Bytes())
				require.NoError(t, f.Text(&text, figure.Terminal{}))
				if math.IsNaN(a) {
					require.Contains(t, text.String(), "2 points are not drawn")
				}
			}
		}
	}
	all(t, figure.Figure{})
	all(t, figure.Figure{Panels: [][]figure.Panel{{{}}, {{}, {}}}})
}

// The font of a PNG has no Chinese: such texts are named, each once.
func TestBoxed(t *testing.T) {
	f := figures()["curves"]
	list, err := f.Boxed()
	require.NoError(t, err)
	require.Empty(t, list)
	f.Caption = []string{"ωΩ, Привет, ±, ≤, é – …"}
	f.Panels[0][0].Series[0].Name, f.Panels[0][0].Series[1].Name = "推理 tp=1", "推理 tp=1"
	f.Panels[0][0].Series[2].Points[0].Label = "令牌"
	list, err = f.Boxed()
	require.NoError(t, err)
	require.Equal(t, []string{"推理 tp=1", "令牌"}, list)
}

// Ten thousand points and hundreds of series are drawn; labels and names that have no room are
// counted.
func TestMany(t *testing.T) {
	one := figure.Series{Name: "many", Marks: true}
	for i := range 10_000 {
		one.Points = append(one.Points, figure.Point{X: float64(i % 173), Y: float64(i % 211), Label: fmt.Sprint(i)})
	}
	f := figure.Figure{Panels: [][]figure.Panel{{{Series: []figure.Series{one}}}}}
	for i := range 300 {
		p := &f.Panels[0][0]
		p.Series = append(p.Series, figure.Series{Name: fmt.Sprint("series ", i), Style: i, Line: true,
			Points: []figure.Point{{X: 0, Y: float64(i)}, {X: 100, Y: 200}}})
	}
	svg, text := all(t, f)
	require.Contains(t, text, "and 277 more")
	require.Contains(t, text, "No room for")
	require.Contains(t, strings.Join(shown(t, svg), " "), "and 277 more")
	require.Less(t, len(svg), 5<<20)
}

func TestRefusals(t *testing.T) {
	f := figure.Figure{Height: 50, Panels: [][]figure.Panel{{{}}, {{}}}}
	require.ErrorContains(t, f.PNG(io.Discard, 300), "million pixels")
	require.ErrorContains(t, f.PNG(io.Discard, 0), "pixels")
	f.Height = math.NaN()
	require.ErrorContains(t, f.SVG(io.Discard), "want 1.2 to 60")
	_, err := figure.ParseScale("logit")
	require.ErrorContains(t, err, "linear, log, sqrt")
}

// Axes of every scale cover their numbers with a few round ticks.
func TestTerminalWidth(t *testing.T) {
	for name, f := range figures() {
		for _, columns := range []int{40, 80, 150} {
			var b bytes.Buffer
			require.NoError(t, f.Text(&b, figure.Terminal{Columns: columns}))
			for line := range strings.Lines(b.String()) {
				require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), columns, "%s: %q", name, line)
			}
		}
	}
	var b bytes.Buffer
	f := figures()["curves"]
	require.NoError(t, f.Text(&b, figure.Terminal{Colour: true}))
	require.Contains(t, b.String(), "\x1b[38;5;33m●\x1b[0m")
	require.Contains(t, b.String(), "○", "a hollow point")
}
