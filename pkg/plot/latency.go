package plot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
)

// LatencyOptions say what stands on the axes of Latency.
type LatencyOptions struct {
	VarX           string
	VarY           []string // a panel each; nil for the medians of TTFT, ITL and E2EL
	ScaleX, ScaleY figure.Scale
	NoErrorBars    bool
}

// latencies are the usual ones: a panel each, of the first column that a run has.
var latencies = [][]string{{"median_ttft_ms"}, {"median_itl_ms", "median_tpot_ms"}, {"median_e2el_ms"}}

// Latency draws latencies against throughput: a curve through the loads of each configuration.
func Latency(t *Table, o LatencyOptions) (Named, error) {
	if err := t.need("--var-x", o.VarX); err != nil {
		return Named{}, err
	}
	if err := t.need("--var-y", o.VarY...); err != nil {
		return Named{}, err
	}
	if len(o.VarY) == 0 {
		for _, family := range latencies {
			if i := slices.IndexFunc(family, func(c string) bool { return t.columns[c] }); i >= 0 {
				o.VarY = append(o.VarY, family[i])
			}
		}
	}
	if len(o.VarY) == 0 {
		return Named{}, fmt.Errorf("no run has a latency\n\thint: name columns with --var-y\n\tcolumns: %s",
			strings.Join(t.short(), ", "))
	}
	list := configs(t.Rows)
	labels := t.named(list)
	names, of := byCurve(list)
	n := Named{Name: "LATENCY", Runs: len(t.Rows), Series: len(names)}
	n.Figure = figure.Figure{Title: title("Latency against "+lower(nameOf(o.VarX)), t.Rows), Height: 3, Aspect: 6.4 / 3.0,
		SharedX: true}
	if len(o.VarY) == 1 {
		n.Figure.Height, n.Figure.Aspect = 0, 0
	}
	for _, column := range o.VarY {
		p := figure.Panel{
			X: figure.Axis{Label: labelOf(o.VarX), Scale: o.ScaleX, FromZero: true},
			Y: figure.Axis{Label: labelOf(column), Scale: o.ScaleY, FromZero: true},
		}
		for i, name := range names {
			s := figure.Series{Name: curveName(name, len(names)), Style: i, Line: true, Marks: true}
			for _, c := range of[name] {
				x, dx, ok := c.mean(o.VarX)
				y, dy, also := c.mean(column)
				if !ok || !also {
					continue
				}
				if o.NoErrorBars {
					dx, dy = 0, 0
				}
				s.Points = append(s.Points,
					figure.Point{X: x, Y: y, XErr: dx, YErr: dy, Label: c.label, Hollow: c.hollow()})
			}
			p.Series = append(p.Series, s)
		}
		n.Figure.Panels = append(n.Figure.Panels, []figure.Panel{p})
	}
	n.Figure.Caption = slices.Concat([]string{repeats(list)}, labelNote(labels), t.remarks(t.Rows))
	for _, column := range o.VarY {
		n.Figure.Caption = append(n.Figure.Caption, without(t.Rows, o.VarX, column)...)
	}
	return n, nil
}

// lower begins a name within a sentence, unless it is an abbreviation.
func lower(name string) string {
	if len(name) > 1 && name[1] >= 'a' && name[1] <= 'z' {
		return strings.ToLower(name[:1]) + name[1:]
	}
	return name
}
