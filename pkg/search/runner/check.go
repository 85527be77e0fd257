package runner

import (
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/search"
)

// mostLoad is above any that a client can make.
const mostLoad = 1e9

// mostConcurrency is the default of the highest concurrency.
const mostConcurrency = 1024

// A GoalError says what is wrong with a key of a goal.
type GoalError struct{ Key, Text string }

func (e *GoalError) Error() string { return e.Key + " " + e.Text }

func wrong(key, format string, args ...any) error {
	return &GoalError{key, fmt.Sprintf(format, args...)}
}

// Check refuses a goal whose loads cannot be measured, with a [*GoalError]. A load that is 0 takes its
// default.
func Check(variable string, g search.Goal) error {
	for _, load := range []struct {
		name  string
		value float64
	}{{"min", g.Min}, {"max", g.Max}, {"resolution", g.Step}, {"start", g.Start}} {
		switch v := load.value; {
		case math.IsNaN(v) || v < 0 || v > mostLoad:
			return wrong(load.name, "is %g, must be a number above 0, and at most %g", v, mostLoad)
		case variable == Concurrency && v != math.Trunc(v):
			return wrong(load.name, "is %g, must be a whole number, since max_concurrency is", v)
		}
	}
	if math.IsNaN(g.AtLeast) || math.IsInf(g.AtLeast, 0) || g.AtLeast < 0 {
		return wrong("at_least", "is %g, must be a number above 0", g.AtLeast)
	}
	lowest, highest := or(g.Min, g.Step), g.Max
	if variable == Concurrency {
		lowest, highest = or(g.Min, 1), or(g.Max, mostConcurrency)
	}
	switch {
	case highest > 0 && highest < lowest && g.Max == 0:
		return wrong("min", "is %g, but max is %g, its default", lowest, highest)
	case highest > 0 && highest < lowest:
		return wrong("max", "is %g, but min is %g", highest, lowest)
	}
	return nil
}
