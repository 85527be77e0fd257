package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
)

// trendBlocks shows every series, and last what stands in none.
func (r *Report) trendBlocks() []block {
	var out []block
	for i := range r.Trends {
		out = append(out, r.Trends[i].block(r.twins(i)))
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

// twins reports whether another series has the same name.
func (r *Report) twins(i int) bool {
	for k, t := range r.Trends {
		if k != i && t.Test == r.Trends[i].Test && len(t.By) == 0 {
			return true
		}
	}
	return false
}

func (t *Trend) name(twins bool) string {
	s := t.Test
	if len(t.By) > 0 {
		s += " " + joined(t.By)
	} else if twins {
		s += " key=" + t.Key
	}
	return s + kindSuffix(t.Kind)
}

func (t *Trend) block(twins bool) block {
	b := block{heading: "Trend: " + printable.Line(t.name(twins)) + ": " + string(t.Verdict)}
	say := func(format string, args ...any) {
		b.lines = append(b.lines, printable.Line(fmt.Sprintf(format, args...)))
	}
	first, last := t.starts[0].runs[0], t.starts[len(t.starts)-1].runs[0]
	runs := quantity.Count(t.Runs, "run")
	if t.Starts < t.Runs {
		runs += " of " + quantity.Count(t.Starts, "start") + " of the server, each start a point"
	}
	say("%s, %s to %s", runs, day(when(first)), day(when(last)))
	for _, u := range t.Before {
		say("not in one series with the runs before it: %s", u)
	}
	for _, line := range t.Mixed {
		say("%s: suspect, the runs of this series are not alike: %s", MixedHardware, line)
	}
	unchecked := false
	for i := range t.Metrics {
		x := &t.Metrics[i]
		if x.Redefined != "" {
			say("%s: older runs are no points: %s", x.Name, x.Redefined)
		}
		for _, c := range x.Cuts {
			t.sayCut(say, x, c)
			unchecked = unchecked || slices.Contains(c.Marks, AccuracyUnchecked)
		}
		if len(x.Points) > 1 {
			b.charts = append(b.charts, t.chart(x))
		}
	}
	if unchecked {
		say("%s", uncheckedLine)
	}
	if len(t.Metrics) == 0 {
		say("no run has one of the metrics")
		return b
	}
	b.tables = []table{t.table()}
	return b
}

// sayCut tells one cut: what moved, when, between which runs, and what else changed.
func (t *Trend) sayCut(say func(string, ...any), x *MetricTrend, c TrendCut) {
	before, behind := x.Points[c.Index-1], x.Points[c.Index]
	moved := "n/a"
	if c.Percent != nil {
		moved = fmt.Sprintf("%+.2f %%", *c.Percent)
		if c.Low != nil {
			moved += fmt.Sprintf(" [%+.2f, %+.2f]", *c.Low, *c.High)
		}
	}
	say("%s at %s by %s: %s (first %s, last before it %s)", x.Name, day(behind.Time), moved, verdictText(c.Verdict, c.Marks, c.Why),
		behind.Runs[0], before.Runs[len(before.Runs)-1])
	for _, u := range c.Differs {
		say("  changed there: %s", u)
	}
	if len(c.Differs) == 0 {
		say("  nothing else that is recorded changed there")
	}
	if c.NotCausal {
		say("  not causal: more than one thing changed there")
	}
}

// day is a time as a person would look it up, UTC.
func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func (t *Trend) table() table {
	out := table{header: []string{
		"metric", "n", "median now", "CV %", "last change %", "interval", "p", "p adjusted", "matters from %", "verdict", "over time",
	}}
	out.droppable("CV %", "p", "matters from %", "n", "over time", "p adjusted", "interval")
	for i := range t.Metrics {
		x := &t.Metrics[i]
		how := word
		if x.Verdict == Regressed {
			how = reject
		}
		change, interval, p, adjusted := "none", "none", "n/a", "n/a"
		if n := len(x.Cuts); n > 0 {
			c := x.Cuts[n-1]
			change, p, adjusted = decimals("%+.2f", c.Percent), fmt.Sprintf("%.3g", c.P), fmt.Sprintf("%.3g", c.AdjustedP)
			if c.Low != nil {
				interval = fmt.Sprintf("[%+.2f, %+.2f]", *c.Low, *c.High)
			}
		}
		out.row("", cell{text: x.title()}, cell{strconv.Itoa(len(x.Points)), num}, cell{Value{Number: x.Level.Median}.text(x.precision()), num},
			cell{decimals("%.2f", x.Level.CV), num}, cell{change, num}, cell{interval, num}, cell{p, num}, cell{adjusted, num},
			cell{fmt.Sprintf("%g", x.Floor), num}, cell{verdictText(x.Verdict, x.Marks, x.Why), how}, cell{text: x.spark()})
	}
	return out
}

const (
	sparkLevels = "▁▂▃▄▅▆▇█"
	sparkPoints = 60
)

// spark draws the points as a line of blocks, the last ones if there are many, with
// a bar before each new part.
func (x *MetricTrend) spark() string {
	values := x.values()
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
		if slices.ContainsFunc(x.Cuts, func(c TrendCut) bool { return c.Index == i }) {
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

// chart has a point for each start; the first of a new part is marked, and the points
// behind a gain without accuracies are hollow.
func (t *Trend) chart(x *MetricTrend) string {
	p := chart.Points{Title: x.Name + kindSuffix(t.Kind), XLabel: "start of the server, by time", YLabel: x.Unit, Line: true}
	hollow := false
	for i, q := range x.Points {
		point := chart.Point{X: float64(i + 1), Y: q.Value, Tip: printable.Line(fmt.Sprintf("%s %s %s: %s", day(q.Time), q.Runs[0], x.Name, chart.Number(q.Value)))}
		for _, c := range x.Cuts {
			if c.Index == i {
				hollow = slices.Contains(c.Marks, AccuracyUnchecked)
				point.Mark, point.Label = true, string(c.Verdict)+" "+decimals("%+.2f %%", c.Percent)
			}
		}
		point.Hollow = hollow
		p.Points = append(p.Points, point)
	}
	return p.SVG()
}

// trendCSV writes one line for each point of each metric. part counts the cuts
// before the point, whatever is believed of them.
func (r *Report) trendCSV(w io.Writer) error {
	c := printable.NewCSV(w)
	if err := c.Write([]string{"test", "key", "kind", "metric", "unit", "time", "value", "part", "cut", "shift_percent", "p_adjusted", "marks", "verdict", "runs"}); err != nil {
		return err
	}
	for _, t := range r.Trends {
		for _, x := range t.Metrics {
			part := 0
			for i, p := range x.Points {
				row := []string{t.Test, t.Key, string(t.Kind), x.Key, x.Unit, p.Time.UTC().Format(time.RFC3339), csvNumber(&p.Value), "", "", "", "", "", string(x.Verdict), strings.Join(p.Runs, " ")}
				for _, cut := range x.Cuts {
					if cut.Index == i {
						part++
						marks := make([]string, len(cut.Marks))
						for k, m := range cut.Marks {
							marks[k] = string(m)
						}
						row[8], row[9], row[10], row[11] = string(cut.Verdict), csvNumber(cut.Percent), csvNumber(&cut.AdjustedP), strings.Join(marks, " ")
					}
				}
				row[7] = strconv.Itoa(part)
				if err := c.Write(row); err != nil {
					return err
				}
			}
		}
	}
	c.Flush()
	return c.Error()
}

func csvNumber(x *float64) string { return csvValue(Value{Number: x}) }
