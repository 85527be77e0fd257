// Package repeats decides, inside a job, whether the next repeat of a load need not run: because
// the valid repeats before it are precise enough, or because their budget is used up.
package repeats

import (
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Decision says whether a load need not run.
type Decision struct {
	Enough bool
	Known  bool            // the series was ended before, so that nothing needs to be noted
	Over   job.RepeatsOver // how the series ends, if it ends now
	Why    string          // the numbers behind Over.Why
}

// Decide decides about the load of a run that would be next. What cannot be found out is an
// error, and no reason to leave a load out.
func Decide(col *collect.Collector, dir, load string, now time.Time) (Decision, error) {
	p, err := run.ReadPlan(dir)
	if err != nil {
		return Decision{}, err
	}
	l := p.Load(load)
	if l == nil || l.Repeat == nil || l.Repeat.Until == nil {
		return Decision{}, fmt.Errorf("the plan has no load %q in a series", load)
	}
	events, err := job.ReadEvents(dir)
	if err != nil {
		return Decision{}, err
	}
	if job.SeriesEnd(events, l.Repeat.Group) != nil {
		return Decision{Enough: true, Known: true}, nil
	}
	s := job.Series{Repeat: l.Repeat, Spent: job.SpentOn(p, events, l.Repeat.Group, now)}
	if s.Values, err = values(col, dir, l.Repeat); err != nil {
		return Decision{}, err
	}
	stopped, why, err := s.Over()
	if err != nil || stopped == "" {
		return Decision{}, err
	}
	return Decision{Enough: true, Why: why, Over: job.RepeatsOver{
		Group: l.Repeat.Group, Done: l.Repeat.Index, Why: stopped, Nodes: p.Job.Nodes,
		Saved: s.Each().Seconds() * float64(l.Repeat.Of-l.Repeat.Index),
	}}, nil
}

// values reads the metrics of the valid repeats before one, in their order.
func values(col *collect.Collector, dir string, next *plan.Repeat) (map[string][]float64, error) {
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
