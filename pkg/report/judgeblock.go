package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/printable"
)

// uncheckedLine says what a hollow gain lacks.
const uncheckedLine = string(AccuracyUnchecked) + ": a gain of speed counts when the accuracy before and after it is known, with the same image and flags of the server"

// block shows a judgement: the verdict, one line for each metric, what else is to be
// known before it is believed.
func (j *Judgement) block() block {
	b := block{heading: "Verdict: " + printable.Line(j.Test) + kindSuffix(j.Kind) + ": " + string(j.Verdict)}
	say := func(format string, args ...any) {
		b.lines = append(b.lines, printable.Line(fmt.Sprintf(format, args...)))
	}
	for _, u := range j.NotComparable {
		say("not comparable: %s", u)
	}
	for _, side := range []struct {
		name string
		Side
	}{{"first", j.First}, {"second", j.Second}} {
		for _, line := range side.Apart {
			say("%s, left out: %s", side.name, line)
		}
		if side.MedianRun != "" && len(side.Runs) > 1 {
			say("%s: %s, median-throughput run %s", side.name, starts(side.Side), side.MedianRun)
		}
		for _, line := range side.Accepts {
			say("%s: accepted by thresholds of its own: %s", side.name, line)
		}
		if side.Accuracy != nil {
			say("%s: accuracy %s", side.name, side.Accuracy)
		}
	}
	for _, v := range j.Metrics {
		if v.lacks != "" {
			say("not compared: %s: %s", v.title(), v.lacks)
		}
		if a := v.Answers; a != nil {
			say("the same %d questions: %d only the first got right, %d only the second: p %.3g, %s", a.Questions, a.OnlyFirst, a.OnlySecond, *v.P, v.Verdict)
		}
	}
	for _, u := range j.Differs {
		if u.Field == nodesField || causes(j.Differs) != 1 { // one cause has a line of its own
			say("differs: %s", u)
		}
	}
	for _, line := range j.Mixed {
		say("%s: suspect, the runs of one side are not alike: %s", MixedHardware, line)
	}
	if why := causal(j.Differs); why != "" {
		say("%s", why)
	}
	for _, r := range j.Redefined {
		say("left out: %s: %s", r.title(), r.Why)
	}
	if slices.ContainsFunc(j.Metrics, func(v MetricVerdict) bool { return slices.Contains(v.Marks, AccuracyUnchecked) }) {
		say("%s", uncheckedLine)
	}
	if j.ApartPairs > 0 {
		say("%d pairs ran on different nodes: what differs between the nodes is in their differences", j.ApartPairs)
	}
	if j.RunsNeeded > 0 {
		a, z := j.Missing()
		say("to settle it: %d runs of each that can be believed; missing: %d of the first, %d of the second", j.RunsNeeded, a, z)
	}
	for _, c := range j.Commands {
		say("  %s", c)
	}
	switch {
	case len(j.Metrics) == 0:
	case len(j.First.Runs) == 1 && len(j.Second.Runs) == 1:
		said := "one v one: no test" // the numbers stand in the comparison
		if slices.ContainsFunc(j.Metrics, func(v MetricVerdict) bool { return v.Answers != nil }) {
			said = "one v one: no test but of the answers"
		}
		b.lines = append([]string{said}, b.lines...)
	default:
		b.tables = []table{j.table()}
	}
	return b
}

// starts says how many runs there are, and of how many jobs if they share some.
func starts(s Side) string {
	switch s.Jobs {
	case len(s.Runs):
		return fmt.Sprintf("%d runs", len(s.Runs))
	case 1:
		return fmt.Sprintf("%d runs of one start of the server: what differs from start to start is not in them", len(s.Runs))
	}
	return fmt.Sprintf("%d runs of %d starts of the server", len(s.Runs), s.Jobs)
}

func (j *Judgement) table() table {
	t := table{header: []string{
		"metric", "n", "first median", "CV %", "second median", "CV %", "shift %", "interval", "p", "p adjusted", "matters from %", "verdict",
	}}
	pairs := slices.ContainsFunc(j.Metrics, func(v MetricVerdict) bool { return v.Paired != nil })
	if pairs {
		t.header[1] = "pairs"
		t.header = slices.Insert(t.header, len(t.header)-1, "finds from %", "unpaired shift %", "unpaired interval", "unpaired p")
	}
	t.droppable("CV %", "unpaired p", "unpaired interval", "unpaired shift %", "finds from %", "p", "matters from %", "n", "pairs", "p adjusted", "interval")
	for _, v := range j.Metrics {
		how := word
		if v.Verdict == Regressed {
			how = reject
		}
		verdict := verdictText(v.Verdict, v.Marks, v.Why)
		shift, low, high, p := v.deciding()
		n := fmt.Sprintf("%d v %d", v.First.N, v.Second.N)
		if v.Paired != nil {
			n = fmt.Sprint(v.Paired.N)
		}
		cells := []cell{
			{text: v.title()}, {n, num},
			{Value{Number: v.First.Median}.text(v.precision()), num}, {decimals("%.2f", v.First.CV), num},
			{Value{Number: v.Second.Median}.text(v.precision()), num}, {decimals("%.2f", v.Second.CV), num},
			{decimals("%+.2f", shift), num}, {interval(low, high), num}, {decimals("%.3g", p), num}, {decimals("%.3g", v.AdjustedP), num},
			{fmt.Sprintf("%g", v.Floor), num},
		}
		if pairs {
			var finds *float64
			if v.Paired != nil {
				finds = v.Paired.Finds
			}
			cells = append(cells, cell{decimals("%.2f", finds), num},
				cell{decimals("%+.2f", v.Percent), num}, cell{interval(v.Low, v.High), num}, cell{decimals("%.3g", v.P), num})
		}
		t.row("", append(cells, cell{verdict, how})...)
	}
	return t
}

func interval(low, high *float64) string {
	if low == nil {
		return "none"
	}
	return fmt.Sprintf("[%+.2f, %+.2f]", *low, *high)
}

func decimals(format string, x *float64) string {
	if x == nil || math.IsNaN(*x) {
		return "n/a"
	}
	return fmt.Sprintf(format, *x)
}

// verdictText is a verdict with its marks and its reason.
func verdictText(o Outcome, marks []Mark, why string) string {
	s := string(o)
	for _, m := range marks {
		s += ", " + string(m)
	}
	if why != "" {
		s += ": " + why
	}
	return s
}

// summary is the verdicts of a report in a line.
func (r *Report) summary() string {
	count := map[Outcome]int{}
	for _, j := range r.Judgements {
		for _, v := range j.Metrics {
			count[v.Verdict]++
		}
		if len(j.Metrics) == 0 {
			count[j.Verdict]++
		}
	}
	return "second against first: " + tally(count)
}

// tally lists outcomes with their number, worst first.
func tally(count map[Outcome]int) string {
	var parts []string
	for _, o := range outcomes {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	return strings.Join(parts, ", ")
}
