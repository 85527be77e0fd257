package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// GPUSamples is what a job sampled of the GPUs of its nodes, in the window of the
// client that measured.
type GPUSamples struct {
	Begin    time.Time `json:"begin" jsonschema:"of the window, RFC 3339, UTC"`
	End      time.Time `json:"end"`
	From     string    `json:"window_from" jsonschema:"who said when it was: client; engines, by the last second in which they were busy; job, by the end of the client's process"`
	Interval float64   `json:"interval_s" jsonschema:"asked for between two looks at a GPU"`
	Notes    []string  `json:"notes,omitempty" jsonschema:"what nodes noted of their samples: why there are none or no more, or why nvidia-smi took them instead of NVML"`
	GPUs     []GPUUse  `json:"gpus" jsonschema:"every GPU that a role was given, and every other that was seen on the nodes"`
}

// GPUUse is one GPU in that window. What its driver does not say is absent.
type GPUUse struct {
	Node    string `json:"node"`
	Index   int    `json:"index" jsonschema:"in the order of the PCI bus"`
	UUID    string `json:"uuid,omitempty"`
	Role    string `json:"role,omitempty" jsonschema:"that was given it; absent: none was"`
	Replica int    `json:"replica,omitempty" jsonschema:"0 for the first"`

	Samples     int      `json:"samples"`
	Utilization *float64 `json:"utilization,omitempty" jsonschema:"percent of the time in which a kernel ran, mean over the samples"`
	Power       *float64 `json:"power_w,omitempty" jsonschema:"energy over the window"`
	PeakPower   *float64 `json:"peak_power_w,omitempty"`
	Energy      *float64 `json:"energy_j,omitempty"`
	EnergyFrom  string   `json:"energy_from,omitempty" jsonschema:"counter: difference of the GPU's own counter; power: sum over the samples of its power"`
	PeakMemory  *float64 `json:"peak_memory_gb,omitempty"`
	SMClock     *float64 `json:"sm_clock_mhz,omitempty" jsonschema:"mean over ten or more samples in which it was in use"`
	PeakTemp    *float64 `json:"peak_temperature_c,omitempty"`
	Slowed      *float64 `json:"slowed,omitempty" jsonschema:"share of the samples in which heat or a lack of power slowed it down, 0 to 1"`
	SlowedBy    []string `json:"slowed_by,omitempty" jsonschema:"NVML's reasons: hw-slowdown, sw-thermal, hw-thermal, hw-power-brake"`
	PowerCapped *float64 `json:"power_capped,omitempty" jsonschema:"share of the samples in which it was at its power limit, 0 to 1: no fault"`
	Coverage    float64  `json:"coverage" jsonschema:"share of the window near samples of its power, 0 to 1"`
	LongestGap  float64  `json:"longest_gap_s" jsonschema:"in the window without such a sample"`
}

func (u *GPUUse) name() string { return fmt.Sprintf("%s GPU %d", u.Node, u.Index) }

// Energy is what the GPUs that served drew in the client's window. It is there if it
// is known of every one of them.
type Energy struct {
	GPUEnergy            *float64 `json:"gpu_energy_j,omitempty" jsonschema:"of all GPUs that served, in the client's window"`
	GPUPower             *float64 `json:"gpu_power_w,omitempty" jsonschema:"of all GPUs that served, mean over the client's window"`
	JoulesPerOutputToken *float64 `json:"joules_per_output_token,omitempty" jsonschema:"gpu_energy_j over total_output_tokens: GPUs only, idle ones of the roles included, hosts and switches not"`
}

// energyKeys are those of Energy.
var energyKeys = []string{"gpu_energy_j", "gpu_power_w", "joules_per_output_token"}

