package explore

import (
	"maps"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/records"
)

// Frontier finds, among valid runs that come one by one, those that no other beats in both of two fields. T says
// which run it is.
type Frontier[T any] struct {
	x, y   float64 // sides
	byKind map[string]*pareto.Best[T]
}

// NewFrontier begins with no runs.
func NewFrontier[T any](x, y *field.Field) *Frontier[T] {
	return &Frontier[T]{side(x), side(y), map[string]*pareto.Best[T]{}}
}

// side is -1 for a metric of which less is better, 1 for others.
func side(f *field.Field) float64 {
	if f.Better == metric.Lower {
		return -1
	}
	return 1
}

// Add takes a run of a kind: measured, simulated or profiled. of says which it is, if it may be on the frontier. A
// run without a number in both fields has no place.
func (f *Frontier[T]) Add(kind string, x, y field.Value, of func() T) {
	if !x.IsNumber() || !y.IsNumber() {
		return
	}
	b := f.byKind[kind]
	if b == nil {
		b = &pareto.Best[T]{}
		f.byKind[kind] = b
	}
	b.Add(pareto.Point{PerUser: x.Number * f.x, PerGPU: y.Number * f.y}, of)
}

// Runs gives the frontier, the best x last; of runs in one place, the first by compare. They are of one kind: what
// was not measured must not stand above what was. It is measured if any run is, or else the kind of most.
func (f *Frontier[T]) Runs(compare func(a, b T) int) (runs []T, kind string) {
	kind = records.Measured.Word()
	if f.byKind[kind] == nil {
		most := 0
		for _, k := range slices.Sorted(maps.Keys(f.byKind)) {
			if n := f.byKind[k].Len(); n > most {
				kind, most = k, n
			}
		}
	}
	if b := f.byKind[kind]; b != nil {
		runs = b.Frontier(compare)
	}
	return runs, kind
}
