package query

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
)

// Run is one of the runs that a question is about.
type Run struct {
	ID    string // equal for no two runs of a store
	Cells []field.Cell
}

// Of is the run's value of a field.
func (r *Run) Of(name string) field.Value {
	for _, c := range r.Cells {
		if c.Field.Name == name {
			return c.Value
		}
	}
	return field.Value{}
}

// Naive answers by looking at every run. It is right where it is slow: other engines are
// tested against it, and a report of a few runs needs no other.
type Naive []Run

// Query answers a question.
func (n Naive) Query(ctx context.Context, q Query) (*Answer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hits := n.meeting(q.Filter)
	a := &Answer{Runs: len(n), Matches: len(hits)}
	for _, name := range q.Facets {
		a.Facets = append(a.Facets, n.facet(q.FilterOf(name), name))
	}
	for _, name := range q.Metrics {
		a.Metrics = append(a.Metrics, hits.stats(name))
	}
	if q.Rows != nil {
		a.Rows = hits.table(*q.Rows)
	}
	return a, nil
}

// Fields are those that any run has.
func (n Naive) Fields(context.Context) ([]*field.Field, error) {
	byName := map[string]*field.Field{}
	for _, r := range n {
		for _, c := range r.Cells {
			if f := byName[c.Field.Name]; f == nil || f.Kind == field.Text {
				byName[c.Field.Name] = c.Field // a free field is one of numbers if it has any
			}
		}
	}
	return InOrder(maps.Values(byName)), nil
}

func (n Naive) meeting(f *filter.Filter) Naive {
	var hits Naive
	for _, r := range n {
		if f.Matches(r.Cells) {
			hits = append(hits, r)
		}
	}
	return hits
}

// facet counts the values of a field among the runs that meet a filter.
func (n Naive) facet(f *filter.Filter, name string) Facet {
	hits := n.meeting(f)
	out := Facet{Field: name}
	numbers, texts := n.distinct(name)
	counts := map[field.Value]int{}
	for i := range hits {
		switch v := hits[i].Of(name); {
		case !v.Has():
			out.Missing++
		case v.IsNumber() && len(numbers) > MaxDistinct, !v.IsNumber() && texts > MaxDistinct:
			out.Others++
		default:
			counts[v]++
		}
	}
	out.SetCounts(counts)
	if len(numbers) > Bins {
		h := NewHistogram(numbers[0], numbers[len(numbers)-1])
		for i := range hits {
			if v := hits[i].Of(name); v.IsNumber() {
				h.Runs[h.Bin(v.Number)]++
			}
		}
		out.Histogram = h
	}
	return out
}

// distinct are the different numbers that all runs have in a field, sorted, and how many
// different texts.
func (n Naive) distinct(name string) (numbers []float64, texts int) {
	words := map[string]bool{}
	for i := range n {
		switch v := n[i].Of(name); {
		case v.IsNumber():
			numbers = append(numbers, v.Number)
		case v.Has():
			words[v.Text] = true
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), len(words)
}

func (n Naive) stats(name string) Stats {
	var count, sum, low, high = 0, 0.0, math.Inf(1), math.Inf(-1)
	for i := range n {
		if v := n[i].Of(name); v.IsNumber() {
			count++
			sum, low, high = sum+v.Number, min(low, v.Number), max(high, v.Number)
		}
	}
	s := Stats{Field: name}
	s.Set(count, sum, low, high)
	return s
}

func (n Naive) table(rows Rows) *Table {
	n = slices.Clone(n)
	slices.SortFunc(n, func(a, b Run) int { return rows.compare(&a, &b) })
	n = n[min(rows.Offset, len(n)):]
	n = n[:min(rows.Limit, len(n))]
	t := &Table{IDs: make([]string, len(n)), Fields: rows.Fields, Columns: make([][]field.Value, len(rows.Fields))}
	for i := range n {
		t.IDs[i] = n[i].ID
	}
	for at, name := range rows.Fields {
		t.Columns[at] = make([]field.Value, len(n))
		for i := range n {
			t.Columns[at][i] = n[i].Of(name)
		}
	}
	return t
}

// compare orders two runs.
func (r Rows) compare(a, b *Run) int {
	for _, o := range r.Sort {
		x, y := a.Of(o.Field), b.Of(o.Field)
		c := field.Compare(x, y)
		if o.Descending && x.Has() && y.Has() {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Or(
		-cmp.Compare(a.Of("timestamp").Number, b.Of("timestamp").Number),
		strings.Compare(a.ID, b.ID))
}
