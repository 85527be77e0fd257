package format

import (
	"cmp"
	"math"
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
	numbers, lines, points := map[float64]bool{}, map[string]bool{}, 0
	prompts := prompts(s, at)
	for _, p := range s.Points {
		n, ok := numberAt(p, at)
		switch {
		case ok:
			points++
			numbers[n], lines[others(s, p, at, prompts)] = true, true
		case !s.OfPhases: // phases of other kinds, such as those without a limit, are not in the curve
			return false
		}
	}
	return len(numbers) > 1 && len(lines) <= mostCurves && len(lines) < points
}

// numberAt is the finite number that a point has at a place.
func numberAt(p report.Point, at int) (float64, bool) {
	n, err := strconv.ParseFloat(p.Values[at].Value, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// prompts is the place of the number of prompts, if that follows from the other settings, as where
// a larger load has more of them; otherwise -1.
func prompts(s *report.Sweep, at int) int {
	i := slices.IndexFunc(s.Points[0].Values, func(v records.Setting) bool { return v.Key == "bench_cmd_args.num_prompts" })
	if i < 0 || i == at {
		return -1
	}
	of := map[string]string{}
	for _, p := range s.Points {
		k := p.Values[at].Value + "\x00" + others(s, p, at, i)
		if n, ok := of[k]; ok && n != p.Values[i].Value {
			return -1
		}
		of[k] = p.Values[i].Value
	}
	return i
}

// others names the settings of a point that do not go with the one at a place, but for one.
func others(s *report.Sweep, p report.Point, at, without int) string {
	var words []string
	short := records.Short(p.Values)
	for _, axis := range s.Axes {
		if slices.Contains(axis, at) {
			continue
		}
		for _, i := range axis {
			if i != without {
				words = append(words, short[i].String())
			}
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
	prompts := prompts(s, x)
	for _, doubtful := range []bool{false, true} {
		for _, p := range s.Points {
			n, ok := numberAt(p, x)
			v := p.Metrics[column].Number
			k := at{others(s, p, x, prompts), n}
			if !ok || v == nil || !p.Usable || p.Doubtful() != doubtful || doubtful && valid[k] {
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
		points = append(points, chart.Point{Label: label, Tip: tip, Mark: marked[k], Named: marked[k], X: k.x, Y: y,
			Series: printable.Line(k.line), Hollow: !valid[k]})
	}
	return points
}
