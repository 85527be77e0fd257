package validity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/stats"
)

// Defaults of an even spread. A proxy that picks at random deviates by chance: the
// share of one of k instances of n requests has a standard deviation of
// sqrt(n/k (1-1/k)). Four of them are passed once in 16,000 such instances, and
// a tenth is where the latency of the fullest instance begins to show.
const (
	maxSpread       = 0.10
	maxSpreadSigmas = 4
)

// FinishedRequests counts the requests that an engine ended itself, by its own word.
const FinishedRequests = "vllm:request_success_total"

// unevenSpread compares the requests of the instances of each kind.
func unevenSpread(c *facts) answer {
	kinds := map[string][]result.ServerDelta{}
	var order []string
	for _, d := range c.m.Server {
		if len(kinds[d.Role]) == 0 {
			order = append(order, d.Role)
		}
		kinds[d.Role] = append(kinds[d.Role], d)
	}
	switch {
	case len(c.e.Died) > 0:
		return notPossible("an instance ended early, see instance-died and role-died")
	case len(order) == 0:
		return notPossible("no counters were read from the engines")
	}
	var parts []string
	bad := false
	for _, kind := range order {
		if c.placed(kind) < 2 && len(kinds[kind]) < 2 {
			continue
		}
		counts, ok := requests(kinds[kind])
		if !ok || len(counts) < c.placed(kind) {
			return notPossible("not every instance of %s counted its requests", kind)
		}
		total := 0.0
		for _, n := range counts {
			total += n
		}
		if total == 0 {
			continue
		}
		fair := total / float64(len(counts))
		worst := 0
		for i, n := range counts {
			if math.Abs(n-fair) > math.Abs(counts[worst]-fair) {
				worst = i
			}
		}
		off := counts[worst] - fair
		allowed := max(c.limit("spread_share")*fair,
			c.limit("spread_sigmas")*math.Sqrt(fair*(1-1/float64(len(counts)))))
		bad = bad || math.Abs(off) > allowed
		parts = append(parts, fmt.Sprintf("%s %s requests, %s_%d %+.1f %% off its share (accepted %.1f %%)",
			kind, numbers(counts), kind, kinds[kind][worst].Replica, 100*off/fair, 100*allowed/fair))
	}
	if len(parts) == 0 {
		return pass("no role has several instances that served")
	}
	return judged(bad, "%s", strings.Join(parts, "; "))
}

// placed is how many instances of a kind were placed, 0 if that is not known.
func (c *facts) placed(kind string) int {
	if c.r.Placement == nil {
		return 0
	}
	n := 0
	for _, r := range c.r.Placement.Roles {
		if r.Role == kind {
			n++
		}
	}
	return n
}

// requests are the finished requests of each instance; ok is false if one was
// not counted, or restarted.
func requests(list []result.ServerDelta) (counts []float64, ok bool) {
	for _, d := range list {
		n, found := d.Counters[FinishedRequests]
		if !found || d.Reset {
			return counts, false
		}
		counts = append(counts, n)
	}
	return counts, true
}

func numbers(list []float64) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprintf("%.0f", n)
	}
	return strings.Join(words, "/")
}

// instanceDied is about roles of which other instances served on.
func instanceDied(c *facts) answer {
	var bad []string
	for _, d := range c.e.Died {
		if c.left(d) > 0 {
			bad = append(bad, d.String()+c.afterwards(d))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case len(c.e.Phases) == 0:
		return notPossible("no phase was recorded, so the roles were not monitored")
	}
	return pass("no instance ended while others served on")
}

// left is how many instances of a role were there to the end.
func (c *facts) left(d RoleEnd) int {
	if d.Spared == nil {
		return 0
	}
	n := d.Spared.Of
	for _, o := range c.e.Died {
		if o.Spared != nil && o.Spared.Kind == d.Spared.Kind {
			n--
		}
	}
	return n
}

func (d RoleEnd) String() string {
	return fmt.Sprintf("%s rank %d on %s ended with %d", d.Role, d.Rank, orNone(d.Node), d.Exit)
}

// afterwards says what the end of one of several instances did to the numbers.
func (c *facts) afterwards(d RoleEnd) string {
	s := d.Spared
	text := fmt.Sprintf("; %d of %d %s instances served on", c.left(d), s.Of, s.Kind)
	if failed, _, ok := c.failed(); ok && c.m.CompletedRequests != nil {
		text += fmt.Sprintf("; %d of %d requests failed", failed, failed+*c.m.CompletedRequests)
	}
	switch {
	case s.BeforeEnd != nil && *s.BeforeEnd <= 0:
		return text + "; the benchmark had ended"
	case s.BeforeEnd == nil:
		return text
	}
	if split := splitBy(c.e.Samples, *s.BeforeEnd); split != "" {
		return text + "; " + split
	}
	if s.Before == nil || s.After == nil {
		return text + "; the times before and after cannot be told apart"
	}
	return text + fmt.Sprintf("; by the counters of the other instances: %s before, %s afterwards", s.Before, s.After)
}

// String is the pace of instances together.
func (p *Pace) String() string {
	text := fmt.Sprintf("%.2f requests/s", p.Requests/p.Seconds)
	if p.Requests > 0 {
		text += fmt.Sprintf(" of %.1f ms on average", 1000*p.Latency/p.Requests)
	}
	return text
}

// splitBy compares the requests that ended until a moment with those behind it.
// The moment is given as seconds before the last request's end, which is the
// client's own end but for what it does with its numbers.
func splitBy(s *result.Samples, beforeEnd float64) string {
	if s == nil || len(s.Start) == 0 || len(s.Start) != len(s.Latency) {
		return ""
	}
	first, last := slices.Min(s.Start), math.Inf(-1)
	for i, start := range s.Start {
		last = max(last, start+s.Latency[i])
	}
	at := last - beforeEnd
	if at <= first {
		return ""
	}
	var before, after []float64
	for i, start := range s.Start {
		switch {
		case s.Failed(i):
		case start+s.Latency[i] <= at:
			before = append(before, s.Latency[i])
		default:
			after = append(after, s.Latency[i])
		}
	}
	return fmt.Sprintf("before %s, afterwards %s", window(before, at-first), window(after, last-at))
}

// window is the pace and the median latency of requests that ended in a time.
func window(latencies []float64, seconds float64) string {
	text := fmt.Sprintf("%.2f requests/s", float64(len(latencies))/seconds)
	if len(latencies) > 0 {
		text += fmt.Sprintf(" of median %.1f ms", 1000*stats.MiddleMean(latencies))
	}
	return text
}
