package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/report"
)

// uncheckedLine says what a speed-up lacks to count.
const uncheckedLine = string(report.AccuracyUnchecked) +
	": a speed-up counts only once accuracy is known before and after it, " +
	"with the same image and server flags"

// judgementBlock shows a judgement: the verdict, one line for each metric, and what to
// know before relying on it.
func judgementBlock(j *report.Judgement) block {
	b := block{heading: "Verdict: " + printable.Line(j.Test) + j.Kind.Suffix() + ": " + string(j.Verdict)}
	for _, u := range j.NotComparable {
		b.say("not comparable: %s", u)
	}
	b.saySide("first", j.First)
	b.saySide("second", j.Second)
	b.sayMetrics(j)
	b.sayCauses(j)
	if j.RunsNeeded > 0 {
		first, second := j.Missing()
		b.say("needed for a verdict: %d valid runs per side; missing: %d in the first, %d in the second",
			j.RunsNeeded, first, second)
	}
	for _, c := range j.Commands {
		b.say("  %s", c)
	}
	switch {
	case len(j.Metrics) == 0:
	case len(j.First.Runs) == 1 && len(j.Second.Runs) == 1:
		said := "one run per side: no test" // the numbers stand in the comparison
		if slices.ContainsFunc(j.Metrics, func(v report.MetricVerdict) bool { return v.Answers != nil }) {
			said = "one run per side: only the answers are tested"
		}
		b.lines = append([]string{said}, b.lines...)
	default:
		b.tables = []table{judgementTable(j)}
	}
	return b
}

// saySide tells which runs of a side count.
func (b *block) saySide(name string, s report.Side) {
	for _, line := range s.Apart {
		b.say("%s, left out: %s", name, line)
	}
	if s.MedianRun != "" && len(s.Runs) > 1 {
		b.say("%s: %s, median-throughput run %s", name, starts(s), s.MedianRun)
	}
	for _, line := range s.Accepts {
		b.say("%s: accepted by its own thresholds: %s", name, line)
	}
	if s.Accuracy != nil {
		b.say("%s: accuracy %s", name, s.Accuracy)
	}
}

// sayMetrics tells what no table has: metrics that a side lacks, and single answers.
func (b *block) sayMetrics(j *report.Judgement) {
	for _, v := range j.Metrics {
		if v.Lacks != "" {
			b.say("not compared: %s: %s", title(v.Metric), v.Lacks)
		}
		if a := v.Answers; a != nil {
			b.say("the same %d questions: %d right only in the first, %d only in the second: p %.3g, %s",
				a.Questions, a.OnlyFirst, a.OnlySecond, *v.P, v.Verdict)
		}
	}
}

// sayCauses tells what else differs, and what weakens the verdict.
func (b *block) sayCauses(j *report.Judgement) {
	for _, u := range j.Differs {
		if u.OfNodes() || report.Causes(j.Differs) != 1 { // one cause has a line of its own
			b.say("differs: %s", u)
		}
	}
	for _, line := range j.Mixed {
		b.say("%s: suspect, the runs of one side are not alike: %s", report.MixedHardware, line)
	}
	if why := report.Causal(j.Differs); why != "" {
		b.say("%s", why)
	}
	for _, r := range j.Redefined {
		b.say("left out: %s: %s", title(r.Metric), r.Why)
	}
	if slices.ContainsFunc(j.Metrics, func(v report.MetricVerdict) bool { return unchecked(v.Marks) }) {
		b.say("%s", uncheckedLine)
	}
	if j.ApartPairs > 0 {
		b.say("%d pairs ran on different nodes: their differences include differences between nodes", j.ApartPairs)
	}
}

// unchecked reports whether the accuracy of a speed-up is unknown.
func unchecked(marks []report.Mark) bool { return slices.Contains(marks, report.AccuracyUnchecked) }

// starts says how many runs there are, and of how many jobs if they share some.
func starts(s report.Side) string {
	switch s.Jobs {
	case len(s.Runs):
		return quantity.Count(len(s.Runs), "run")
	case 1:
		return quantity.Count(len(s.Runs), "run") + " from one server start: start-to-start variation is not included"
	}
	return fmt.Sprintf("%s from %d server starts", quantity.Count(len(s.Runs), "run"), s.Jobs)
}

func judgementTable(j *report.Judgement) table {
	t := table{header: []string{
		"metric", "n", "first median", "CV %", "second median", "CV %",
		"shift %", "interval", "p", "p adjusted", "matters from %", "verdict",
	}}
	pairs := slices.ContainsFunc(j.Metrics, func(v report.MetricVerdict) bool { return v.Paired != nil })
	if pairs {
		t.header[1] = "pairs"
		t.header = slices.Insert(t.header, len(t.header)-1,
			"finds from %", "unpaired shift %", "unpaired interval", "unpaired p")
	}
	t.droppable("CV %", "unpaired p", "unpaired interval", "unpaired shift %", "finds from %",
		"p", "matters from %", "n", "pairs", "p adjusted", "interval")
	for i := range j.Metrics {
		v := &j.Metrics[i]
		cells := verdictCells(v)
		if pairs {
			cells = append(cells, unpairedCells(v)...)
		}
		t.row("", append(cells, verdictCell(v.Verdict, v.Marks, v.Why))...)
	}
	return t
}

func verdictCells(v *report.MetricVerdict) []cell {
	shift, low, high, p := v.Deciding()
	n := fmt.Sprintf("%d v %d", v.First.N, v.Second.N)
	if v.Paired != nil {
		n = fmt.Sprint(v.Paired.N)
	}
	digits := precision(v.Metric)
	return []cell{
		{text: title(v.Metric)}, {n, num},
		number(v.First.Median, digits), formatted("%.2f", v.First.CV),
		number(v.Second.Median, digits), formatted("%.2f", v.Second.CV),
		formatted("%+.2f", shift), {interval(low, high), num}, formatted("%.3g", p), formatted("%.3g", v.AdjustedP),
		formatted("%g", &v.Floor),
	}
}

// unpairedCells are what pairs find, and what the sets alone would say.
func unpairedCells(v *report.MetricVerdict) []cell {
	var finds *float64
	if v.Paired != nil {
		finds = v.Paired.Finds
	}
	return []cell{
		formatted("%.2f", finds), formatted("%+.2f", v.Percent), {interval(v.Low, v.High), num}, formatted("%.3g", v.P),
	}
}

// verdictCell is a verdict with its marks and its reason.
func verdictCell(o report.Outcome, marks []report.Mark, why string) cell {
	how := word
	if o == report.Regressed {
		how = reject
	}
	return cell{verdictText(o, marks, why), how}
}

func verdictText(o report.Outcome, list []report.Mark, why string) string {
	s := strings.Join(append([]string{string(o)}, marks(list)...), ", ")
	if why != "" {
		s += ": " + why
	}
	return s
}
