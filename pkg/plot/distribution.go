package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/plot/runfiles"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/result"
)

// DistributionOptions say what is drawn.
type DistributionOptions struct {
	Families []result.Family // nil for TTFT, ITL and E2EL
	ScaleX   figure.Scale
}

// mostCurves are drawn in one figure; more are refused, because nobody can tell them apart.
const mostCurves = 12

// Distribution draws how many of the requests of each run were at least as fast: from single requests
// where the client kept them, else through the percentiles that it reported.
func Distribution(t *Table, o DistributionOptions) (Named, error) {
	if len(t.Rows) > mostCurves {
		return Named{}, fmt.Errorf("%d runs: at most %d can be told apart\n\thint: choose some with --filter-by, "+
			"such as %s", len(t.Rows), mostCurves, example(t))
	}
	if o.Families == nil {
		o.Families = []result.Family{result.TTFT, result.ITL, result.E2EL}
	}
	n := Named{Name: "DISTRIBUTION", Runs: len(t.Rows), Series: len(t.Rows)}
	n.Figure = figure.Figure{Title: title("Latency of requests", t.Rows), Height: 3, Aspect: 6.4 / 3}
	single, percentiles := map[*Row]bool{}, map[*Row]bool{}
	raw := map[*Row]map[result.Family][]float64{}
	for _, r := range t.Rows {
		if r.Run != nil {
			raw[r] = runfiles.Latencies(r.Run)
		}
	}
	names, zeros := t.titles(), false
	for _, family := range o.Families {
		p := figure.Panel{
			X: figure.Axis{Label: strings.ToUpper(string(family)) + " (ms)", Scale: o.ScaleX, Tight: true},
			Y: figure.Axis{Label: "Requests at most that slow (%)", FromZero: true, High: new(100.0)},
		}
		if family == result.ITL {
			p.Y.Label = "Gaps between tokens at most that long (%)"
		}
		for i, r := range t.Rows {
			s := figure.Series{Name: names[i], Style: i, Line: true}
			if list := raw[r][family]; len(list) > 0 {
				s.Points, single[r] = empirical(list), true
			} else if s.Points = reported(r, family); len(s.Points) > 0 {
				s.Marks, percentiles[r] = true, true
			}
			if o.ScaleX == figure.Log {
				n := len(s.Points)
				s.Points = slices.DeleteFunc(s.Points, func(p figure.Point) bool { return p.X <= 0 })
				zeros = zeros || len(s.Points) < n
			}
			if len(s.Points) > 0 {
				p.Series = append(p.Series, s)
			}
		}
		if len(p.Series) > 0 {
			n.Figure.Panels = append(n.Figure.Panels, []figure.Panel{p})
		}
	}
	if len(n.Figure.Panels) == 0 {
		return Named{}, fmt.Errorf("no run has a distribution of %v", o.Families)
	}
	n.Figure.Caption = append([]string{origin(len(t.Rows), len(single), len(percentiles))}, t.remarks(t.Rows)...)
	if zeros {
		n.Figure.Caption = append(n.Figure.Caption,
			"Times of 0 lie left of the axis, which is logarithmic: several tokens came at once.")
	}
	return n, nil
}

// origin says what the curves are made of.
func origin(runs, single, percentiles int) string {
	text := quantity.Count(runs, "run") + ". "
	switch {
	case percentiles == 0:
		return text + "From single requests."
	case single == 0:
		return text + "Marks are the percentiles that the client reported, joined by straight lines; " +
			"single requests were not kept."
	}
	return text + "Lines without marks are from single requests; marks are reported percentiles, " +
		"joined by straight lines."
}

// example is a condition that chooses fewer runs.
func example(t *Table) string {
	for _, k := range slices.Concat(loadKeys, []string{"test", "repeat"}) {
		values := distinct(t.Rows, func(r *Row) string { return r.Values[k].Text })
		if len(values) > 1 {
			return k + "==" + values[0]
		}
	}
	return "repeat==1"
}

// titles name the rows, no two alike.
func (t *Table) titles() []string {
	count := map[string]int{}
	out := make([]string, len(t.Rows))
	for i, r := range t.Rows {
		out[i] = cmp.Or(r.Title, r.test)
		if n := r.Values["run_number"]; r.Run == nil && n.Text != "" {
			out[i] += " run=" + n.Text
		}
		if count[out[i]]++; count[out[i]] > 1 {
			out[i] += fmt.Sprintf(" (%d)", count[out[i]])
		}
	}
	return out
}

// mostSteps bounds the points of a curve: more than a screen has pixels show nothing.
const mostSteps = 800

// empirical are the steps of the distribution of ascending numbers, in %.
func empirical(sorted []float64) []figure.Point {
	n := len(sorted)
	points := []figure.Point{{X: sorted[0], Y: 0}}
	every := max(1, n/mostSteps)
	last := 0.0
	for i := every - 1; ; i += every {
		i = min(i, n-1)
		y := float64(i+1) / float64(n) * 100
		points = append(points, figure.Point{X: sorted[i], Y: last}, figure.Point{X: sorted[i], Y: y})
		if last = y; i == n-1 {
			return points
		}
	}
}

// reported are the percentiles of a family that a row has, ascending.
func reported(r *Row, family result.Family) []figure.Point {
	ranks := map[float64]float64{}
	for k, v := range r.Values {
		f, stat, ok := result.SplitKey(k)
		if !ok || f != family || v.Number == nil || math.IsNaN(*v.Number) || math.IsInf(*v.Number, 0) {
			continue
		}
		var rank float64
		switch {
		case stat == "median":
			rank = 50
		case stat == "min":
			rank = 0
		case stat == "max":
			rank = 100
		default:
			if n, err := fmt.Sscanf(stat, "p%g", &rank); n != 1 || err != nil {
				continue
			}
		}
		ranks[rank] = *v.Number
	}
	var points []figure.Point
	for rank, v := range ranks {
		points = append(points, figure.Point{X: v, Y: rank})
	}
	slices.SortFunc(points, func(a, b figure.Point) int { return cmp.Compare(a.Y, b.Y) })
	return points
}
