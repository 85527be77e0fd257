package scenario

import (
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// Telemetry is [Tests.telemetry]: how the nodes and their GPUs are sampled while the job
// runs.
type Telemetry struct {
	Enabled   *bool    `toml:"enabled"`    // false: nodes are not sampled; default true in jobs with GPUs.
	IntervalS *float64 `toml:"interval_s"` // Time between two samples of a node, s, from 0.1 to 2; default 1.
}

// Bounds of interval_s: a look costs the driver some milliseconds for each GPU, and a
// gap of more than 3 s makes energy unknown.
const (
	leastInterval = 0.1
	mostInterval  = 2
)

// Interval is the time between two looks at the GPUs, 0 for none.
func (t Telemetry) Interval() time.Duration {
	switch {
	case t.Enabled != nil && !*t.Enabled:
		return 0
	case t.IntervalS != nil:
		return time.Duration(*t.IntervalS * float64(time.Second))
	}
	return time.Second
}

// UnmarshalSource reads the table, and refuses an interval that is of no use.
func (t *Telemetry) UnmarshalSource(v *source.Value) error {
	table, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "telemetry must be a table, not %s", v.Describe()).Hintf("write [Tests.telemetry]")
	}
	var c source.Complaints
	type plain Telemetry
	c.Add(source.Decode(table, (*plain)(t)))
	if s := t.IntervalS; s != nil && !(*s >= leastInterval && *s <= mostInterval) {
		c.Add(source.Errorf(table.PosOf("interval_s"), "telemetry.interval_s is %g, must be %g to %d", *s,
			leastInterval, mostInterval).
			Hintf("to disable sampling, write enabled = false"))
	}
	return c.Err()
}