// SetGPUs puts the samples into the record, with what follows from them. Call it when
// the client's numbers are there.
func (r *Result) SetGPUs(s *GPUSamples) {
	if r.System == nil {
		r.System = &System{}
	}
	r.System.GPUSamples = s
	var energy, use float64
	planned, metered, seen := 0, 0, 0
	for _, u := range s.GPUs {
		if u.Role == "" {
			continue
		}
		planned++
		if u.Energy != nil {
			metered++
			energy += *u.Energy
		}
		if u.Utilization != nil {
			seen++
			use += *u.Utilization
		}
		if m := u.PeakMemory; m != nil && (r.System.PeakGPUMemoryGB == nil || *r.System.PeakGPUMemoryGB < *m) {
			r.System.PeakGPUMemoryGB = m
		}
	}
	if seen > 0 && seen == planned {
		r.System.AvgGPUUtilization = new(use / float64(seen))
	}
	seconds := s.End.Sub(s.Begin).Seconds()
	if metered == 0 || metered < planned || seconds <= 0 {
		return
	}
	m := &r.Results
	m.GPUEnergy, m.GPUPower = &energy, new(energy/seconds)
	if n := m.TotalOutputTokens; n != nil && *n > 0 {
		m.JoulesPerOutputToken = new(energy / float64(*n))
	}
}

// NodeGPU is a GPU that a role was given, as its node sees it before the start.
type NodeGPU struct{ Node, Name, Driver string }

// gpus returns the samples, or why there are none to judge.
func (c *facts) gpus() (s *GPUSamples, why string) {
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
			bad = append(bad, fmt.Sprintf("%s has no role, but was in use %.1f %% of the time (accepted %s %%)", u.name(), *u.Utilization, percent(foreign)))
		case u.Role != "":
			seen++
			least = min(least, *u.Utilization)
			if *u.Utilization < 100*use {
				bad = append(bad, fmt.Sprintf("%s of %s was in use %.1f %% of the time (accepted from %s %%)", u.name(), u.Role, *u.Utilization, percent(use)))
			}
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case seen < planned:
		return notPossible("the client's window has no sample of the use of %d of %d planned GPUs", planned-seen, planned)
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
	clocks := map[string][]*GPUUse{}
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
			bad = append(bad, fmt.Sprintf("%s was slowed down in %.1f %% of the samples (%s; accepted %s %%)", u.name(), 100**u.Slowed, orNone(strings.Join(u.SlowedBy, ", ")), percent(share)))
		}
	}
	for _, role := range slices.Sorted(maps.Keys(clocks)) {
		slow, fast := slowest(clocks[role])
		x := 1 - *slow.SMClock / *fast.SMClock
		spread = max(spread, x)
		if x > apart {
			bad = append(bad, fmt.Sprintf("SM clocks of %s: %s %.0f MHz, %s %.0f MHz, %.1f %% apart (accepted %s %%)", role, slow.name(), *slow.SMClock, fast.name(), *fast.SMClock, 100*x, percent(apart)))
		}
	}
	switch {
	case len(bad) > 0:
		return fail("%s", list(bad))
	case seen == 0:
		return notPossible("the GPUs reported no reasons for their clocks")
	}
	return pass("slowed down in at most %.1f %% of the samples; SM clocks at most %.1f %% apart%s", 100*most, 100*spread, unseen(seen, planned))
}

// slowest returns the GPUs with the lowest and the highest mean SM clock.
func slowest(list []*GPUUse) (slow, fast *GPUUse) {
	by := func(a, b *GPUUse) int { return cmp.Compare(*a.SMClock, *b.SMClock) }
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
			bad = append(bad, fmt.Sprintf("%s: longest gap %.1f s (accepted %s s), %.1f %% of the window covered (accepted from %s %%)", u.name(), u.LongestGap, plain(gap), 100*u.Coverage, percent(coverage)))
		}
	}
	if metered == 0 {
		return notPossible("no planned GPU reported its power")
	}
	a := pass("longest gap %.1f s, at least %.1f %% of the window covered", longest, 100*least)
	if len(bad) > 0 {
		a = fail("%s", list(bad))
	}
	a.withheld = energyKeys
	return a
}
