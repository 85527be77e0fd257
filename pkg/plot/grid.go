package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// A Named is a figure and the name of its file, without an ending.
type Named struct {
	Name   string
	Figure figure.Figure
	Runs   int // that are drawn
	Series int
}

// GridOptions are those of vllm bench sweep plot.
type GridOptions struct {
	Name                         string // begins the names of files
	FigBy, RowBy, ColBy, CurveBy []string
	VarX, VarY                   string
	ScaleX, ScaleY               figure.Scale
	NoErrorBars                  bool
}

// Grid draws one column against another: a figure for each combination of some columns, in it rows
// and columns of panels and in these a curve for each combination of others. Runs with the same x
// on one curve are averaged; error bars are one standard deviation.
func Grid(t *Table, o GridOptions) ([]Named, error) {
	for _, x := range []struct {
		option string
		names  []string
	}{
		{"--var-x", []string{o.VarX}}, {"--var-y", []string{o.VarY}}, {"--fig-by", o.FigBy}, {"--row-by", o.RowBy},
		{"--col-by", o.ColBy}, {"--curve-by", o.CurveBy},
	} {
		if err := t.need(x.option, x.names...); err != nil {
			return nil, err
		}
	}
	var list []Named
	for _, g := range groups(t.Rows, o.FigBy) {
		list = append(list, t.gridOf(g, o))
	}
	return list, nil
}

// group is rows with the same values in some columns.
type group struct {
	values []Value
	name   string // k=v, k=v
	rows   []*Row
}

// groups parts rows by the values of columns, in the order of these values.
func groups(rows []*Row, by []string) []group {
	var list []group
	at := map[string]int{}
	for _, r := range rows {
		var g group
		var words []string
		for _, k := range by {
			v, ok := r.Values[k]
			if !ok {
				v.Text = "n/a"
			}
			g.values = append(g.values, v)
			words = append(words, k+"="+v.Text)
		}
		g.name = strings.Join(words, ", ")
		i, ok := at[g.name]
		if !ok {
			i = len(list)
			at[g.name], list = i, append(list, g)
		}
		list[i].rows = append(list[i].rows, r)
	}
	slices.SortStableFunc(list, func(a, b group) int { return slices.CompareFunc(a.values, b.values, compareValues) })
	return list
}

// compareValues orders numbers by their size, and before texts.
func compareValues(a, b Value) int {
	switch {
	case a.Number != nil && b.Number != nil:
		return cmp.Compare(*a.Number, *b.Number)
	case a.Number != nil:
		return -1
	case b.Number != nil:
		return 1
	}
	return strings.Compare(a.Text, b.Text)
}

func (t *Table) gridOf(g group, o GridOptions) Named {
	n := Named{Name: fileName(cmp.Or(o.Name, "FIGURE"), o.FigBy, g.values)}
	what := nameOf(o.VarY) + " by " + nameOf(o.VarX)
	f := &n.Figure
	f.Title = title(what, g.rows)
	if g.name != "" {
		f.Title += ", " + g.name
	}
	var used []*Row
	most, least := 0, math.MaxInt
	columns := groups(g.rows, o.ColBy)
	styles := curveStyles(g.rows, o.CurveBy)
	n.Series = len(styles)
	for _, row := range groups(g.rows, o.RowBy) {
		var panels []figure.Panel
		for _, col := range columns {
			p := figure.Panel{
				Title: strings.Trim(row.name+"; "+col.name, "; "),
				X:     figure.Axis{Label: labelOf(o.VarX), Scale: o.ScaleX},
				Y:     figure.Axis{Label: labelOf(o.VarY), Scale: o.ScaleY},
			}
			for _, curve := range curves(both(row.rows, col.rows), o.CurveBy) {
				s, rows, lo, hi := curve.average(o)
				s.Style = styles[s.Name]
				p.Series = append(p.Series, s)
				used = append(used, rows...)
				least, most = min(least, lo), max(most, hi)
			}
			panels = append(panels, p)
		}
		f.Panels = append(f.Panels, panels)
	}
	share(f.Panels)
	n.Runs = len(used)
	f.Caption = append([]string{counts(len(used), least, most, !o.NoErrorBars)}, t.remarks(used)...)
	f.Caption = append(f.Caption, without(g.rows, o.VarX, o.VarY)...)
	if len(styles) == 1 {
		unnamed(f.Panels)
	}
	return n
}

// unnamed takes the name from the only curve.
func unnamed(rows [][]figure.Panel) {
	for _, row := range rows {
		for i := range row {
			for j := range row[i].Series {
				if s := &row[i].Series[j]; s.Name == allRuns {
					s.Name = ""
				}
			}
		}
	}
}

const allRuns = "all runs"

