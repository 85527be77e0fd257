package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/stats"
)

type jobEnoughCmd struct {
	runFlag
	Name string `required:"" help:"Name of the load that would be next."`
}

// Run ends well if the load need not run, because those before it in its series are
// enough. Whatever cannot be found out is no reason to leave one out.
func (c jobEnoughCmd) Run(a *app) error {
	p, err := run.ReadPlan(c.Dir)
	if err != nil {
		return said("enough", err)
	}
	l := p.Load(c.Name)
	if l == nil || l.Repeat == nil || l.Repeat.Until == nil {
		return said("enough", fmt.Errorf("the plan has no load %q in a series", c.Name))
	}
	events, err := job.ReadEvents(c.Dir)
	if err != nil {
		return said("enough", err)
	}
	if job.SeriesEnd(events, l.Repeat.Group) != nil {
		return nil
	}
	s := series{Repeat: l.Repeat, spent: spent(p, events, l.Repeat.Group, a.now())}
	if s.values, err = a.seriesValues(c.Dir, p, l.Repeat); err != nil {
		return said("enough", err)
	}
	stopped, why, err := s.over()
	if err != nil {
		return said("enough", err)
	}
	if stopped == "" {
		return exit(exitNotOver)
	}
	over := job.RepeatsOver{
		Group: l.Repeat.Group, Done: l.Repeat.Index, Why: stopped, Nodes: p.Job.Nodes,
		Saved: s.each().Seconds() * float64(l.Repeat.Of-l.Repeat.Index),
	}
	a.logf("profllm: %d repeats are made, and no more: %s, %s", over.Done, stopped, why)
	return said("enough", c.job(a).EndRepeats(c.Name, why, over))
}

// series is what is known of repeats before one of them begins.
type series struct {
	*plan.Repeat                      // of the one that would be next
	values       map[string][]float64 // of the valid ones, by metric
	spent        time.Duration        // since the first began; 0: not known
}

// each is how long a repeat took.
func (s series) each() time.Duration { return s.spent / time.Duration(s.Index) }

// hope is how many times the budget a projection may ask for before a series is given
// up: six runs know the width of an interval to a third only, and of series that
// need three quarters of the budget one in five would be given up at once if it were 1.
const hope = 2

// over says why the series ends here, "" if it goes on: it is precise, out of time, or
// without hope. It never asks for a p.
func (s series) over() (stopped, why string, err error) {
	precise := true
	var widths, lost []string
	for _, m := range s.Until.Metrics {
		values := s.values[m]
		if len(values) == 0 {
			precise = false
			if s.Index >= stats.LeastRepeats {
				lost = append(lost, fmt.Sprintf("none of %d repeats has a %s that can be believed", s.Index, m))
			}
			continue
		}
		look, err := stats.Repeat(values, s.Until.Percent, s.Of)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", m, err)
		}
		precise = precise && look.Precise
		if !math.IsInf(look.HalfWidth, 0) {
			widths = append(widths, fmt.Sprintf("the median of %s is known to ±%.2g %%", m, look.HalfWidth))
		}
		if look.Precise || !stats.Looks(len(values)) {
			continue
		}
		need, err := stats.Project(values, s.Until.Percent)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", m, err)
		}
		if need > hope*s.Of {
			some := fmt.Sprintf("some %d", need)
			if need == stats.MaxProjected {
				some = fmt.Sprintf("%d or more", need)
			}
			lost = append(lost, fmt.Sprintf("the median of %s is known to ±%.2g %% after %d, and %s would be needed", m, look.HalfWidth, len(values), some))
		}
	}
	switch {
	case precise:
		return result.Precise, strings.Join(widths, ", "), nil
	case len(lost) > 0:
		return result.Hopeless, strings.Join(lost, ", "), nil
	case s.Until.Time > 0 && s.spent+s.each() > time.Duration(s.Until.Time):
		return result.OutOfTime, fmt.Sprintf("%s of %s are spent, and a repeat takes %s",
			s.spent.Round(time.Second/10), time.Duration(s.Until.Time), s.each().Round(time.Second/10)), nil
	}
	return "", "", nil
}

// spent is the time since a series began.
func spent(p *plan.Plan, events []job.Event, group string, now time.Time) time.Duration {
	for _, e := range events {
		if l := p.Load(e.Load); e.Event == job.LoadBegins && l != nil && l.Repeat != nil && l.Repeat.Group == group {
			return max(0, now.Sub(e.Time))
		}
	}
	return 0
}

// seriesValues reads the metrics of the valid repeats before one, in their order.
func (a *app) seriesValues(dir string, p *plan.Plan, next *plan.Repeat) (map[string][]float64, error) {
	col, err := a.client().Collector()
	if err != nil {
		return nil, err
	}
	records, err := col.Run(dir, nil)
	if err != nil {
		return nil, err
	}
	values := map[string][]float64{}
	for _, name := range next.Until.Metrics {
		m, err := report.FindMetric(name)
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			x := rec.Result.Repeats
			if x == nil || x.Group != next.Group || x.Index >= next.Index || !rec.Result.Validity.Valid {
				continue
			}
			if v := m.Of(rec.Result).Number; v != nil {
				values[name] = append(values[name], *v)
			}
		}
	}
	return values, nil
}

// seriesLines say, for a person, what the series of a plan may come to.
func seriesLines(p *plan.Plan) string {
	var b strings.Builder
	var seen []string
	for _, l := range p.Loads {
		if l.Repeat == nil || l.Repeat.Until == nil || slices.Contains(seen, l.Repeat.Group) {
			continue
		}
		seen = append(seen, l.Repeat.Group)
		u := l.Repeat.Until
		fmt.Fprintf(&b, "# %s: repeats until the median of %s is known to ±%g %%: %d at least, %d at most", cmp.Or(strings.TrimSuffix(strings.TrimSuffix(l.Name, "r1"), "."), p.Test),
			strings.Join(u.Metrics, ", "), u.Percent, stats.LeastRepeats, l.Repeat.Of)
		if u.Time > 0 {
			fmt.Fprintf(&b, ", none that would end after %s", time.Duration(u.Time))
		}
		b.WriteString("\n")
	}
	if len(seen) == 0 {
		return ""
	}
	if limit := time.Duration(p.Job.TimeLimit); limit > 0 {
		fmt.Fprintf(&b, "# the job may take %s on %s, %.1f node-hours, in which all repeats have to fit\n", limit, several(p.Job.Nodes, "node"), limit.Hours()*float64(p.Job.Nodes))
	} else {
		b.WriteString("# the job has no time limit\n")
	}
	return b.String()
}
