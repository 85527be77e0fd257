package format

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/stats"
)

const (
	mostCurves = 8  // lines in one chart; more are no longer told apart
	mostNamed  = 24 // points of a chart that have their labels
)

// curves are the throughput and the latency over the setting that says how much load there
// is, or else over the first that has numbers: a line for each combination of the others.
func curves(s *report.Sweep, best map[string]bool) []chart.Points {
	x := abscissa(s)
	if x < 0 {
		return nil
	}
	name := records.Short(s.Points[0].Values)[x].Key
	label := printable.Line(name)
	var out []chart.Points
	for _, m := range []metric.Metric{metric.Throughput, metric.MedianTTFT, metric.MedianTPOT} {
		at := metricPlace(s, m)
		if at < 0 {
			continue
		}
		c := chart.Points{
			Title: m.Name + " by " + label + s.Kind.Suffix(), XLabel: label, YLabel: m.Unit, FromZero: true, Line: true,
			Points: curve(s, x, at, name, best),
		}
		for i, q := range c.Points {
			c.XTicks = append(c.XTicks, q.X)
			if q.Mark {
				c.Points[i].Label = strings.TrimSpace(m.Shown(q.Y) + " " + m.Unit)
			}
		}
		slices.Sort(c.XTicks)
		c.XTicks = slices.Compact(c.XTicks)
		if len(c.Points) > 1 {
			out = append(out, c)
		}
	}
	return out
}

// abscissa is the place of the setting that a curve is drawn over, -1 for none: it has a
// different number at two points or more, and the others give few lines.
func abscissa(s *report.Sweep) int {
	best, rank := -1, len(report.LoadKeys)+1
	for i, v := range s.Points[0].Values {
		of := slices.Index(report.LoadKeys, v.Key)
		if of < 0 {
			of = len(report.LoadKeys)
		}
		if of < rank && drawable(s, i) {
			best, rank = i, of
		}
	}
	return best
}

// drawable reports whether curves can be drawn over the setting at a place.
func drawable(s *report.Sweep, at int) bool {
	numbers, lines := map[float64]bool{}, map[string]bool{}
	for _, p := range s.Points {
		n, err := strconv.ParseFloat(p.Values[at].Value, 64)
		if err != nil {
			return false
		}
		numbers[n] = true
		lines[others(s, p, at)] = true
	}
	return len(numbers) > 1 && len(lines) <= mostCurves && len(lines) < len(s.Points)
}

// others names the settings of a point that do not go with the one at a place.
func others(s *report.Sweep, p report.Point, at int) string {
	var words []string
	short := records.Short(p.Values)
	for _, axis := range s.Axes {
		if slices.Contains(axis, at) {
			continue
		}
		for _, i := range axis {
			words = append(words, short[i].String())
		}
	}
	return strings.Join(words, " ")
}

// curve is the metric in a column over the setting at a place, of that name: of repeats
// their median. Suspect results count only where there is no valid one, and are hollow.
func curve(s *report.Sweep, x, column int, name string, best map[string]bool) []chart.Point {
	type at struct {
		line string
		x    float64
	}
	var order []at
	values, valid, marked := map[at][]float64{}, map[at]bool{}, map[at]bool{}
	for _, doubtful := range []bool{false, true} {
		for _, p := range s.Points {
			n, err := strconv.ParseFloat(p.Values[x].Value, 64)
			v := p.Metrics[column].Number
			k := at{others(s, p, x), n}
			if err != nil || v == nil || !p.Usable || p.Doubtful() != doubtful || doubtful && valid[k] {
				continue
			}
			if values[k] == nil {
				order = append(order, k)
			}
			values[k], valid[k] = append(values[k], *v), !doubtful
			marked[k] = marked[k] || best[p.Dir]
		}
	}
	slices.SortStableFunc(order, func(a, b at) int {
		return cmp.Or(strings.Compare(a.line, b.line), cmp.Compare(a.x, b.x))
	})
	var points []chart.Point
	for _, k := range order {
		y, err := stats.Median(values[k])
		if err != nil {
			continue
		}
		label := strconv.FormatFloat(k.x, 'g', -1, 64)
		tip := printable.Line(strings.TrimSpace(k.line + " " + name + "=" + label))
		points = append(points, chart.Point{Label: label, Tip: tip, Mark: marked[k], Named: marked[k], X: k.x, Y: y, Series: printable.Line(k.line),
			Hollow: !valid[k]})
	}
	return points
}
