package main

import (
	"fmt"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
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
		m, err := metric.Find(name)
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
