package explore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
)

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
	Efficiency float64           `json:"efficiency"`
	Layout     []records.Setting `json:"layout"` // parallel sizes and load
	Run        string            `json:"run"`
	Of         int               `json:"of"` // runs with as many GPUs
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
// better.
func Scalings(runs []records.Run, m metric.Metric) []Scaling {
	list, _ := match(runs)
	groups, order := grouped(list, isLayout)
	keys := slices.DeleteFunc(differing(list), isLayout)
	layout := slices.DeleteFunc(differing(list), func(k string) bool { return !isLayout(k) })
	out := []Scaling{}
	for _, d := range order {
		best := map[int]*ScalingPoint{}
		for _, x := range groups[d] {
			g, v := x.Result.Results.GPUs, m.Of(x.Result).Number
			if g == nil || v == nil || *g == 0 || *v <= 0 {
				continue
			}
			p := best[*g]
			if p == nil {
				p = &ScalingPoint{GPUs: *g}
				best[*g] = p
			}
			if p.Of++; p.Of == 1 || m.Beats(*v, p.Value) {
				p.Value, p.Run, p.Layout = *v, x.Result.RunID, x.settings(layout)
			}
		}
		if len(best) < 2 {
			continue
		}
		s := Scaling{Settings: groups[d][0].settings(keys)}
		for _, p := range best {
			s.Points = append(s.Points, *p)
		}
		slices.SortFunc(s.Points, func(a, b ScalingPoint) int { return cmp.Compare(a.GPUs, b.GPUs) })
		base := s.Points[0].Value / float64(s.Points[0].GPUs)
		for i := range s.Points {
			s.Points[i].Efficiency = s.Points[i].Value / float64(s.Points[i].GPUs) / base
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Scaling) int {
		return strings.Compare(records.Join(a.Settings), records.Join(b.Settings))
	})
	return out
}

// grouped puts runs together that differ only in what is left out, in the order of their first ones.
func grouped(list []matched, without func(key string) bool) (map[digest][]*matched, []digest) {
	groups := map[digest][]*matched{}
	var order []digest
	for i := range list {
		d := list[i].of(without)
		if groups[d] == nil {
			order = append(order, d)
		}
		groups[d] = append(groups[d], &list[i])
	}
	return groups, order
}
