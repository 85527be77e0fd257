package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

func sweepBlock(s *report.Sweep, limits []report.Limit) block {
	kind := "Sweep"
	if s.OfPhases {
		kind = "Phases"
	}
	b := block{heading: kind + ": " + printable.Line(s.Name) + s.Kind.Suffix(), group: printable.Line(s.Group)}
	t := table{header: []string{pointWord(s), "verdict"}}
	for _, v := range records.Short(s.Points[0].Values) {
		t.header = append(t.header, printable.Line(v.Key))
	}
	for _, m := range s.Metrics {
		t.header = append(t.header, title(m))
	}
	b.say("%s", bestLine(s))
	if !s.OfPhases {
		b.lines = append(b.lines, costLines(s.Cost)...)
	}
	b.lines = append(b.lines, roomLines(s, limits)...)
	b.lines = append(b.lines, unusable(s)...)
	for _, p := range s.Points {
		t.row(s.Group, pointCells(s, p)...)
	}
	b.tables = []table{t}
	b.charts = sweepCharts(s)
	return b
}

// roomLines say how much load each combination of the other settings takes within the limits.
func roomLines(s *report.Sweep, limits []report.Limit) []string {
	conditions := make([]string, len(limits))
	for i, l := range limits {
		conditions[i] = l.String()
	}
	var lines []string
	for i := range s.Rooms {
		r := &s.Rooms[i]
		_, key, _ := strings.Cut(r.Key, ".")
		with := ""
		if len(r.Others) > 0 {
			with = " with " + records.JoinShort(r.Others)
		}
		lines = append(lines, printable.Line(fmt.Sprintf("highest %s within %s%s%s: %s", key,
			strings.Join(conditions, ", "), s.Kind.Suffix(), with, r.String())))
		if r.Edge != nil {
			lines = append(lines, printable.Line(fmt.Sprintf("limit of %s%s%s: %s", key, s.Kind.Suffix(), with, r.Edge)))
		}
	}
	return lines
}

// unusable says why points are not usable; points with the same reason share a line.
func unusable(s *report.Sweep) []string {
	type why struct {
		verdict report.Verdict
		reason  string
	}
	var list []why
	points := map[why][]report.Point{}
	for _, p := range s.Points {
		if p.Usable {
			continue
		}
		w := why{p.Verdict, records.WithoutPoint(p.Reason, strconv.Itoa(p.Step))}
		if points[w] == nil {
			list = append(list, w)
		}
		points[w] = append(points[w], p)
	}
	lines := make([]string, len(list))
	for i, w := range list {
		name, reason := pointName(s, points[w][0]), points[w][0].Reason
		if len(points[w]) > 1 {
			name, reason = pointNames(s, points[w]), w.reason
		}
		lines[i] = printable.Line(fmt.Sprintf("%s, %s: %s", name, w.verdict, reason))
	}
	return lines
}

// pointNames are what points are called together: steps 3-7, or phases cold, hot.
func pointNames(s *report.Sweep, points []report.Point) string {
	var steps []int
	var places []string
	for _, p := range points {
		steps, places = append(steps, p.Step), append(places, place(s, p))
		if s.OfPhases || p.Repeat > 0 {
			steps = nil
		}
	}
	if len(steps) == len(points) {
		return pointWord(s) + "s " + quantity.Ranges(steps)
	}
	return pointWord(s) + "s " + strings.Join(places, ", ")
}

// pointCells show a point; the numbers of one that is not usable are not shown.
func pointCells(s *report.Sweep, p report.Point) []cell {
	how, name := word, num
	if !p.Usable {
		how = reject
	}
	if s.OfPhases {
		name = word
	}
	cells := []cell{{place(s, p), name}, {string(p.Verdict), how}}
	for _, v := range p.Values {
		cells = append(cells, cell{text: cut(v.Value)})
	}
	for i, m := range s.Metrics {
		switch c := value(p.Metrics[i], m.Digits); {
		case !p.Usable:
			cells = append(cells, cell{"-", num})
		case p.BestOf[i]:
			cells = append(cells, cell{c.text + " *", best})
		default:
			cells = append(cells, c)
		}
	}
	return cells
}

// pointWord is what a point of the sweep is called.
func pointWord(s *report.Sweep) string {
	if s.OfPhases {
		return "phase"
	}
	return "step"
}

