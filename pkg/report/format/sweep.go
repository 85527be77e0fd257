package format

import (
	"cmp"
	"fmt"
	"math"
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

func sweepBlock(s *report.Sweep, r *report.Report) block {
	kind := "Sweep"
	if s.OfPhases {
		kind = "Phases"
	}
	b := block{heading: kind + ": " + printable.Line(s.Name) + s.Kind.Suffix(), group: printable.Line(s.Group)}
	var t table
	if s.OfPhases {
		t.header = append(t.header, "phase")
	}
	for _, v := range records.Short(s.Points[0].Values) {
		t.header = append(t.header, printable.Line(v.Key))
	}
	if repeated(s) {
		t.header = append(t.header, "repeat")
	}
	t.header = append(t.header, "verdict")
	t.keep = len(t.header)
	for _, m := range s.Metrics {
		t.header = append(t.header, title(m))
	}
	if line := starLine(s); line != "" {
		b.say("%s", line)
	}
	if !s.OfPhases {
		b.lines = append(b.lines, costLines(s.Cost)...)
	}
	b.lines = append(b.lines, roomLines(s, r.Limits)...)
	b.lines = append(b.lines, unusable(s)...)
	for _, p := range s.Points {
		t.row(s.Group, pointCells(s, p)...)
		t.leads(p.Dir)
	}
	b.tables = []table{t}
	b.charts, b.absent = sweepCharts(s, answering(r)), absent(s)
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

// unusable says why points are not usable. Points with the same reason share a line, and so do those
// that failed by one cause, whose log lines and counts differ; their full reasons are below.
func unusable(s *report.Sweep) []string {
	type why struct {
		verdict report.Verdict
		first   string // what a reason begins with: a cause, or a failed check
	}
	var list []why
	points, reasons := map[why][]report.Point{}, map[why][]string{}
	for _, p := range s.Points {
		if p.Usable {
			continue
		}
		reason := records.WithoutPoint(p.Reason, strconv.Itoa(p.Step))
		first, _, _ := strings.Cut(reason, ": ")
		w := why{p.Verdict, first}
		if points[w] == nil {
			list = append(list, w)
		}
		points[w] = append(points[w], p)
		if !slices.Contains(reasons[w], reason) {
			reasons[w] = append(reasons[w], reason)
		}
	}
	lines := make([]string, len(list))
	for i, w := range list {
		name, reason := pointName(s, points[w][0]), points[w][0].Reason
		if len(points[w]) > 1 {
			name, reason = pointNames(s, points[w]), reasons[w][0]
		}
		if len(reasons[w]) > 1 {
			part, _, _ := strings.Cut(reason, "; ")
			reason = part + "; …"
		}
		lines[i] = printable.Line(fmt.Sprintf("%s, %s: %s", name, w.verdict, reason))
	}
	return lines
}

// pointNames are what a few points are called together.
func pointNames(s *report.Sweep, points []report.Point) string {
	const most = 3
	var names []string
	for i, p := range points {
		if i == most && len(points) > most+1 {
			names = append(names, fmt.Sprintf("%d more", len(points)-most))
			break
		}
		names = append(names, pointName(s, p))
	}
	return quantity.List(names)
}

// repeated reports whether a point was measured several times.
func repeated(s *report.Sweep) bool {
	return slices.ContainsFunc(s.Points, func(p report.Point) bool { return p.Repeat > 0 })
}

// pointCells show a point; the numbers of one that is not usable are not shown.
func pointCells(s *report.Sweep, p report.Point) []cell {
	how := word
	if !p.Usable || p.Doubtful() {
		how = reject
	}
	var cells []cell
	if s.OfPhases {
		cells = append(cells, cell{text: p.Phase})
	}
	for _, v := range p.Values {
		cells = append(cells, cell{text: cut(v.Value)})
	}
	if repeated(s) {
		cells = append(cells, cell{text: strconv.Itoa(p.Repeat)})
	}
	cells = append(cells, cell{string(p.Verdict), how})
	for i, m := range s.Metrics {
		switch c := brief(m, p.Metrics[i]); {
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

// pointName is what a point is called: its phase, or its settings, with the repeat of one that
// was measured several times.
func pointName(s *report.Sweep, p report.Point) string {
	name := p.Phase
	if !s.OfPhases {
		name = cmp.Or(others(s, p, -1, -1), "step "+strconv.Itoa(p.Step))
	}
	if p.Repeat > 0 {
		name += fmt.Sprintf(" repeat=%d", p.Repeat)
	}
	return name
}

// starLine says what the stars mean; "" if there are none to explain.
func starLine(s *report.Sweep) string {
	if len(s.Points) == 1 {
		return ""
	}
	of := "point"
	if s.OfPhases {
		of = "phase"
	}
	starred := func(p report.Point) bool { return slices.Contains(p.BestOf, true) }
	switch {
	case !hasObjective(s):
		return fmt.Sprintf("no valid %s has %s", of, s.Objective.Key)
	case !slices.ContainsFunc(s.Points, starred):
		return ""
	case s.Apart && repeated(s):
		return apartLine(of) + " Each repeat counts separately here, so the best of many is partly luck."
	case s.Apart:
		return apartLine(of)
	case repeated(s):
		return starsLine + "; each repeat counts separately here, so the best of many is partly luck"
	}
	return starsLine
}

const starsLine = "* marks the best of each metric, valid results only"

// apartLine is starsLine where prompts differ.
func apartLine(of string) string {
	return fmt.Sprintf("* marks the best valid value among %ss with the same prompts. Prompts differ, so other %ss are "+
		"not compared.", of, of)
}

// hasObjective reports whether some valid point has the objective.
func hasObjective(s *report.Sweep) bool {
	return slices.ContainsFunc(s.Points, func(p report.Point) bool {
		i := slices.IndexFunc(s.Metrics, func(m metric.Metric) bool { return m.Key == s.Objective.Key })
		return i >= 0 && p.Usable && !p.Doubtful() && p.Metrics[i].Number != nil
	})
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
				*c.GPUHourUSD, printable.Line(cmp.Or(c.GPU, "GPU")), *c.USD, *c.SavedUSD)
		}
		lines = append(lines, line)
	}
	return lines
}

// sweepCharts are the curves over the load, latency against throughput, and rewards.
func sweepCharts(s *report.Sweep, best map[string]bool) []string {
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
	swept, told := abscissa(s), rewardsAre(s, metricPlace(s, s.Objective))
	for _, p := range s.Points {
		if !p.Usable {
			continue
		}
		label := printable.Line(pointName(s, p))
		point := chart.Point{
			Label: label, Tip: label, Mark: best[p.Dir], Hollow: p.Doubtful(), Named: len(s.Points) <= mostNamed,
		}
		if swept >= 0 && !point.Mark && !s.OfPhases {
			point.Label = printable.Line(p.Values[swept].Value)
		}
		if x >= 0 && y >= 0 && p.Metrics[x].Number != nil && p.Metrics[y].Number != nil {
			point.X, point.Y = *p.Metrics[x].Number, *p.Metrics[y].Number
			scatter.Points = append(scatter.Points, point)
		}
		if p.Reward != nil && p.Repeat <= 1 && !told {
			point.X, point.Y = float64(p.Step), *p.Reward
			reward.Points = append(reward.Points, point)
		}
	}
	var out []string
	for _, c := range append(curves(s, best), scatter, reward) {
		if len(c.Points) > 0 {
			out = append(out, c.SVG()+c.Legend())
		}
	}
	return out
}

// answering are the directories of the runs that are named as the best.
func answering(r *report.Report) map[string]bool {
	dirs := map[string]bool{}
	for _, c := range r.Choices {
		if c.Within == 0 || len(c.Unlike) > 0 {
			continue
		}
		dirs[c.Candidates[0].Dir] = true
		for _, i := range c.Level() {
			dirs[c.Candidates[i].Dir] = true
		}
	}
	return dirs
}

// rewardsAre reports whether the rewards are the values of the metric at a place, which other
// charts show.
func rewardsAre(s *report.Sweep, place int) bool {
	return place >= 0 && !slices.ContainsFunc(s.Points, func(p report.Point) bool {
		v := p.Metrics[place].Number
		return p.Usable && p.Reward != nil && (v == nil || math.Abs(*v-*p.Reward) > 1e-6*math.Abs(*v))
	})
}

// metricPlace is the place of a metric among those of the sweep, -1 if it has none.
func metricPlace(s *report.Sweep, m metric.Metric) int {
	return slices.IndexFunc(s.Metrics, func(have metric.Metric) bool { return have.Key == m.Key })
}

// absent says which points the charts lack, and which are outlines; "" if there are none.
func absent(s *report.Sweep) string {
	var invalid, suspect []report.Point
	for _, p := range s.Points {
		switch {
		case !p.Usable:
			invalid = append(invalid, p)
		case p.Doubtful():
			suspect = append(suspect, p)
		}
	}
	var parts []string
	if len(suspect) > 0 {
		parts = append(parts, "Hollow points are suspect: "+pointNames(s, suspect)+".")
	}
	if len(invalid) > 0 {
		parts = append(parts, "Not drawn, because not valid: "+pointNames(s, invalid)+".")
	}
	return printable.Line(strings.Join(parts, " "))
}
