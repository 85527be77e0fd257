// Package query is what is asked of a set of runs at once, and the answer: how many meet a
// filter, what values they have, the statistics of their metrics, and some of them in an
// order. Columns in memory answer it, and a database does; Naive does so run by run, and says
// what is right.
package query

import (
	"context"
	"math"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/source"
)

// The limits of one question.
const (
	MaxRows   = 10_000
	MaxValues = 1_000 // of a facet that are listed
	Bins      = 24    // of a histogram
	MaxSort   = 16    // fields that rows are sorted by
	// MaxDistinct is how many different numbers, and how many different texts, the runs of a
	// store may have in a field for a facet to list them. A list of a million measured values says
	// nothing, and costs more than all other facets.
	MaxDistinct = 5_000
)

// Query is one question. Names are those of fields.
type Query struct {
	Filter  *filter.Filter `json:"filter,omitempty"`
	Facets  []string       `json:"facets,omitempty"`  // fields whose values are counted
	Within  bool           `json:"within,omitempty"`  // facets count only runs that meet all of the filter
	Metrics []string       `json:"metrics,omitempty"` // fields whose smallest, largest and mean value is wanted
	Rows    *Rows          `json:"rows,omitempty"`
}

// Rows are those of the runs that meet the filter which are wanted, and in which order.
// Runs that are equal in it, and all without one, are ordered from the newest, then by their ids.
type Rows struct {
	Fields []string `json:"fields"`
	Sort   []Order  `json:"sort,omitempty"`
	Offset int      `json:"offset,omitempty"`
	Limit  int      `json:"limit"`
}

// Order is by one field: numbers before texts, runs without a value behind all others.
type Order struct {
	Field      string `json:"field"`
	Descending bool   `json:"descending,omitempty"`
}

// Answer is what a question comes to.
type Answer struct {
	Runs    int     `json:"runs"`    // in the store
	Matches int     `json:"matches"` // that meet the filter
	Facets  []Facet `json:"facets,omitempty"`
	Metrics []Stats `json:"metrics,omitempty"`
	Rows    *Table  `json:"rows,omitempty"`
}

// FilterOf is the filter of a facet's runs: without its own conditions on the field, unless
// they too are to hold.
func (q *Query) FilterOf(facet string) *filter.Filter {
	if q.Within {
		return q.Filter
	}
	return q.Filter.Without(facet)
}

// Facet is the values of a field among the runs that meet the filter. Without Query.Within, the
// filter's own conditions on the field are left out, so that a page shows what else could be chosen.
type Facet struct {
	Field string `json:"field"`
	// Values are the most frequent first, equals by their order; at most MaxValues. Numbers are not
	// among them if the runs of the store have more than MaxDistinct different ones; neither are
	// texts.
	Values  []Count `json:"values,omitempty"`
	Others  int     `json:"others,omitempty"`  // runs whose value is not listed
	Missing int     `json:"missing,omitempty"` // runs without a value
	// Histogram is that of a field with numbers, if it has more than Bins of them.
	Histogram *Histogram `json:"histogram,omitempty"`
}

// Count is how many runs have a value.
type Count struct {
	Value field.Value `json:"value"`
	Runs  int         `json:"runs"`
}

// Histogram has bins of one width between the smallest and the largest number of all runs of the store;
// a number on an edge belongs to the bin above it, the largest to the last.
type Histogram struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Runs []int   `json:"runs"`
}

// Stats are those of the numbers of a field among the runs that meet the filter.
type Stats struct {
	Field string   `json:"field"`
	Runs  int      `json:"runs"`
	Min   *float64 `json:"min"` // nil if no run has a number
	Max   *float64 `json:"max"`
	Mean  *float64 `json:"mean"` // nil if the sum of the numbers exceeds float64
}

// Set are the statistics of some numbers; of none, they stay as they are.
func (s *Stats) Set(runs int, sum, low, high float64) {
	if s.Runs = runs; runs == 0 {
		return
	}
	s.Min, s.Max = &low, &high
	if mean := sum / float64(runs); !math.IsInf(mean, 0) && !math.IsNaN(mean) {
		s.Mean = &mean
	}
}

// Table is a part of the runs, by columns.
type Table struct {
	IDs     []string        `json:"ids"`
	Fields  []string        `json:"fields"`
	Columns [][]field.Value `json:"columns"` // one of each field
}

// Engine answers questions about a set of runs.
type Engine interface {
	Query(ctx context.Context, q Query) (*Answer, error)
	// Fields are those that any run has, fixed ones in their order, then the others by name.
	Fields(ctx context.Context) ([]*field.Field, error)
}

// Check finds the fields of a question by their names, and refuses what cannot be answered.
func (q *Query) Check() error {
	var c source.Complaints
	names := func(list []string) {
		for i, name := range list {
			f, err := field.Find(name)
			if err != nil {
				c.Add(err)
				continue
			}
			if f.Name != name { // the list may be one that several questions share
				list[i] = f.Name
			}
		}
	}
	names(q.Facets)
	names(q.Metrics)
	if q.Filter != nil {
		if err := q.Filter.Check(); err != nil {
			c.Add(err)
		}
	}
	if r := q.Rows; r != nil {
		names(r.Fields)
		for i := range r.Sort[:min(len(r.Sort), MaxSort)] {
			one := []string{r.Sort[i].Field}
			names(one)
			r.Sort[i].Field = one[0]
		}
		at := source.Pos{File: "rows"}
		if r.Limit < 0 || r.Limit > MaxRows {
			c.Add(source.Errorf(at, "limit %d is not between 0 and %d", r.Limit, MaxRows))
		}
		if len(r.Sort) > MaxSort {
			c.Add(source.Errorf(at, "sorted by %d fields, more than %d", len(r.Sort), MaxSort))
		}
		if r.Offset < 0 {
			c.Add(source.Errorf(at, "offset %d is below 0", r.Offset))
		}
	}
	return c.Err()
}
