package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/chart"
	"github.com/profllm/profllm/pkg/printable"
)

func (s *Sweep) block() block {
	kind, column := "Sweep", "step"
	if s.phases {
		kind, column = "Phases", "phase"
	}
	b := block{heading: kind + ": " + printable.Line(s.Name) + kindSuffix(s.Kind), group: printable.Line(s.Group)}
	t := table{header: []string{column, "verdict"}}
	for _, v := range shortened(s.Points[0].Values) {
		t.header = append(t.header, printable.Line(v.Key))
	}
	for _, m := range s.Metrics {
		t.header = append(t.header, m.title())
	}
	var apart []string
	for _, p := range s.Points {
		if !p.Usable {
			apart = append(apart, printable.Line(fmt.Sprintf("%s %s, %s: %s", column, s.nameOf(p), p.Verdict, p.Reason)))
		}
		t.row(s.Group, s.cells(p)...)
	}
	b.tables = []table{t}
	b.lines = []string{s.verdict(column)}
	if !s.phases {
		b.lines = append(b.lines, s.Cost.lines()...)
	}
	b.lines = append(b.lines, apart...)
	b.charts = s.charts(column)
	return b
}

// cells shows a point; the numbers of one that is not usable are not shown.
func (s *Sweep) cells(p Point) []cell {
	how, name := word, num
	if !p.Usable {
		how = reject
	}
	if s.phases {
		name = word
	}
	cells := []cell{{s.nameOf(p), name}, {string(p.Verdict), how}}
	for _, v := range p.Values {
		cells = append(cells, cell{text: cut(v.Value)})
	}
	for i, m := range s.Metrics {
		switch text := p.Metrics[i].text(m.digits); {
		case !p.Usable:
			cells = append(cells, cell{"-", num})
		case p.BestOf[i]:
			cells = append(cells, cell{text + " *", best})
		default:
			cells = append(cells, cell{text, num})
		}
	}
	return cells
}

// nameOf is the step or the phase, with the repeat of one that was measured several
// times.
func (s *Sweep) nameOf(p Point) string {
	name := strconv.Itoa(p.Step)
	if s.phases {
		name = p.Phase
	}
	if p.Repeat == 0 {
		return name
	}
	return fmt.Sprintf("%s repeat=%d", name, p.Repeat)
}

// verdict names the best point.
func (s *Sweep) verdict(column string) string {
	if s.Best == nil {
		of := "point"
		if s.phases {
			of = "phase"
		}
		return fmt.Sprintf("no best %s: no valid %s has %s", of, of, s.Objective.Key)
	}
	p := s.Points[*s.Best]
	once := ""
	if p.Repeat > 0 {
		once = "; each repeat counts by itself here, so the best of many is partly luck"
	}
	return printable.Line(fmt.Sprintf("best by %s (%s is better)%s: %s %s, %s; * marks the best of each metric, valid results only%s",
		s.Objective.Key, s.Objective.Better, kindSuffix(s.Kind), column, s.nameOf(p), joinedShort(p.Values), once))
}

// lines says what the sweep took.
func (c Cost) lines() []string {
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
			line += fmt.Sprintf("; at %.2f USD per %s hour %.2f USD, saved %.2f USD", *c.GPUHourUSD, printable.Line(c.GPU), *c.USD, *c.SavedUSD)
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *Sweep) charts(column string) []string {
	of := "points"
	if s.phases {
		of = "phases"
	}
	scatter := chart.Points{Title: "TTFT and throughput of the " + of + kindSuffix(s.Kind), XLabel: "median TTFT (ms)", YLabel: "tok/s", FromZero: true}
	reward := chart.Points{Title: "Reward of each step" + kindSuffix(s.Kind), XLabel: "step", YLabel: "reward", Line: true}
	x := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Key == medianTTFT.Key })
	y := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Key == throughput.Key })
	for i, p := range s.Points {
		label := column + " " + s.nameOf(p)
		tip := printable.Line(label + ": " + joinedShort(p.Values))
		chosen := s.Best != nil && *s.Best == i
		if p.Usable && x >= 0 && y >= 0 && p.Metrics[x].Number != nil && p.Metrics[y].Number != nil {
			scatter.Points = append(scatter.Points, chart.Point{Label: label, Tip: tip, X: *p.Metrics[x].Number, Y: *p.Metrics[y].Number, Mark: chosen})
		}
		if p.Usable && p.Reward != nil && p.Repeat <= 1 {
			reward.Points = append(reward.Points, chart.Point{Label: label, Tip: tip, X: float64(p.Step), Y: *p.Reward, Mark: chosen})
		}
	}
	var out []string
	for _, c := range append(s.curves(), scatter, reward) {
		if len(c.Points) > 0 {
			out = append(out, c.SVG())
		}
	}
	return out
}