// curves are the groups of a panel, apart by kind, too.
func curves(rows []*Row, by []string) []group {
	var list []group
	kinds := distinct(rows, func(r *Row) string { return string(r.Kind) })
	for _, g := range groups(rows, by) {
		g.name = cmp.Or(g.name, allRuns)
		for _, k := range kinds {
			part := group{values: g.values, name: g.name}
			for _, r := range g.rows {
				if string(r.Kind) == k {
					part.rows = append(part.rows, r)
				}
			}
			if len(part.rows) == 0 {
				continue
			}
			if len(kinds) > 1 {
				part.name += part.rows[0].Kind.Suffix()
			}
			list = append(list, part)
		}
	}
	return list
}

// curveStyles gives each curve of a figure a style, the same in all panels.
func curveStyles(rows []*Row, by []string) map[string]int {
	styles := map[string]int{}
	for _, g := range curves(rows, by) {
		styles[g.name] = len(styles)
	}
	return styles
}

// both are the rows that are in both lists.
func both(a, b []*Row) []*Row {
	in := map[*Row]bool{}
	for _, r := range b {
		in[r] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(r *Row) bool { return !in[r] })
}

// average is the mean of y at each x, with the rows that have both and the fewest and the most of
// one point.
func (g group) average(o GridOptions) (s figure.Series, used []*Row, least, most int) {
	s = figure.Series{Name: g.name, Line: true, Marks: true}
	ys, hollow := map[float64][]float64{}, map[float64]bool{}
	for _, r := range g.rows {
		x, y := r.Number(o.VarX), r.Number(o.VarY)
		if x == nil || y == nil || math.IsNaN(*x) || math.IsNaN(*y) {
			continue
		}
		used = append(used, r)
		ys[*x] = append(ys[*x], *y)
		hollow[*x] = hollow[*x] || r.Hollow
	}
	least = math.MaxInt
	for x, list := range ys {
		least, most = min(least, len(list)), max(most, len(list))
		p := figure.Point{X: x, Hollow: hollow[x]}
		var sd float64
		if p.Y, sd = moments(list); !o.NoErrorBars {
			p.YErr = sd
		}
		s.Points = append(s.Points, p)
	}
	slices.SortFunc(s.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
	return s, used, least, most
}

// moments are the mean and the standard deviation of the sample, 0 for a single number.
func moments(xs []float64) (mean, sd float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	if v, err := stats.SD(xs); err == nil {
		sd = v
	}
	return mean, sd
}

// counts says how many runs there are.
func counts(runs, least, most int, bars bool) string {
	text := quantity.Count(runs, "run")
	switch {
	case runs == 0:
		return "No run has both numbers."
	case most == 1:
		return text + ", n = 1 at each point."
	case least == most:
		text += fmt.Sprintf(", n = %d at each point", most)
	default:
		text += fmt.Sprintf(", n = %d to %d at a point", least, most)
	}
	if bars {
		return text + ": mean, with bars of ± 1 standard deviation."
	}
	return text + ": mean."
}

// share gives all panels the same axes.
func share(rows [][]figure.Panel) {
	lo := [2]float64{math.Inf(1), math.Inf(1)}
	hi := [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, row := range rows {
		for _, p := range row {
			for _, s := range p.Series {
				for _, q := range s.Points {
					for i, v := range [2]float64{q.X, q.Y} {
						if math.Abs(v) < 1e100 {
							lo[i], hi[i] = min(lo[i], v), max(hi[i], v)
						}
					}
				}
			}
		}
	}
	for _, row := range rows {
		for i := range row {
			for j, axis := range []*figure.Axis{&row[i].X, &row[i].Y} {
				if lo[j] <= hi[j] {
					axis.Low, axis.High = &lo[j], &hi[j]
				}
			}
		}
	}
}

// fileName is the name of a figure's file, as vLLM makes it.
func fileName(prefix string, by []string, values []Value) string {
	words := []string{prefix}
	for i, k := range by {
		words = append(words, k+"="+values[i].Text)
	}
	name := strings.NewReplacer("/", "_", "..", "__", "\x00", "_").Replace(strings.Join(words, "-"))
	name = strings.Trim(strings.Trim(name, "'"), `"`)
	const most = 200 // bytes; file systems allow 255 with the ending
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// nameOf is what a column is called.
func nameOf(column string) string {
	if f, stat, ok := result.SplitKey(column); ok {
		if stat != "mean" && stat != "median" {
			stat = strings.ToUpper(stat)
		}
		return strings.ToUpper(stat[:1]) + stat[1:] + " " + strings.ToUpper(string(f))
	}
	if m, err := metric.Find(column); err == nil && m.Key == column {
		return m.Name
	}
	return column
}

// labelOf is the label of an axis, with the unit of a metric.
func labelOf(column string) string {
	if m, err := metric.Find(column); err == nil && m.Key == column && m.Unit != "" {
		return nameOf(column) + " (" + m.Unit + ")"
	}
	return nameOf(column)
}

func shortest(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
