package format

import (
	"cmp"
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
	b.saySide(cmp.Or(printable.Line(j.First.Name), "first"), j.First)
	b.saySide(cmp.Or(printable.Line(j.Second.Name), "second"), j.Second)
	b.sayMetrics(j)
	b.sayCauses(j)
	b.sayNeeded(j)
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

// changeBlock shows a judgement on two groups of a report.
func changeBlock(c *report.Change, j *report.Judgement) block {
	b := judgementBlock(j)
	b.heading += printable.Line(" (" + c.Second + " against " + c.First + ")")
	return b
}

// called are the names of the sides.
func called(j *report.Judgement) (first, second string) {
	first, second = j.Called()
	return printable.Line(first), printable.Line(second)
}

// saySide tells which runs of a side count.
func (b *block) saySide(name string, s report.Side) {
	for _, x := range apart(s.LeftOut) {
		b.say("%s, left out: %s: %s", name, x.Dir, x.Why)
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

// apart are runs that are left out, those of one reason together.
func apart(list []report.LeftOut) []report.LeftOut {
	var reasons []string
	of := map[string][]string{}
	for _, x := range list {
		if of[x.Why] == nil {
			reasons = append(reasons, x.Why)
		}
		of[x.Why] = append(of[x.Why], x.Dir)
	}
	together := make([]report.LeftOut, len(reasons))
	for i, why := range reasons {
		together[i] = report.LeftOut{Dir: quantity.Paths(of[why]), Why: why}
	}
	return together
}

// sayMetrics tells what no table has: metrics that a side lacks, and single answers.
func (b *block) sayMetrics(j *report.Judgement) {
	for _, v := range j.Metrics {
		if v.Lacks != "" {
			b.say("not compared: %s: %s", title(v.Metric), v.Lacks)
		}
		if a := v.Answers; a != nil {
			one, two := called(j)
			b.say("the same %d questions: %d right only in %s, %d only in %s: p %.3g, %s",
				a.Questions, a.OnlyFirst, one, a.OnlySecond, two, *v.P, v.Verdict)
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

// sayNeeded tells how many runs are missing, for which metrics, and which differences are out of
// reach.
func (b *block) sayNeeded(j *report.Judgement) {
	if j.RunsNeeded > 0 {
		first, second := j.Missing()
		one, two := called(j)
		b.say("needed for a verdict%s: %d valid runs per side; missing: %d in %s, %d in %s",
			needing(j), j.RunsNeeded, first, one, second, two)
	}
	out, helps := false, ""
	for _, v := range j.Metrics {
		x := v.OutOfReach
		if x == nil {
			continue
		}
		unit := "runs per side"
		if helps = "profllm confirm (runs in turns), "; v.Paired != nil {
			unit, helps = "pairs", ""
		}
		b.say("out of reach: %s: at a CV of %.3g %%, a difference of %g %% takes %d %s; %d detect %.3g %% or more",
			title(v.Metric), x.CV, v.Floor, v.RunsNeeded, unit, x.Runs, x.Percent)
		out = true
	}
	if out {
		b.say("what helps: %slonger runs, an otherwise idle machine, metrics that vary less (--metric)", helps)
	}
}

// needing names the metrics that need runs; "" if there is none.
func needing(j *report.Judgement) string {
	var names []string
	for _, v := range j.Metrics {
		if v.RunsNeeded > 0 && v.OutOfReach == nil {
			names = append(names, title(v.Metric))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " on " + strings.Join(names, ", ")
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
