package query

import (
	"cmp"
	"iter"
	"slices"

	"github.com/profllm/profllm/pkg/field"
)

// SetCounts lists the values of a facet, the most frequent first, and adds those that have no
// place in the list to Others.
func (f *Facet) SetCounts(counts map[field.Value]int) {
	f.Values = make([]Count, 0, len(counts))
	for v, n := range counts {
		if n > 0 {
			f.Values = append(f.Values, Count{v, n})
		}
	}
	slices.SortFunc(f.Values, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), field.Compare(a.Value, b.Value))
	})
	if len(f.Values) > MaxValues {
		for _, c := range f.Values[MaxValues:] {
			f.Others += c.Runs
		}
		f.Values = f.Values[:MaxValues]
	}
}

// NewHistogram is an empty histogram over a range.
func NewHistogram(low, high float64) *Histogram {
	return &Histogram{Min: low, Max: high, Runs: make([]int, Bins)}
}

// Bin is the bin of a number in the range.
func (h *Histogram) Bin(x float64) int { return NewBinning(h.Min, h.Max).Of(x) }

// Binning finds the bins of many numbers.
type Binning struct{ width, low float64 }

// NewBinning is that of a histogram.
func NewBinning(low, high float64) Binning {
	width := high/Bins - low/Bins // high - low may exceed every float64
	return Binning{width, low / width}
}

// Of is the bin of a number in the range.
func (b Binning) Of(x float64) int { return max(0, min(Bins-1, int(x/b.width-b.low))) }

// InOrder sorts fields: fixed ones in their order, then the others by name.
func InOrder(fields iter.Seq[*field.Field]) []*field.Field {
	place := map[string]int{}
	for i, f := range field.All() {
		place[f.Name] = i + 1
	}
	return slices.SortedFunc(fields, func(a, b *field.Field) int {
		x, y := place[a.Name], place[b.Name]
		if (x == 0) != (y == 0) {
			return cmp.Compare(y, x) // 0 stands behind
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.Name, b.Name))
	})
}
