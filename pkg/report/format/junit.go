package format

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/junit"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// JUnit writes a case for each metric that was judged. A regression is a failure, too
// little data and a cut to watch are skipped, what must not be compared is an error; a
// side or a report without a valid run is one too.
func JUnit(w io.Writer, r *report.Report) error {
	var list []junit.Suite
	newest := time.Time{}
	for _, e := range r.Runs {
		if t := e.Run.Began(); t.After(newest) {
			newest = t
		}
	}
	for i := range r.Judgements {
		list = append(list, judgementSuite(&r.Judgements[i], newest))
	}
	for i := range r.Trends {
		list = append(list, trendSuite(&r.Trends[i], trendName(r, i), newest))
	}
	if len(list) == 0 {
		var why []string
		for _, x := range r.LeftOut {
			why = append(why, x.Dir+": "+x.Why)
		}
		list = []junit.Suite{{Name: "trend", Time: newest, Cases: []junit.Case{{
			Class: "trend", Name: "runs", Outcome: junit.Broken, Type: "no valid run",
			Message: "there is no valid run", Text: strings.Join(why, "\n"),
		}}}}
	}
	return junit.Write(w, list)
}

func outcomeCase(class, name string, o report.Outcome, marks []report.Mark, why string) junit.Case {
	c := junit.Case{Class: class, Name: name, Outcome: junit.Passed, Type: string(o),
		Message: verdictText(o, marks, why)}
	switch o {
	case report.Regressed:
		c.Outcome = junit.Failed
	case report.NotComparable:
		c.Outcome = junit.Broken
	case report.TooLittle, report.Watch:
		c.Outcome = junit.Skipped
	}
	return c
}

// suiteProperties describe the runs of a suite.
func suiteProperties(k records.Kind, mixed []string) [][2]string {
	list := [][2]string{{"simulated", fmt.Sprint(k.Simulated())}}
	for _, m := range mixed {
		list = append(list, [2]string{string(report.MixedHardware), m})
	}
	return list
}

func judgementSuite(j *report.Judgement, newest time.Time) junit.Suite {
	name := j.Test + j.Kind.Suffix()
	s := junit.Suite{Name: "compare " + name, Time: newest, Properties: suiteProperties(j.Kind, j.Mixed)}
	all := strings.Join(judgementBlock(j).lines, "\n")
	if c, ok := unjudged(j); ok {
		c.Class, c.Name, c.Text = name, "verdict", all
		s.Cases = append(s.Cases, c)
	}
	for _, m := range j.Redefined {
		s.Cases = append(s.Cases, junit.Case{
			Class: name, Name: m.Key, Outcome: junit.Skipped, Type: "redefined", Message: m.Why, Text: all,
		})
	}
	for _, v := range j.Metrics {
		c := outcomeCase(name, v.Key, v.Verdict, v.Marks, v.Why)
		shift, low, high, _ := v.Deciding()
		n := fmt.Sprintf("%d v %d", v.First.N, v.Second.N)
		if v.Paired != nil {
			n = fmt.Sprintf("%d pairs", v.Paired.N)
		}
		c.Message += fmt.Sprintf("; %s, shift %s %%%s", n, decimals("%+.2f", shift), span(low, high))
		c.Text = all
		s.Cases = append(s.Cases, c)
	}
	return s
}

// unjudged says why a judgement has no metrics; ok is false if it has some.
func unjudged(j *report.Judgement) (c junit.Case, ok bool) {
	broken := func(kind, message string) (junit.Case, bool) {
		return junit.Case{Outcome: junit.Broken, Type: kind, Message: message}, true
	}
	const notComparable, tooLittle = string(report.NotComparable), string(report.TooLittle)
	switch {
	case len(j.First.Runs) == 0 || len(j.Second.Runs) == 0:
		return broken("no valid run", "a side has no valid run")
	case len(j.NotComparable) > 0:
		return broken(notComparable, j.NotComparable[0].String())
	case j.Verdict == report.NotComparable:
		return broken(notComparable, "every metric is defined differently in one of the records")
	case len(j.Metrics) == 0:
		return junit.Case{Outcome: junit.Skipped, Type: tooLittle, Message: "the sides have no metric in common"}, true
	}
	return junit.Case{}, false
}

func trendSuite(t *report.Trend, name string, newest time.Time) junit.Suite {
	s := junit.Suite{Name: "trend " + name, Time: newest, Properties: suiteProperties(t.Kind, t.Mixed)}
	for i := range t.Metrics {
		x := &t.Metrics[i]
		c := outcomeCase(name, x.Key, x.Verdict, x.Marks, x.Why)
		var lines []string
		for _, cut := range x.Cuts {
			lines = append(lines, cutLines(x, cut)...)
		}
		c.Text = strings.Join(lines, "\n")
		if n := len(x.Cuts); n > 0 {
			last := x.Cuts[n-1]
			c.Message += fmt.Sprintf("; last change %s %% at %s",
				decimals("%+.2f", last.Percent), day(x.Points[last.Index].Time))
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}
