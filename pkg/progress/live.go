package progress

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tail"
)

// Live is what the engines and GPUs of a run did when they were last looked at.
type Live struct {
	Running, Waiting float64       // requests, over all engines
	KVCache          float64       // share of the fullest engine's KV cache that is in use
	TokensPerSec     float64       // generated, over all engines
	GPU              float64       // percent of the time, over the GPUs with a role
	Engines, GPUs    bool          // the above are known
	Left             time.Duration // until the client is done; 0: not known
}

// String says it in a few words; "" if nothing is known.
func (l Live) String() string {
	var parts []string
	if l.Engines {
		parts = append(parts, fmt.Sprintf("%g running", l.Running), fmt.Sprintf("%g waiting", l.Waiting),
			fmt.Sprintf("KV %.0f %%", 100*l.KVCache))
		if l.TokensPerSec > 0 {
			parts = append(parts, fmt.Sprintf("%.0f tok/s", l.TokensPerSec))
		}
	}
	if l.GPUs {
		parts = append(parts, fmt.Sprintf("GPU %.0f %%", l.GPU))
	}
	if l.Left > 0 {
		parts = append(parts, fmt.Sprintf("%s left", quantity.Duration(l.Left)))
	}
	return strings.Join(parts, ", ")
}

// live reads what was last sampled while the client of a phase ran.
func live(dir string, pl *plan.Plan, phase string) (l Live) {
	for i := range pl.Loads {
		load := &pl.Loads[i]
		if !slices.ContainsFunc(load.Clients, func(c plan.Step) bool { return load.Phase(c.Name) == phase }) {
			continue
		}
		at := dir
		if below, err := filepath.Rel(pl.Dir, load.Dir); err == nil {
			at = filepath.Join(dir, below)
		}
		lines, _ := tail.Last(filepath.Join(at, run.TelemetryDir, job.GaugeFile(phase)), 4*max(len(pl.Roles), 1))
		l.engines(lines)
	}
	l.gpus(dir, pl)
	return l
}

// engines reads the last looks at the engines.
func (l *Live) engines(lines []string) {
	type look struct{ at, running, waiting, cache, generated float64 }
	last, before := map[string]look{}, map[string]look{}
	for _, line := range lines {
		at, role, gauges, ok := job.ParseGauges(line)
		if !ok {
			continue
		}
		before[role] = last[role]
		last[role] = look{at, gauges[0], gauges[1], gauges[2], 0}
		if len(gauges) > job.Gauges {
			last[role] = look{at, gauges[0], gauges[1], gauges[2], gauges[3]}
		}
	}
	for role, now := range last {
		l.Engines = true
		l.Running += now.running
		l.Waiting += now.waiting
		l.KVCache = max(l.KVCache, now.cache)
		if was := before[role]; was.at > 0 && was.generated > 0 && now.at > was.at && now.generated >= was.generated {
			l.TokensPerSec += (now.generated - was.generated) / (now.at - was.at)
		}
	}
}

// gpus reads the last samples of the GPUs that have a role.
func (l *Live) gpus(dir string, pl *plan.Plan) {
	files, _ := filepath.Glob(filepath.Join(dir, run.TelemetryDir, job.GPUFile("*")))
	used, n := 0.0, 0
	for _, file := range files {
		lines, _ := tail.Last(file, 16)
		last := map[string]float64{} // by UUID
		_ = gpu.Read(strings.NewReader(strings.Join(lines, "\n")+"\n"), func(s gpu.Sample) {
			if s.Use != nil && hasRole(pl, s.Index) {
				last[s.UUID] = *s.Use
			}
		})
		for _, use := range last {
			used += use
			n++
		}
	}
	if l.GPUs = n > 0; l.GPUs {
		l.GPU = used / float64(n)
	}
}

func hasRole(pl *plan.Plan, index int) bool {
	return slices.ContainsFunc(pl.Roles, func(r plan.Role) bool { return slices.Contains(r.GPUs, index) })
}
