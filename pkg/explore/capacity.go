package explore

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// Plan is what one configuration serves within limits, at the highest load that keeps them.
type Plan struct {
	Settings []records.Setting `json:"settings"` // in which the configurations differ
	Load     []records.Setting `json:"load"`
	Run      string            `json:"run"`
	Value    float64           `json:"value"`   // of the metric that the target is of
	PerGPU   *float64          `json:"per_gpu"` // nil where the GPUs are not known
	GPUs     int               `json:"gpus"`    // of one copy of the service
	// Copies of the service that reach the target, and their GPUs; 0 without a target.
	Copies int `json:"copies,omitempty"`
	Total  int `json:"total_gpus,omitempty"` // 0 also where the GPUs are not known
	// Limits are the metrics that were limited, as they were at this load.
	Limits []LimitedValue `json:"limits"`
	Runs   int            `json:"runs"`    // of this configuration that count
	Beyond int            `json:"beyond"`  // of them that break a limit, or lack its metric
	Top    bool           `json:"highest"` // it is at the highest load that was tried: it may serve more
}

// LimitedValue is a metric under a limit.
type LimitedValue struct {
	metric.Limit
	Measured float64 `json:"measured"`
}

// Capacity answers which configuration serves a target within limits.
type Capacity struct {
	Kind   records.Kind  `json:"kind,omitempty"`
	Metric metric.Metric `json:"metric"`
	Target float64       `json:"target,omitempty"`
	// Plans are the configurations that keep the limits: the fewest GPUs for the target first, without a
	// target the most per GPU.
	Plans []Plan `json:"plans"`
	// Beyond are the configurations of which no run keeps the limits.
	Beyond [][]records.Setting `json:"beyond,omitempty"`
}

// Capacities finds what each configuration serves within limits. A target is in the metric's unit; 0 is none.
// The numbers of a load are medians of its runs.
func Capacities(runs []Run, m metric.Metric, limits []metric.Limit, target float64) *Capacity {
	list, kind := match(runs)
	groups, order := grouped(pointers(list), isLoad)
	keys := slices.DeleteFunc(differing(list), isLoad)
	c := &Capacity{Kind: kind, Metric: m, Target: target, Plans: []Plan{}}
	for _, d := range order {
		if p, ok := planOf(groups[d], m, limits); ok {
			p.Settings = groups[d][0].settings(keys)
			p.reach(target)
			c.Plans = append(c.Plans, p)
		} else {
			c.Beyond = append(c.Beyond, groups[d][0].settings(keys))
		}
	}
	unknown := func(p Plan) int {
		if target > 0 && p.Total == 0 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(c.Plans, func(a, b Plan) int {
		return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(a.Total, b.Total), -cmp.Compare(a.share(), b.share()),
			strings.Compare(records.Join(a.Settings), records.Join(b.Settings)))
	})
	return c
}

// planOf is the load of a configuration that does most within the limits.
func planOf(group []*matched, m metric.Metric, limits []metric.Limit) (best Plan, ok bool) {
	best.Runs = len(group)
	var tried [][]float64
	var chosen []float64
	for _, load := range repeats(group) {
		tried = append(tried, loadOf(load[0]))
		value, at := middle(load, m)
		values, kept := keeps(load, limits)
		if at == nil || !kept {
			best.Beyond += len(load)
			continue
		}
		if !ok || m.Beats(value, best.Value) {
			ok, chosen = true, loadOf(load[0])
			best.Value, best.Run, best.Limits, best.Load = value, at.ID, values, at.settings(report.LoadKeys)
			best.GPUs, best.PerGPU = at.gpus(), nil
			if best.GPUs > 0 {
				best.PerGPU = new(value / float64(best.GPUs))
			}
		}
	}
	best.Top = ok && !slices.ContainsFunc(tried, func(load []float64) bool { return higher(load, chosen) })
	return best, ok
}

// loadOf is how much load a run had, a number for each of report.LoadKeys. One that is not set, or is "inf",
// does not hold the load back.
func loadOf(x *matched) []float64 {
	load := make([]float64, len(report.LoadKeys))
	for i, k := range report.LoadKeys {
		load[i] = math.Inf(1)
		if v := field.Read(x.factors[k]); v.IsNumber() {
			load[i] = v.Number
		}
	}
	return load
}

// higher reports whether a load is above another in one number, and below it in none.
func higher(a, b []float64) bool {
	above := false
	for i := range a {
		if a[i] < b[i] {
			return false
		}
		above = above || a[i] > b[i]
	}
	return above
}

// keeps reports whether the medians of the runs of a load are within all limits, and gives them.
func keeps(load []*matched, limits []metric.Limit) (values []LimitedValue, ok bool) {
	values = []LimitedValue{}
	for _, l := range limits {
		v, at := middle(load, l.Metric)
		if at == nil || !l.Meets(l.Metric.RealTime(v, records.KindOf(at.Result).Speed())) {
			return nil, false
		}
		values = append(values, LimitedValue{l, v})
	}
	return values, true
}

// reach counts the copies that reach a target.
func (p *Plan) reach(target float64) {
	if target > 0 && p.Value > 0 {
		p.Copies = int(math.Ceil(target / p.Value))
		p.Total = p.Copies * p.GPUs
	}
}

func (p *Plan) share() float64 {
	if p.PerGPU == nil {
		return 0
	}
	return *p.PerGPU
}
