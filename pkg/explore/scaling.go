package explore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

// ScalingReport is how throughput grows with GPUs.
type ScalingReport struct {
	Metric   metric.Metric `json:"metric"`
	Kind     records.Kind  `json:"kind,omitempty"`
	Scalings []Scaling     `json:"scalings"`
}

// Scaling is how one configuration's throughput grows with GPUs, each number of GPUs at its best load.
type Scaling struct {
	Settings []records.Setting `json:"settings"` // in which the configurations differ
	Points   []ScalingPoint    `json:"points"`   // the fewest GPUs first
}

// ScalingPoint is one number of GPUs.
type ScalingPoint struct {
	GPUs  int     `json:"gpus"`
	Value float64 `json:"value"`
	// Efficiency is the value per GPU as a share of that of the fewest GPUs.
	Efficiency float64 `json:"efficiency"`
	// LowLoad: at the highest load of this number of GPUs, while another number has runs at a higher one.
	// What this number of GPUs can do is not known.
	LowLoad bool              `json:"low_load,omitempty"`
	Layout  []records.Setting `json:"layout"` // parallel sizes and load
	Run     string            `json:"run"`
	Of      int               `json:"of"` // runs with as many GPUs
}

// parallel are the settings that spread a model over GPUs, by the last part of their keys.
var parallel = []string{
	"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local",
	"decode_context_parallel_size", "prefill_context_parallel_size", "enable_expert_parallel", "tp_size", "dp_size",
	"pp_size", "ep_size", "NUM_NODES", "num_nodes", "nodes", "num_workers", "workers",
}

func isLayout(key string) bool { return slices.Contains(parallel, last(key)) || isLoad(key) }

func isLoad(key string) bool { return slices.Contains(report.LoadKeys, key) }

// Scalings finds the configurations that ran with several numbers of GPUs, by a metric of which more is
// better. The value of a load is the median of its runs.
func Scalings(runs []Run, m metric.Metric) *ScalingReport {
	list, kind := match(runs)
	r := &ScalingReport{Metric: m, Kind: kind, Scalings: []Scaling{}}
	groups, order := grouped(pointers(list), isLayout)
	keys := slices.DeleteFunc(differing(list), isLayout)
	layout := slices.DeleteFunc(differing(list), func(k string) bool { return !isLayout(k) })
	for _, d := range order {
		if points := scalingPoints(groups[d], m, layout); len(points) > 1 {
			r.Scalings = append(r.Scalings, Scaling{Settings: groups[d][0].settings(keys), Points: points})
		}
	}
	slices.SortStableFunc(r.Scalings, func(a, b Scaling) int {
		return strings.Compare(records.Join(a.Settings), records.Join(b.Settings))
	})
	return r
}

// scalingPoints are the numbers of GPUs of a configuration, each at the layout and load with the highest median.
func scalingPoints(group []*matched, m metric.Metric, layout []string) []ScalingPoint {
	best := map[int]*ScalingPoint{}
	loads := map[int]*loadsTried{}
	for _, load := range repeats(group) {
		value, at := middle(load, m)
		g := load[0].gpus()
		if at == nil || value <= 0 || g == 0 {
			continue
		}
		p := best[g]
		if p == nil {
			p = &ScalingPoint{GPUs: g}
			best[g], loads[g] = p, &loadsTried{}
		}
		tried := loadOf(load[0])
		loads[g].all = append(loads[g].all, tried)
		if p.Of += len(load); p.Run == "" || m.Beats(value, p.Value) {
			p.Value, p.Run, p.Layout = value, at.ID, at.settings(layout)
			loads[g].best = tried
		}
	}
	var points []ScalingPoint
	for g, p := range best {
		p.LowLoad = !loads[g].beyond() && anyBeyond(loads, loads[g].best)
		points = append(points, *p)
	}
	slices.SortFunc(points, func(a, b ScalingPoint) int { return cmp.Compare(a.GPUs, b.GPUs) })
	for i := range points {
		points[i].Efficiency = points[i].Value / float64(points[i].GPUs) / (points[0].Value / float64(points[0].GPUs))
	}
	return points
}

// loadsTried are the loads of one number of GPUs, and the best of them.
type loadsTried struct {
	all  [][]float64
	best []float64
}

// beyond reports whether a load above the best was tried.
func (l *loadsTried) beyond() bool {
	return slices.ContainsFunc(l.all, func(x []float64) bool { return higher(x, l.best) })
}

// anyBeyond reports whether a load above another was tried with any number of GPUs.
func anyBeyond(tried map[int]*loadsTried, load []float64) bool {
	for _, l := range tried {
		if slices.ContainsFunc(l.all, func(x []float64) bool { return higher(x, load) }) {
			return true
		}
	}
	return false
}

func pointers(list []matched) []*matched {
	out := make([]*matched, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// grouped puts runs together that differ only in what is left out, in the order of their first ones.
func grouped(list []*matched, without func(key string) bool) (map[digest][]*matched, []digest) {
	groups := map[digest][]*matched{}
	var order []digest
	for _, x := range list {
		d := x.of(without)
		if groups[d] == nil {
			order = append(order, d)
		}
		groups[d] = append(groups[d], x)
	}
	return groups, order
}

// repeats puts runs together that have all factors and the number of GPUs in common, in the order of their
// first ones.
func repeats(group []*matched) [][]*matched {
	type load struct {
		factors digest
		gpus    int
	}
	at := map[load]int{}
	var list [][]*matched
	for _, x := range group {
		l := load{x.of(func(string) bool { return false }), x.gpus()}
		i, ok := at[l]
		if !ok {
			i, list = len(list), append(list, nil)
			at[l] = i
		}
		list[i] = append(list[i], x)
	}
	return list
}

// gpus is the number of a run's GPUs, 0 if it is not known.
func (m *matched) gpus() int {
	if g := m.Result.Results.GPUs; g != nil {
		return *g
	}
	return 0
}
