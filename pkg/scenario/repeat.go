package scenario

import (
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Repeat is how often each load is measured on one start of the server: a number of
// times, or, as a table, until the numbers are precise.
type Repeat struct {
	Times int    // the most; below 2: once
	Until *Until // nil: as often as Times says
	Pos   source.Pos
}

// Until is repeat = { … }: measure a load again until the interval of each median is
// narrow enough, whatever p may come of it.
type Until struct {
	// Largest half-width of the 95 % interval of each median, as a share of the median: "2%".
	// Checked after 6, 9, 12, 15 and 20 repeats.
	Precision Percent `toml:"precision,required"`
	// Keys of results that must reach the precision; default: output_throughput.
	Metrics []string `toml:"metrics"`
	Max     int      `toml:"max"` // Largest number of repeats, 6-20; default 20.
	// Time limit of all repeats together: no repeat begins that would end later; default: none.
	Time Limit `toml:"time"`
}

// What repeats may be asked for.
const (
	maxRepeat   = 100 // more is a typing error, and would make a job of days
	leastSeries = 6   // runs of which a median has an interval
	mostSeries  = 20  // the last look
)

// UnmarshalSource reads a number or a table.
func (r *Repeat) UnmarshalSource(v *source.Value) error {
	r.Pos = v.Pos
	if n, ok := v.Int(); ok {
		if n < 1 || n > maxRepeat {
			return source.Errorf(v.Pos, "repeat is %d, must be 1-%d", n, maxRepeat)
		}
		r.Times = int(n)
		return nil
	}
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "repeat must be a number or a table, not %s", v.Describe()).
			Hintf(`write repeat = 6, or repeat = { precision = "2%%" }`)
	}
	var c source.Complaints
	u := &Until{Metrics: []string{"output_throughput"}, Max: mostSeries}
	if t.Has("metrics") {
		u.Metrics = nil
	}
	c.Add(source.DecodeKey(t, u, "repeat"))
	if u.Max < leastSeries || u.Max > mostSeries {
		c.Add(source.Errorf(t.PosOf("max"), "repeat.max is %d, must be %d-%d", u.Max, leastSeries, mostSeries).
			Hintf("the median of fewer than %d repeats has no interval; for a fixed number, write repeat = %d",
				leastSeries, u.Max))
	}
	if len(u.Metrics) == 0 && c.Err() == nil {
		c.Addf(t.PosOf("metrics"), "repeat.metrics is empty")
	}
	r.Times, r.Until = u.Max, u
	return c.Err()
}

// Percent is a share in percent, written "2%".
type Percent float64

// UnmarshalKey reads the spelling.
func (p *Percent) UnmarshalKey(key string, v *source.Value) error {
	s, isText := v.Any.(string)
	number, marked := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !isText || !marked || err != nil || !(f > 0 && f <= 100) {
		return source.Errorf(v.Pos, "%s: %v is not a share above 0%% and up to 100%%", key, v.Plain()).
			Hintf(`write it as "2%%"`)
	}
	*p = Percent(f)
	return nil
}
