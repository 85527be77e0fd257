package explore

import (
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/records"
)

// Spot is a valid run's place in a plane of two fields.
type Spot struct {
	X, Y float64
	Kind string // measured, simulated or profiled
}

// Frontier gives the places of the spots that no other beats in both fields, the best x last. They are of one
// kind: what was not measured must not stand above what was. It is measured if any spot is, or else the
// kind of most.
func Frontier(spots []Spot, x, y *field.Field) (on []int, kind string) {
	points, places := map[string][]pareto.Point{}, map[string][]int{}
	for i, s := range spots {
		points[s.Kind] = append(points[s.Kind], pareto.Point{PerUser: s.X * side(x), PerGPU: s.Y * side(y)})
		places[s.Kind] = append(places[s.Kind], i)
	}
	kind = records.Measured.Word()
	if len(points[kind]) == 0 {
		for _, k := range slices.Sorted(maps.Keys(points)) {
			if len(points[k]) > len(points[kind]) {
				kind = k
			}
		}
	}
	for _, i := range pareto.Frontier(points[kind]) {
		on = append(on, places[kind][i])
	}
	return on, kind
}

// side is -1 for a metric of which less is better, 1 for others.
func side(f *field.Field) float64 {
	if f.Better == metric.Lower {
		return -1
	}
	return 1
}
