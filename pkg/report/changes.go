package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
)

// Change is a group of runs held against the first group of its kind, setting by setting.
type Change struct {
	First      string      `json:"first"` // groups
	Second     string      `json:"second"`
	Judgements []Judgement `json:"judgements,omitempty"` // none: no run has a counterpart
}

// addChanges holds each group of runs against the first one. Runs belong together if they
// differ in nothing but the settings by which the runs are grouped.
func (r *Report) addChanges(by []string) {
	var names []string
	groups := map[string][]*Entry{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Group == "" || e.OfflineOnly() {
			continue
		}
		if groups[e.Group] == nil {
			names = append(names, e.Group)
		}
		groups[e.Group] = append(groups[e.Group], e)
	}
	for i, second := range names {
		for _, first := range names[:i] {
			if groups[first][0].Kind != groups[second][0].Kind {
				continue
			}
			c := Change{First: first, Second: second}
			if err := c.judge(groups[first], groups[second], by); err != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s is not compared with %s: %v", second, first, err))
			} else {
				r.Changes = append(r.Changes, c)
			}
			break
		}
	}
	var all []Judgement
	var runs []*records.Run
	for i := range r.Runs {
		runs = append(runs, r.Runs[i].Run)
	}
	for _, c := range r.Changes {
		all = append(all, c.Judgements...)
	}
	if err := conclude(all, ProvenBy(runs)); err != nil { // all tests of the report together
		r.Notes = append(r.Notes, fmt.Sprintf("the groups are not compared: %v", err))
		r.Changes = nil
	}
	for i := range r.Changes {
		n := copy(r.Changes[i].Judgements, all)
		all = all[n:]
	}
}

// judge judges the runs of two groups that belong together.
func (c *Change) judge(first, second []*Entry, by []string) error {
	var order []string
	sides := map[string]*[2][]*records.Run{}
	titles := map[string][]string{}
	for side, entries := range [2][]*Entry{first, second} {
		for _, e := range entries {
			key := apartFrom(e.Run, by)
			if sides[key] == nil {
				sides[key], order = &[2][]*records.Run{}, append(order, key)
			}
			c := e.Case
			if c.Iteration, c.Repeat = 0, 0; !slices.Contains(titles[key], c.Title()) {
				titles[key] = append(titles[key], c.Title())
			}
			sides[key][side] = append(sides[key][side], e.Run)
		}
	}
	for _, key := range order {
		a, b := sides[key][0], sides[key][1]
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		j, err := judge(quantity.List(titles[key]), a, b, question{metrics: metric.Usual, one: len(a) == 1 && len(b) == 1})
		if err != nil {
			return err
		}
		c.Judgements = append(c.Judgements, *j)
	}
	return nil
}

// apartFrom is the same for runs that differ in nothing but some settings.
func apartFrom(r *records.Run, by []string) string {
	var list []records.Setting
	for k, v := range r.Settings {
		grouped := slices.ContainsFunc(by, func(g string) bool {
			for _, g := range []string{g, "cmd_args." + g} {
				if k == g || strings.HasPrefix(k, g+".") {
					return true
				}
			}
			return false
		})
		if !grouped {
			list = append(list, records.Setting{Key: k, Value: v})
		}
	}
	slices.SortFunc(list, func(a, b records.Setting) int { return strings.Compare(a.Key, b.Key) })
	return r.Case.Phase + "\x00" + records.Join(list)
}

// sayChanges tells what changed: between two sets of runs, or between groups.
func (r *Report) sayChanges() {
	first, second := "the first", "the second"
	if len(r.Judgements) > 0 {
		first, second = r.Judgements[0].Called()
	}
	r.sayJudgements(r.Judgements, second, first)
	var alone []string
	for i := range r.Changes {
		c := &r.Changes[i]
		r.sayJudgements(c.Judgements, c.Second, c.First)
		if len(c.Judgements) == 0 {
			alone = append(alone, c.Second)
		}
	}
	if len(alone) > 0 {
		r.say(AskChange, fmt.Sprintf("No change is tested for %s: no run has a counterpart in %s that differs only in "+
			"the settings of the groups.", some(alone), r.Changes[0].First), nil)
	}
}

// sayJudgements tells each of a few judgements, and of many how many there are and the worst.
func (r *Report) sayJudgements(list []Judgement, second, first string) {
	if len(list) <= mostChanges {
		for i := range list {
			r.say(AskChange, list[i].text(second, first), list[i].medians())
		}
		return
	}
	count := map[Outcome]int{}
	at := 0
	for i := range list {
		if count[list[i].Verdict]++; list[i].Verdict.rank() < list[at].Verdict.rank() {
			at = i
		}
	}
	r.say(AskChange, fmt.Sprintf("%d comparisons of %s against %s: %s. The first of the worst: %s", len(list), second,
		first, tally(count), list[at].text(second, first)), list[at].medians())
}

