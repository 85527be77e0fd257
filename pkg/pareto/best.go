package pareto

import (
	"math"
	"slices"
	"sort"
)

// Best finds the frontier of points that come one by one, and keeps few of them. Its zero value has none.
type Best[T any] struct {
	n       int // that came
	points  []Point
	of      []T
	settled int       // points that were the frontier when the others came, ascending by PerUser
	above   []float64 // by settled point: the highest PerGPU there and to its right
}

// Len is how many points came.
func (b *Best[T]) Len() int { return b.n }

// fresh is how many points are kept, besides twice the frontier, until it is found anew.
const fresh = 4096

// Add takes a point. of says what it is the point of, if it may be on the frontier.
func (b *Best[T]) Add(p Point, of func() T) {
	b.n++
	at := sort.Search(b.settled, func(i int) bool { return b.points[i].PerUser >= p.PerUser })
	if at < b.settled && p.PerGPU < b.above[at]-epsilon {
		return
	}
	b.points, b.of = append(b.points, p), append(b.of, of())
	if len(b.points) >= 2*b.settled+fresh {
		b.settle()
	}
}

// settle keeps the frontier of the points that are kept.
func (b *Best[T]) settle() {
	places := Frontier(b.points)
	points, of := make([]Point, len(places)), make([]T, len(places))
	for i, at := range places {
		points[i], of[i] = b.points[at], b.of[at]
	}
	b.points, b.of, b.settled, b.above = points, of, len(points), make([]float64, len(points))
	highest := math.Inf(-1)
	for i, p := range slices.Backward(points) {
		highest = max(highest, p.PerGPU)
		b.above[i] = highest
	}
}

// Frontier is what Frontier finds among all points that came, if those of one place are ordered by compare.
func (b *Best[T]) Frontier(compare func(a, b T) int) []T {
	order := make([]int, len(b.points))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compare(b.of[i], b.of[j]) })
	points := make([]Point, len(order))
	for i, at := range order {
		points[i] = b.points[at]
	}
	var list []T
	for _, at := range Frontier(points) {
		list = append(list, b.of[order[at]])
	}
	return list
}
