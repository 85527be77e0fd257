package format

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
)

func comparisonBlock(c *report.Comparison) block {
	b := block{heading: "Comparison: " + printable.Line(c.Group), group: printable.Line(c.Group)}
	if len(c.Apart) > 0 {
		b.lines = append(b.lines, "left out, not valid: "+printable.Line(strings.Join(c.Apart, ", ")))
	}
	if len(c.Columns) == 0 {
		return b
	}
	runs := table{header: []string{"run", "label", "verdict", "directory"}}
	for _, col := range c.Columns {
		runs.row(c.Group,
			cell{text: col.Name}, cell{text: cut(col.Label)}, cell{text: string(col.Verdict)}, cell{text: col.Dir})
		runs.leads(col.Dir)
	}
	b.tables = append(b.tables, runs)
	for _, s := range c.Sections {
		if len(c.Columns) > widest {
			b.tables = append(b.tables, long(c, s))
		} else {
			b.tables = append(b.tables, wide(c, s))
		}
	}
	b.charts = comparisonCharts(c)
	return b
}

// wide has a row for each metric and a column for each run.
func wide(c *report.Comparison, s report.Section) table {
	t := table{header: []string{s.Name}}
	for _, col := range c.Columns {
		t.header = append(t.header, printable.Line(col.Name))
	}
	two := len(c.Columns) == 2
	if two {
		t.header = append(t.header, "difference", "difference %")
		t.droppable("difference")
	}
	for _, row := range s.Rows {
		cells := []cell{{text: title(row.Metric)}}
		for _, v := range row.Values {
			cells = append(cells, value(v, precision(row.Metric)))
		}
		if two {
			cells = append(cells, differenceCells(row.Difference)...)
		}
		t.row(c.Group, cells...)
	}
	return t
}

// long has a row for each run and a column for each metric.
func long(c *report.Comparison, s report.Section) table {
	t := table{header: []string{s.Name}}
	for _, row := range s.Rows {
		t.header = append(t.header, title(row.Metric))
	}
	for i, col := range c.Columns {
		cells := []cell{{text: col.Name}}
		for _, row := range s.Rows {
			cells = append(cells, value(row.Values[i], precision(row.Metric)))
		}
		t.row(c.Group, cells...)
	}
	return t
}

// differenceCells are a difference and its percentage.
func differenceCells(d *report.Difference) []cell {
	if d == nil {
		return []cell{{"n/a", num}, {"n/a", num}}
	}
	percent := "n/a"
	if d.Percent != nil {
		percent = fmt.Sprintf("%+.2f", *d.Percent)
	}
	return []cell{{fmt.Sprintf("%+.2f", d.Absolute), num}, {percent, num}}
}

// panels are the bar charts of a comparison: metrics of one scale together.
var panels = []struct {
	title, unit string
	metrics     []metric.Metric
	series      []string
}{
	{"TTFT", "ms", metric.TTFT, []string{"mean", "median", "P99"}},
	{"TPOT", "ms", metric.TPOT, []string{"mean", "median", "P99"}},
	{"Successful prompts", "%", []metric.Metric{metric.SuccessShare}, []string{""}},
	{"Throughput", "tok/s", []metric.Metric{metric.Throughput}, []string{""}},
	{"TPS/User", "tok/s", []metric.Metric{metric.PerUser}, []string{""}},
	{"TPS/GPU", "tok/s", []metric.Metric{metric.PerGPU}, []string{""}},
	{"Accuracy", "share", []metric.Metric{metric.Accuracy}, []string{""}},
}

func comparisonCharts(c *report.Comparison) []string {
	if len(c.Columns) > mostBars {
		return nil
	}
	rows := map[string]report.Row{}
	for _, s := range c.Sections {
		for _, row := range s.Rows {
			rows[row.Key] = row
		}
	}
	var out []string
	for _, p := range panels {
		b := chart.Bars{Title: p.title + c.Kind.Suffix(), Unit: p.unit, Series: p.series}
		some := false
		for i, col := range c.Columns {
			bar := chart.Bar{Label: printable.Line(col.Name), Tip: printable.Line(col.Name + ": " + col.Label)}
			for _, m := range p.metrics {
				v := rows[m.Key].Values[i].Number
				some = some || v != nil
				bar.Values = append(bar.Values, v)
			}
			b.Bars = append(b.Bars, bar)
		}
		if some {
			out = append(out, b.SVG())
		}
	}
	return out
}
