package config

import (
	"slices"

	"github.com/profllm/profllm/pkg/source"
)

// Checks are those of a preflight that a file may name, in the order in which
// they are made. That ports are free is always looked at.
var Checks = []string{
	"gpus", "gpu-memory", "gpu-processes", "gpus-alike", "shm", "shm-leftovers", "disk", "tmp", "mounts", "memory",
	"clock", "limits", "processes",
}

// Preflight is [preflight] of a system file and [Tests.preflight]: what each node
// must look like before servers start. nil is the default.
type Preflight struct {
	// Memory of a planned GPU that may be in use, GiB; default 2.
	GPUMemory *float64 `toml:"gpu_memory_gib" json:"gpu_memory_gib,omitempty"`
	// Free in /dev/shm, GiB; default 8. Less is a warning, less than 16 MiB a failure.
	Shm *float64 `toml:"shm_gib" json:"shm_gib,omitempty"`
	// Free where the run directory lies, GiB; default 1. Less is a warning, less than 16 MiB a
	// failure.
	Disk *float64 `toml:"disk_gib" json:"disk_gib,omitempty"`
	// Free in TMPDIR or /tmp, GiB; default 1. Less is a warning, less than 16 MiB a failure.
	Tmp *float64 `toml:"tmp_gib" json:"tmp_gib,omitempty"`
	// Memory of the host that is available to the job, GiB; default 4.
	Memory *float64 `toml:"memory_gib" json:"memory_gib,omitempty"`
	// Largest accepted difference between a node's clock and that of the job's first node, s;
	// default 1.
	Clock *float64 `toml:"clock_s" json:"clock_s,omitempty"`
	Off   []string `toml:"off" json:"off,omitempty"`   // Checks that are not made.
	Warn  []string `toml:"warn" json:"warn,omitempty"` // Checks that never end the job.
	Fail  []string `toml:"fail" json:"fail,omitempty"` // Checks whose warning ends the job.
}

// UnmarshalSource reads a preflight, and refuses limits below zero and checks
// that there are not.
func (p *Preflight) UnmarshalSource(v *source.Value) error {
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "preflight must be a table, not %s", v.Describe()).
			Hintf("write [preflight] in the system file, [Tests.preflight] in a scenario")
	}
	var c source.Complaints
	type plain Preflight
	c.Add(source.Decode(t, (*plain)(p)))
	for _, key := range t.Keys() {
		if n, ok := t.Get(key).Float(); ok && n < 0 {
			c.Addf(t.PosOf(key), "preflight.%s is %g, must be 0 or more", key, n)
		}
	}
	first := map[string]string{}
	for _, l := range []struct {
		key   string
		names []string
	}{{"off", p.Off}, {"warn", p.Warn}, {"fail", p.Fail}} {
		for i, name := range l.names {
			pos := t.ElementPos(l.key, i)
			switch {
			case name == "": // not a string, which has been said
			case !slices.Contains(Checks, name):
				c.Add(source.Errorf(pos, "preflight has no check %q", name).Hintf("%s", source.Suggest(name, Checks)))
			case first[name] != "":
				c.Addf(pos, "check %q is already in %s", name, first[name])
			}
			first[name] = l.key
		}
	}
	return c.Err()
}

// Over is p where it says something, else what base says. A check that p names
// stands in none of base's lists.
func (p *Preflight) Over(base *Preflight) *Preflight {
	switch {
	case p == nil:
		return base
	case base == nil:
		return p
	}
	merged := *base
	for _, l := range []struct{ to, from **float64 }{
		{&merged.GPUMemory, &p.GPUMemory}, {&merged.Shm, &p.Shm}, {&merged.Disk, &p.Disk},
		{&merged.Tmp, &p.Tmp}, {&merged.Memory, &p.Memory}, {&merged.Clock, &p.Clock},
	} {
		if *l.from != nil {
			*l.to = *l.from
		}
	}
	named := slices.Concat(p.Off, p.Warn, p.Fail)
	for _, l := range []struct {
		to   *[]string
		from []string
	}{{&merged.Off, p.Off}, {&merged.Warn, p.Warn}, {&merged.Fail, p.Fail}} {
		kept := slices.DeleteFunc(slices.Clone(*l.to), func(name string) bool { return slices.Contains(named, name) })
		*l.to = append(kept, l.from...)
	}
	return &merged
}
