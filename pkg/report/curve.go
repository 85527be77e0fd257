package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/stats"
)

const mostCurves = 8 // lines in one chart; more are no longer told apart

// loadKeys are the settings that a curve is drawn over first: how much load there is.
var loadKeys = []string{"bench_cmd_args.max_concurrency", "bench_cmd_args.request_rate"}

// curves are the throughput and the latency over the setting that says how much load there
// is, or else over the first that has numbers: a line for each combination of the others.
func (s *Sweep) curves() []chart.Points {
	x := s.abscissa()
	if x < 0 {
		return nil
	}
	name := shortened(s.Points[0].Values)[x].Key
	var out []chart.Points
	for _, m := range []Metric{throughput, medianTTFT, medianTPOT} {
		at := slices.IndexFunc(s.Metrics, func(have Metric) bool { return have.Key == m.Key })
		if at < 0 {
			continue
		}
		c := chart.Points{Title: m.Name + " by " + printable.Line(name) + kindSuffix(s.Kind), XLabel: printable.Line(name), YLabel: m.Unit, FromZero: true, Line: true}
		if c.Points = s.curve(x, at); len(c.Points) > 1 {
			out = append(out, c)
		}
	}
	return out
}

// abscissa is the place of the setting that a curve is drawn over, -1 for none: it has a
// different number at two points or more, and the others give few lines.
func (s *Sweep) abscissa() int {
	best, rank := -1, len(loadKeys)+1
	for i, v := range s.Points[0].Values {
		numbers := map[float64]bool{}
		lines := map[string]bool{}
		for _, p := range s.Points {
			n, err := strconv.ParseFloat(p.Values[i].Value, 64)
			if err != nil {
				numbers = nil
				break
			}
			numbers[n] = true
			lines[s.others(p, i)] = true
		}
		of := slices.Index(loadKeys, v.Key)
		if of < 0 {
			of = len(loadKeys)
		}
		if len(numbers) > 1 && len(lines) <= mostCurves && len(lines) < len(s.Points) && of < rank {
			best, rank = i, of
		}
	}
	return best
}

// others names the settings of a point that do not go with the one at a place.
func (s *Sweep) others(p Point, at int) string {
	var words []string
	short := shortened(p.Values)
	for _, axis := range s.axes {
		if slices.Contains(axis, at) {
			continue
		}
		for _, i := range axis {
			words = append(words, short[i].String())
		}
	}
	return strings.Join(words, " ")
}

// curve is the metric in a column over the setting at a place: of repeats their median,
// valid results only.
func (s *Sweep) curve(x, metric int) []chart.Point {
	type at struct {
		line string
		x    float64
	}
	var order []at
	values := map[at][]float64{}
	for _, p := range s.Points {
		n, err := strconv.ParseFloat(p.Values[x].Value, 64)
		v := p.Metrics[metric].Number
		if err != nil || v == nil || !p.Usable {
			continue
		}
		k := at{s.others(p, x), n}
		if values[k] == nil {
			order = append(order, k)
		}
		values[k] = append(values[k], *v)
	}
	slices.SortStableFunc(order, func(a, b at) int { return cmp.Or(strings.Compare(a.line, b.line), cmp.Compare(a.x, b.x)) })
	name := shortened(s.Points[0].Values)[x].Key
	var points []chart.Point
	for _, k := range order {
		y, err := stats.Median(values[k])
		if err != nil {
			continue
		}
		tip := strings.TrimSpace(k.line + " " + name + "=" + strconv.FormatFloat(k.x, 'g', -1, 64))
		points = append(points, chart.Point{Label: printable.Line(tip), Tip: printable.Line(tip), X: k.x, Y: y, Series: printable.Line(k.line)})
	}
	return points
}
