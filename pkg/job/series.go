package job

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Series is what is known about a series of repeats before the next one begins.
type Series struct {
	*plan.Repeat                      // of the one that would be next
	Values       map[string][]float64 // of the valid ones, by metric
	Spent        time.Duration        // since the first began; 0: not known
}

// Each is how long a repeat took.
func (s Series) Each() time.Duration { return s.Spent / time.Duration(s.Index) }

// hope is how many times the budget a projection may ask for before a series is given
// up: six runs know the width of an interval to a third only, and of series that
// need three quarters of the budget one in five would be given up at once if it were 1.
const hope = 2

// Over returns why the series ends here, "" if it continues: the result is precise, the
// time is over, or the precision is out of reach. It never uses a p-value.
func (s Series) Over() (stopped, why string, err error) {
	precise := true
	var widths, lost []string
	for _, m := range s.Until.Metrics {
		values := s.Values[m]
		if len(values) == 0 {
			precise = false
			if s.Index >= stats.LeastRepeats {
				lost = append(lost, fmt.Sprintf("none of %d repeats has a valid %s", s.Index, m))
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
			some := fmt.Sprintf("about %d", need)
			if need == stats.MaxProjected {
				some = fmt.Sprintf("%d or more", need)
			}
			lost = append(lost,
				fmt.Sprintf("the median of %s is known to ±%.2g %% after %d repeats, and %s would be needed", m,
					look.HalfWidth, len(values), some))
		}
	}
	switch {
	case precise:
		return result.Precise, strings.Join(widths, ", "), nil
	case len(lost) > 0:
		return result.Hopeless, strings.Join(lost, ", "), nil
	case s.Until.Time > 0 && s.Spent+s.Each() > time.Duration(s.Until.Time):
		return result.OutOfTime, fmt.Sprintf("%s of %s are spent, and one more repeat takes %s",
			s.Spent.Round(time.Second/10), time.Duration(s.Until.Time), s.Each().Round(time.Second/10)), nil
	}
	return "", "", nil
}

// SpentOn is the time since a series began.
func SpentOn(p *plan.Plan, events []Event, group string, now time.Time) time.Duration {
	for _, e := range events {
		if l := p.Load(e.Load); e.Event == LoadBegins && l != nil && l.Repeat != nil && l.Repeat.Group == group {
			return max(0, now.Sub(e.Time))
		}
	}
	return 0
}
