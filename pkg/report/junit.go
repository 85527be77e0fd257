package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/junit"
)

// JUnit writes a case for each metric that was judged. A regression is a failure, too
// little data and a cut to watch are skipped, what must not be compared is an error; a
// side or a report without a run that can be believed is one too.
func (r *Report) JUnit(w io.Writer) error {
	var list []junit.Suite
	newest := time.Time{}
	for _, e := range r.Runs {
		if t := when(e.run); t.After(newest) {
			newest = t
		}
	}
	for i := range r.Judgements {
		list = append(list, r.Judgements[i].suite(newest))
	}
	for i := range r.Trends {
		list = append(list, r.Trends[i].suite(r.twins(i), newest))
	}
	if len(list) == 0 {
		var why []string
		for _, x := range r.LeftOut {
			why = append(why, x.Dir+": "+x.Why)
		}
		list = []junit.Suite{{Name: "trend", Time: newest, Cases: []junit.Case{
			{Class: "trend", Name: "runs", Outcome: junit.Broken, Type: "no valid run", Message: "no run can be believed", Text: strings.Join(why, "\n")},
		}}}
	}
	return junit.Write(w, list)
}

func outcomeCase(class, name string, o Outcome, marks []Mark, why string) junit.Case {
	c := junit.Case{Class: class, Name: name, Outcome: junit.Passed, Type: string(o), Message: verdictText(o, marks, why)}
	switch o {
	case Regressed:
		c.Outcome = junit.Failed
	case NotComparable:
		c.Outcome = junit.Broken
	case TooLittle, Watch:
		c.Outcome = junit.Skipped
	}
	return c
}

// suiteProperties say of what runs a suite is.
func suiteProperties(k Kind, mixed []string) [][2]string {
	list := [][2]string{{"simulated", fmt.Sprint(k.Simulated())}}
	for _, m := range mixed {
		list = append(list, [2]string{string(MixedHardware), m})
	}
	return list
}

func (j *Judgement) suite(newest time.Time) junit.Suite {
	name := j.Test + kindSuffix(j.Kind)
	s := junit.Suite{Name: "compare " + name, Time: newest, Properties: suiteProperties(j.Kind, j.Mixed)}
	all := strings.Join(j.block().lines, "\n")
	broken := func(kind, message string) {
		s.Cases = append(s.Cases, junit.Case{Class: name, Name: "verdict", Outcome: junit.Broken, Type: kind, Message: message, Text: all})
	}
	switch {
	case len(j.First.Runs) == 0 || len(j.Second.Runs) == 0:
		broken("no valid run", "a side has no run that can be believed")
	case len(j.NotComparable) > 0:
		broken(string(NotComparable), j.NotComparable[0].String())
	case j.Verdict == NotComparable:
		broken(string(NotComparable), "every metric means something else in one of the records")
	case len(j.Metrics) == 0:
		s.Cases = append(s.Cases, junit.Case{Class: name, Name: "verdict", Outcome: junit.Skipped, Type: string(TooLittle), Message: "no metric that both sides have", Text: all})
	}
	for _, m := range j.Redefined {
		s.Cases = append(s.Cases, junit.Case{Class: name, Name: m.Key, Outcome: junit.Skipped, Type: "redefined", Message: m.Why, Text: all})
	}
	for _, v := range j.Metrics {
		c := outcomeCase(name, v.Key, v.Verdict, v.Marks, v.Why)
		shift, low, high, _ := v.deciding()
		n := fmt.Sprintf("%d v %d", v.First.N, v.Second.N)
		if v.Paired != nil {
			n = fmt.Sprintf("%d pairs", v.Paired.N)
		}
		c.Message += fmt.Sprintf("; %s, shift %s %%", n, decimals("%+.2f", shift))
		if low != nil {
			c.Message += fmt.Sprintf(" [%+.2f, %+.2f]", *low, *high)
		}
		c.Text = all
		s.Cases = append(s.Cases, c)
	}
	return s
}

func (t *Trend) suite(twins bool, newest time.Time) junit.Suite {
	name := t.name(twins)
	s := junit.Suite{Name: "trend " + name, Time: newest, Properties: suiteProperties(t.Kind, t.Mixed)}
	for i := range t.Metrics {
		x := &t.Metrics[i]
		c := outcomeCase(name, x.Key, x.Verdict, x.Marks, x.Why)
		var lines []string
		for _, cut := range x.Cuts {
			t.sayCut(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }, x, cut)
		}
		c.Text = strings.Join(lines, "\n")
		if n := len(x.Cuts); n > 0 {
			last := x.Cuts[n-1]
			c.Message += fmt.Sprintf("; last change %s %% at %s", decimals("%+.2f", last.Percent), day(x.Points[last.Index].Time))
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}
