package validity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

func gpuName(u *result.GPUUse) string { return fmt.Sprintf("%s GPU %d", u.Node, u.Index) }

// NodeGPU is a GPU that a role was given, as its node sees it before the start.
type NodeGPU struct{ Node, Name, Driver string }

// gpus returns the samples, or why there are none to judge.
func (c *facts) gpus() (s *result.GPUSamples, why string) {
	if x := c.r.System; x != nil {
		s = x.GPUSamples
	}
	switch {
	case c.e.Planned.NoBenchmark:
		return nil, "no benchmark was planned"
	case c.e.Planned.GPUs == 0:
		return nil, "no GPU was planned"
	case s == nil:
		return nil, cmp.Or(c.e.NoGPUSamples, "the GPUs were not sampled")
	}
	return s, ""
}

// unseen says how many of the planned GPUs lack what a check looks at; "" if none.
func unseen(seen, planned int) string {
	if seen == planned {
		return ""
	}
	return fmt.Sprintf("; not known for %d of %d planned GPUs", planned-seen, planned)
}

// gpuIdle looks for GPUs that were given to a role and not used, and for others that
// somebody used.
func gpuIdle(c *facts) answer {
	s, why := c.gpus()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad []string
	planned, seen, least := 0, 0, 100.0
	use, foreign := c.limit("gpu_use"), c.limit("gpu_foreign")
	for _, u := range s.GPUs {
		if u.Role != "" {
			planned++
		}
		switch {
		case u.Utilization == nil:
			continue
		case u.Role == "" && *u.Utilization > 100*foreign:
			bad = append(bad, fmt.Sprintf("%s has no role, but was in use %.1f %% of the time (accepted %s %%)",
				gpuName(&u), *u.Utilization, percent(foreign)))
		case u.Role != "":
			seen++
			least = min(least, *u.Utilization)
			if *u.Utilization < 100*use {
				bad = append(bad,
					fmt.Sprintf("%s of %s was in use %.1f %% of the time (accepted from %s %%)", gpuName(&u), u.Role,
						*u.Utilization, percent(use)))
			}
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case seen < planned:
		return notPossible("the client's window has no sample of the use of %d of %d planned GPUs", planned-seen,
			planned)
	}
	return pass("each of %d planned GPUs was in use at least %.1f %% of the time, and no other GPU was", planned, least)
}

// throttled looks for GPUs that something slowed down, and for those among GPUs of one
// kind of role that were slower than others.
func throttled(c *facts) answer {
	s, why := c.gpus()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad []string
	planned, seen, most, spread := 0, 0, 0.0, 0.0
	clocks := map[string][]*result.GPUUse{}
	share, apart := c.limit("slowed_share"), c.limit("clock_spread")
	for i := range s.GPUs {
		u := &s.GPUs[i]
		if u.Role == "" {
			continue
		}
		planned++
		if u.SMClock != nil && *u.SMClock > 0 {
			clocks[u.Role] = append(clocks[u.Role], u)
		}
		if u.Slowed == nil {
			continue
		}
		seen++
		most = max(most, *u.Slowed)
		if *u.Slowed > share {
			bad = append(bad, fmt.Sprintf("%s was slowed down in %.1f %% of the samples (%s; accepted %s %%)",
				gpuName(u), 100**u.Slowed, orNone(strings.Join(u.SlowedBy, ", ")), percent(share)))
		}
	}
	for _, role := range slices.Sorted(maps.Keys(clocks)) {
		slow, fast := slowest(clocks[role])
		x := 1 - *slow.SMClock / *fast.SMClock
		spread = max(spread, x)
		if x > apart {
			bad = append(bad, fmt.Sprintf("SM clocks of %s: %s %.0f MHz, %s %.0f MHz, %.1f %% apart (accepted %s %%)",
				role, gpuName(slow), *slow.SMClock, gpuName(fast), *fast.SMClock, 100*x, percent(apart)))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case seen == 0:
		return notPossible("the GPUs reported no reasons for their clocks")
	}
	return pass("slowed down in at most %.1f %% of the samples; SM clocks at most %.1f %% apart%s", 100*most,
		100*spread, unseen(seen, planned))
}

// slowest returns the GPUs with the lowest and the highest mean SM clock.
func slowest(list []*result.GPUUse) (slow, fast *result.GPUUse) {
	by := func(a, b *result.GPUUse) int { return cmp.Compare(*a.SMClock, *b.SMClock) }
	return slices.MinFunc(list, by), slices.MaxFunc(list, by)
}

// mixedHardware compares the planned GPUs of all nodes.
func mixedHardware(c *facts) answer {
	if c.e.Planned.GPUs == 0 {
		return notPossible("no GPU was planned")
	}
	if len(c.e.Hardware) == 0 {
		return notPossible("the GPUs were not checked before the start")
	}
	kinds := map[string]string{} // → the first node that has it
	for _, g := range c.e.Hardware {
		kind := fmt.Sprintf("%s, driver %s", g.Name, g.Driver)
		if _, known := kinds[kind]; !known {
			kinds[kind] = g.Node
		}
	}
	var each []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		each = append(each, kinds[kind]+" has "+kind)
	}
	if len(kinds) > 1 {
		return fail("%s", list(each))
	}
	return pass("all of %d planned GPUs are alike: %s", len(c.e.Hardware), list(each))
}

// powerGaps looks for times in which nobody knows what a GPU drew.
func powerGaps(c *facts) answer {
	s, why := c.gpus()
	if why != "" {
		return notPossible("%s", why)
	}
	var bad []string
	metered, longest, least := 0, 0.0, 1.0
	gap, coverage := c.limit("power_gap_s"), c.limit("power_coverage")
	for _, u := range s.GPUs {
		if u.Role == "" {
			continue
		}
		if u.Energy != nil {
			metered++
		}
		longest, least = max(longest, u.LongestGap), min(least, u.Coverage)
		if u.LongestGap > gap || u.Coverage < coverage {
			bad = append(bad, fmt.Sprintf("%s: longest gap %.1f s (accepted %s s), %.1f %% of the window covered (accepted from %s %%)", gpuName(&u), u.LongestGap, plain(gap), 100*u.Coverage, percent(coverage)))
		}
	}
	if metered == 0 {
		return notPossible("no planned GPU reported its power")
	}
	a := pass("longest gap %.1f s, at least %.1f %% of the window covered", longest, 100*least)
	if len(bad) > 0 {
		a = fail("%s", list(bad))
	}
	a.withheld = result.EnergyKeys()
	return a
}
