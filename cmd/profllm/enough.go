package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/report"
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
	s := job.Series{Repeat: l.Repeat, Spent: job.SpentOn(p, events, l.Repeat.Group, a.now())}
	if s.Values, err = a.seriesValues(c.Dir, p, l.Repeat); err != nil {
		return said("enough", err)
	}
	stopped, why, err := s.Over()
	if err != nil {
		return said("enough", err)
	}
	if stopped == "" {
		return exit(exitNotOver)
	}
	over := job.RepeatsOver{
		Group: l.Repeat.Group, Done: l.Repeat.Index, Why: stopped, Nodes: p.Job.Nodes,
		Saved: s.Each().Seconds() * float64(l.Repeat.Of-l.Repeat.Index),
	}
	a.logf("profllm: no more than %d repeats are made: %s, %s", over.Done, stopped, why)
	return said("enough", c.job(a).EndRepeats(c.Name, why, over))
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
		fmt.Fprintf(&b, "# the job may take %s on %s, %s, in which all repeats have to fit\n", limit, quantity.Count(p.Job.Nodes, "node"),
			quantity.NodeHours(limit.Hours()*float64(p.Job.Nodes)))
	} else {
		b.WriteString("# the job has no time limit\n")
	}
	return b.String()
}