// pointName is what a point is called, and its place.
func pointName(s *report.Sweep, p report.Point) string { return pointWord(s) + " " + place(s, p) }

// place is the step or the phase, with the repeat of one that was measured several
// times.
func place(s *report.Sweep, p report.Point) string {
	name := strconv.Itoa(p.Step)
	if s.OfPhases {
		name = p.Phase
	}
	if p.Repeat == 0 {
		return name
	}
	return fmt.Sprintf("%s repeat=%d", name, p.Repeat)
}

// bestLine names the best point.
func bestLine(s *report.Sweep) string {
	if s.Best == nil {
		of := "point"
		if s.OfPhases {
			of = "phase"
		}
		return fmt.Sprintf("no best %s: no valid %s has %s", of, of, s.Objective.Key)
	}
	p := s.Points[*s.Best]
	once := ""
	if p.Repeat > 0 {
		once = "; each repeat counts separately here, so the best of many is partly luck"
	}
	return fmt.Sprintf("best by %s (%s is better)%s: %s, %s; * marks the best of each metric, valid results only%s",
		s.Objective.Key, s.Objective.Better, s.Kind.Suffix(), pointName(s, p), records.JoinShort(p.Values), once)
}

// costLines say what the sweep took.
func costLines(c report.Cost) []string {
	lines := []string{fmt.Sprintf("%d of %d points tried; efficiency %.2f", c.Rows, c.Space, c.Efficiency)}
	if c.Average == nil {
		return append(lines, "no durations are known")
	}
	known := ""
	if c.Timed < c.Rows {
		known = fmt.Sprintf(" (durations of %d points are known)", c.Timed)
	}
	lines = append(lines, fmt.Sprintf("average step %.1f s, observed %.1f s, projected %.1f s, saved %.4f h%s",
		*c.Average, *c.Observed, *c.Projected, *c.Saved/3600, known))
	if c.GPUHours != nil {
		line := fmt.Sprintf("%.4f GPU-hours, saved %.4f", *c.GPUHours, *c.SavedGPUHours)
		if c.GPUHourUSD != nil {
			line += fmt.Sprintf("; at %.2f USD per %s hour %.2f USD, saved %.2f USD",
				*c.GPUHourUSD, printable.Line(c.GPU), *c.USD, *c.SavedUSD)
		}
		lines = append(lines, line)
	}
	return lines
}

// sweepCharts are the curves over the load, latency against throughput, and rewards.
func sweepCharts(s *report.Sweep) []string {
	of := "points"
	if s.OfPhases {
		of = "phases"
	}
	scatter := chart.Points{
		Title:  "TTFT and throughput of the " + of + s.Kind.Suffix(),
		XLabel: "median TTFT (ms)", YLabel: "tok/s", FromZero: true,
	}
	reward := chart.Points{Title: "Reward of each step" + s.Kind.Suffix(), XLabel: "step", YLabel: "reward", Line: true}
	x, y := metricPlace(s, metric.MedianTTFT), metricPlace(s, metric.Throughput)
	for i, p := range s.Points {
		if !p.Usable {
			continue
		}
		label := pointName(s, p)
		point := chart.Point{
			Label: label, Tip: printable.Line(label + ": " + records.JoinShort(p.Values)), Mark: s.Best != nil &&
				*s.Best == i,
		}
		if x >= 0 && y >= 0 && p.Metrics[x].Number != nil && p.Metrics[y].Number != nil {
			point.X, point.Y = *p.Metrics[x].Number, *p.Metrics[y].Number
			scatter.Points = append(scatter.Points, point)
		}
		if p.Reward != nil && p.Repeat <= 1 {
			point.X, point.Y = float64(p.Step), *p.Reward
			reward.Points = append(reward.Points, point)
		}
	}
	var out []string
	for _, c := range append(curves(s), scatter, reward) {
		if len(c.Points) > 0 {
			out = append(out, c.SVG())
		}
	}
	return out
}

// metricPlace is the place of a metric among those of the sweep, -1 if it has none.
func metricPlace(s *report.Sweep, m metric.Metric) int {
	return slices.IndexFunc(s.Metrics, func(have metric.Metric) bool { return have.Key == m.Key })
}