func (j *Judgement) medians() []string {
	var dirs []string
	for _, s := range []Side{j.First, j.Second} {
		if s.MedianRun != "" {
			dirs = append(dirs, s.MedianRun)
		}
	}
	return dirs
}

// text says what changed from the first to the second, worst first.
func (j *Judgement) text(second, first string) string {
	head := fmt.Sprintf("%s%s, %s against %s", j.Test, j.Kind.Suffix(), second, first)
	switch {
	case len(j.NotComparable) > 0:
		return fmt.Sprintf("%s: %s: %s.", head, j.Verdict, j.NotComparable[0])
	case len(j.First.Runs) == 0:
		return fmt.Sprintf("%s: %s: %s has no run that can be a baseline.", head, j.Verdict, first)
	case len(j.Second.Runs) == 0:
		return fmt.Sprintf("%s: %s: %s has no run that can be compared.", head, j.Verdict, second)
	case len(j.Metrics) == 0:
		return fmt.Sprintf("%s: %s.", head, j.Verdict)
	}
	var parts []string
	for _, o := range outcomes {
		var said []string
		for i := range j.Metrics {
			if v := &j.Metrics[i]; v.Verdict == o {
				said = append(said, v.shiftText())
			}
		}
		if len(said) > 0 {
			parts = append(parts, string(o)+": "+quantity.List(said))
		}
	}
	return fmt.Sprintf("%s (%s against %d): %s.", head, quantity.Count(len(j.Second.Runs), "run"), len(j.First.Runs),
		strings.Join(parts, "; "))
}

// shiftText is a metric with its shift, unless that is nothing but noise.
func (v *MetricVerdict) shiftText() string {
	shift, low, high, _ := v.Deciding()
	text := phrase(v.Metric)
	if shift == nil || v.Verdict == Same {
		return text
	}
	text += " " + signed(*shift) + " %"
	if low != nil {
		text += fmt.Sprintf(" [%s, %s]", signed(*low), signed(*high))
	}
	for _, m := range v.Marks {
		text += ", " + string(m)
	}
	return text
}

// sayTrends tells which series changed, and where the last change was.
func (r *Report) sayTrends() {
	quiet := map[Outcome]int{}
	for i := range r.Trends {
		t := &r.Trends[i]
		if t.Verdict != Regressed && t.Verdict != Improved {
			quiet[t.Verdict]++
			continue
		}
		for k := range t.Metrics {
			r.sayTrend(t, &t.Metrics[k])
		}
	}
	if len(quiet) == 0 {
		return
	}
	head := "The other series"
	switch {
	case len(r.Trends) == 1:
		head = "The only series"
	case quiet[NoChange]+quiet[Watch]+quiet[TooLittle] == len(r.Trends):
		head = fmt.Sprintf("The %d series", len(r.Trends))
	}
	r.say(AskChange, head+": "+tally(quiet)+".", nil)
}

// sayTrend tells the last change of a metric that matters.
func (r *Report) sayTrend(t *Trend, x *MetricTrend) {
	for i := len(x.Cuts) - 1; i >= 0; i-- {
		c := &x.Cuts[i]
		if c.Verdict != Regressed && c.Verdict != Improved {
			continue
		}
		text := fmt.Sprintf("%s%s: %s %s", t.Test, t.Kind.Suffix(), phrase(x.Metric), c.Verdict)
		if c.Percent != nil {
			text += " by " + signed(*c.Percent) + " %"
		}
		if c.Low != nil {
			text += fmt.Sprintf(" [%s, %s]", signed(*c.Low), signed(*c.High))
		}
		for _, m := range c.Marks {
			text += ", " + string(m)
		}
		first := x.Points[c.Index]
		text += fmt.Sprintf(", from the run of %s on (%s before, %d since).", first.Time.UTC().Format("2006-01-02 15:04"),
			quantity.Count(c.Index, "server start"), len(x.Points)-c.Index)
		r.say(AskChange, text, first.Runs[:min(1, len(first.Runs))])
		return
	}
}

// sayApart tells which runs a comparison or a series leaves out.
func (r *Report) sayApart() {
	list := slices.Clone(r.LeftOut)
	for i := range r.Judgements {
		list = append(append(list, r.Judgements[i].First.LeftOut...), r.Judgements[i].Second.LeftOut...)
	}
	if len(list) == 0 {
		return
	}
	var reasons []cause
	for _, x := range list {
		at := slices.IndexFunc(reasons, func(c cause) bool { return c.what == x.Why })
		if at < 0 {
			at, reasons = len(reasons), append(reasons, cause{what: x.Why, common: x.Why})
		}
		reasons[at].labels, reasons[at].dirs = append(reasons[at].labels, x.Dir), append(reasons[at].dirs, x.Dir)
	}
	said, dirs := r.text(reasons)
	r.say(AskLeftOut, share(len(list), len(r.Runs), "is not compared", "are not compared")+": "+said+".", dirs)
}
