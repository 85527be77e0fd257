package collect

import (
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
)

// leftOut reports whether the load is of a series that ended before it.
func leftOut(events []job.Event, l *plan.Load) bool {
	x := l.Repeat
	if x == nil || x.Until == nil {
		return false
	}
	end := job.SeriesEnd(events, x.Group)
	return end != nil && x.Index >= end.Repeats.Done
}

// seriesOf is what became of the series that the load belongs to; nil if it is of none.
func seriesOf(e *evidence) *result.Series {
	x := e.load.Repeat
	if x.Until == nil {
		return nil
	}
	s := &result.Series{Percent: x.Until.Percent, Metrics: x.Until.Metrics}
	if end := job.SeriesEnd(e.events, x.Group); end != nil {
		o := end.Repeats
		s.Done, s.Stopped, s.Why = o.Done, o.Why, end.Text
		s.SavedRepeats, s.SavedNodeMinutes = x.Of-o.Done, o.Saved*float64(o.Nodes)/60
		return s
	}
	for _, ev := range e.events {
		if l := e.plan.Load(ev.Load); ev.Event == job.LoadBegins && l != nil && l.Repeat != nil &&
			l.Repeat.Group == x.Group {
			s.Done++
		}
	}
	if e.sentinel != nil && s.Done == x.Of {
		s.Stopped = result.AllRan
	}
	return s
}
