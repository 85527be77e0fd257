package format

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// trendBlocks shows every series, then the runs that are in none.
func trendBlocks(r *report.Report) []block {
	var out []block
	for i := range r.Trends {
		out = append(out, trendBlock(&r.Trends[i], trendName(r, i)))
	}
	if len(r.LeftOut) > 0 {
		t := table{header: []string{"directory", "why"}}
		for _, x := range r.LeftOut {
			t.row("", cell{text: x.Dir}, cell{cut(x.Why), reject})
		}
		out = append(out, block{heading: "Left out of every series", tables: []table{t}})
	}
	return out
}

// trendName is the name of a series, with its key if another has the same.
func trendName(r *report.Report, i int) string {
	t := &r.Trends[i]
	name := t.Test
	if len(t.By) > 0 {
		name += " " + records.Join(t.By)
	} else if twins(r, i) {
		name += " key=" + t.Key
	}
	return name + t.Kind.Suffix()
}

// twins reports whether another series has the same name.
func twins(r *report.Report, i int) bool {
	for k, t := range r.Trends {
		if k != i && t.Test == r.Trends[i].Test && len(t.By) == 0 {
			return true
		}
	}
	return false
}

func trendBlock(t *report.Trend, name string) block {
	b := block{heading: "Trend: " + printable.Line(name) + ": " + string(t.Verdict)}
	first, last := t.ByStart[0].Runs[0], t.ByStart[len(t.ByStart)-1].Runs[0]
	runs := quantity.Count(t.Runs, "run")
	if t.Starts < t.Runs {
		runs += " from " + quantity.Count(t.Starts, "server start") + ", one point per start"
	}
	b.say("%s, %s to %s", runs, day(first.Began()), day(last.Began()))
	for _, u := range t.Before {
		b.say("not in the same series as the runs before: %s", u)
	}
	for _, line := range t.Mixed {
		b.say("%s: suspect, the runs of this series are not alike: %s", report.MixedHardware, line)
	}
	b.sayTrends(t)
	if len(t.Metrics) == 0 {
		b.say("no run has any of these metrics")
		return b
	}
	b.tables = []table{trendTable(t)}
	return b
}

// sayTrends tells where metrics changed, and draws them.
func (b *block) sayTrends(t *report.Trend) {
	hollow := false
	for i := range t.Metrics {
		x := &t.Metrics[i]
		if x.Redefined != "" {
			b.say("%s: older runs are left out: %s", x.Name, x.Redefined)
		}
		for _, c := range x.Cuts {
			for _, line := range cutLines(x, c) {
				b.say("%s", line)
			}
			hollow = hollow || unchecked(c.Marks)
		}
		if len(x.Points) > 1 {
			b.charts = append(b.charts, trendChart(t, x))
		}
	}
	if hollow {
		b.say("%s", uncheckedLine)
	}
}

// cutLines tell one cut: what moved, when, between which runs, and what else changed.
func cutLines(x *report.MetricTrend, c report.TrendCut) []string {
	before, behind := x.Points[c.Index-1], x.Points[c.Index]
	lines := []string{fmt.Sprintf("%s at %s by %s%s: %s (first %s, last before it %s)", x.Name, day(behind.Time),
		decimals("%+.2f %%", c.Percent), span(c.Low, c.High), verdictText(c.Verdict, c.Marks, c.Why),
		behind.Runs[0], before.Runs[len(before.Runs)-1])}
	for _, u := range c.Differs {
		lines = append(lines, "  changed there: "+u.String())
	}
	if len(c.Differs) == 0 {
		lines = append(lines, "  no other recorded setting changed there")
	}
	if c.NotCausal {
		lines = append(lines, "  not causal: more than one thing changed there")
	}
	return lines
}

// day is a time as a person would look it up, UTC.
func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func trendTable(t *report.Trend) table {
	out := table{header: []string{
		"metric", "n", "median now", "CV %", "last change %", "interval",
		"p", "p adjusted", "matters from %", "verdict", "over time",
	}}
	out.droppable("CV %", "p", "matters from %", "n", "over time", "p adjusted", "interval")
	for i := range t.Metrics {
		x := &t.Metrics[i]
		cells := []cell{
			{text: title(x.Metric)}, count(len(x.Points)),
			number(x.Level.Median, precision(x.Metric)), formatted("%.2f", x.Level.CV),
		}
		cells = append(cells, changeCells(x.Cuts)...)
		verdict := verdictCell(x.Verdict, x.Marks, x.Why)
		out.row("", append(cells, formatted("%g", &x.Floor), verdict, cell{text: spark(x)})...)
	}
	return out
}

// changeCells are the last cut of a metric.
func changeCells(cuts []report.TrendCut) []cell {
	if len(cuts) == 0 {
		return []cell{{"none", num}, {"none", num}, {"n/a", num}, {"n/a", num}}
	}
	c := cuts[len(cuts)-1]
	return []cell{
		formatted("%+.2f", c.Percent), {interval(c.Low, c.High), num},
		formatted("%.3g", &c.P), formatted("%.3g", &c.AdjustedP),
	}
}

const (
	sparkLevels = "▁▂▃▄▅▆▇█"
	sparkPoints = 60
)

// spark draws the points as a line of blocks, the last ones if there are many, with
// a bar before each new part.
func spark(x *report.MetricTrend) string {
	values := x.Values()
	if len(values) == 0 {
		return ""
	}
	from := max(0, len(values)-sparkPoints)
	lo, hi := slices.Min(values[from:]), slices.Max(values[from:])
	levels := []rune(sparkLevels)
	var b strings.Builder
	if from > 0 {
		b.WriteString("…")
	}
	for i := from; i < len(values); i++ {
		if slices.ContainsFunc(x.Cuts, func(c report.TrendCut) bool { return c.Index == i }) {
			b.WriteString("|")
		}
		at := len(levels) / 2
		if hi > lo {
			at = int(math.Round((values[i] - lo) / (hi - lo) * float64(len(levels)-1)))
		}
		b.WriteRune(levels[at])
	}
	return b.String()
}

// trendChart has a point for each start; the first of a new part is marked, and the
// points after a speed-up without accuracies are hollow.
func trendChart(t *report.Trend, x *report.MetricTrend) string {
	p := chart.Points{
		Title: x.Name + t.Kind.Suffix(), XLabel: "server start, by time", YLabel: x.Unit, Line: true,
	}
	hollow := false
	for i, q := range x.Points {
		tip := fmt.Sprintf("%s %s %s: %s", day(q.Time), q.Runs[0], x.Name, chart.Number(q.Value))
		point := chart.Point{X: float64(i + 1), Y: q.Value, Tip: printable.Line(tip)}
		for _, c := range x.Cuts {
			if c.Index == i {
				hollow = unchecked(c.Marks)
				point.Mark, point.Label = true, string(c.Verdict)+" "+decimals("%+.2f %%", c.Percent)
			}
		}
		point.Hollow = hollow
		p.Points = append(p.Points, point)
	}
	return p.SVG()
}
