package collect

import (
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/stats"
)

// point is one look at the engines.
type point struct {
	at, running, waiting, cache float64
	engines                     int
}

func (p point) busy() bool { return p.running+p.waiting > 0 }

// busyPoints are the looks at the engines' gauges from the first to the last that
// found them busy. Lines that a crash cut short, or that nobody understands, are left
// out.
func busyPoints(data []byte) []point {
	var points []point
	most := 0
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		at, role, v, ok := job.ParseGauges(line)
		if !ok {
			continue
		}
		// An engine comes once in each look.
		if n := len(points); n == 0 || seen[role] || math.Abs(at-points[n-1].at) > job.GaugeInterval.Seconds()/2 {
			points = append(points, point{at: at})
			clear(seen)
		}
		seen[role] = true
		p := &points[len(points)-1]
		p.running += v[0]
		p.waiting += v[1]
		p.cache = max(p.cache, v[2])
		p.engines++
		most = max(most, p.engines)
	}
	// A sum without an engine that did not answer is none.
	points = slices.DeleteFunc(points, func(p point) bool { return p.engines < most })
	first := slices.IndexFunc(points, point.busy)
	if first < 0 {
		return nil
	}
	for !points[len(points)-1].busy() {
		points = points[:len(points)-1]
	}
	return points[first:]
}

// busyOf are the busyPoints of the client that measured, none if nobody looked.
func busyOf(e *evidence, w *warnings) []point {
	name := filepath.Join(run.TelemetryDir, job.GaugeFile(e.load.Clients[0].Name))
	data, err := regular.ReadFile(filepath.Join(e.at, name))
	if err != nil {
		w.unread(name, err)
		return nil
	}
	return busyPoints(data)
}

// serverLoad sums up the last window seconds of the points, nil if there are none:
// before lie the client's probe and its warm-ups. Without a window it is all of them.
func serverLoad(points []point, window float64) *result.ServerLoad {
	if len(points) == 0 {
		return nil
	}
	if last := points[len(points)-1].at; window > 0 {
		points = slices.DeleteFunc(points, func(p point) bool { return p.at < last-window })
	}
	out := &result.ServerLoad{Samples: len(points)}
	var gaps []float64
	for i, p := range points {
		out.Running += p.running
		out.Waiting += p.waiting
		out.RunningMax, out.WaitingMax = max(out.RunningMax, p.running), max(out.WaitingMax, p.waiting)
		out.KVCacheMax = max(out.KVCacheMax, p.cache)
		if i > 0 {
			gaps = append(gaps, p.at-points[i-1].at)
		}
	}
	out.Running /= float64(len(points))
	out.Waiting /= float64(len(points))
	if len(gaps) > 0 {
		out.IntervalSec = math.Round(1000*stats.UpperMedian(gaps)) / 1000
	}
	return out
}
