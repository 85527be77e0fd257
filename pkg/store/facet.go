package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// span is what all runs of a store have in a field.
type span struct {
	numbers, texts int // different ones, counted to one more than are listed
	low, high      float64
}

// span looks at all runs once in each state of the store.
func (x *asking) span(ctx context.Context, name string) (span, error) {
	x.found.Lock()
	defer x.found.Unlock()
	x.found.state(x.seq)
	if s, ok := x.found.spans[name]; ok {
		return s, nil
	}
	v := x.value(name, x.seen)
	var s span
	count := func(e expr, into *int) error {
		return x.one(ctx, format(fmt.Sprintf("SELECT count(*) FROM (SELECT DISTINCT %%s AS v FROM benchmark_runs b WHERE %%s IS NOT NULL LIMIT %d) d", query.MaxDistinct+1), e, e), into)
	}
	if v.hasNumbers {
		var low, high sql.NullFloat64
		if err := count(v.number, &s.numbers); err != nil {
			return s, err
		}
		err := x.one(ctx, format("SELECT min(%s), max(%s) FROM benchmark_runs b", v.number, v.number), &low, &high)
		if err != nil {
			return s, err
		}
		s.low, s.high = low.Float64, high.Float64
	}
	if v.hasTexts {
		if err := count(v.text, &s.texts); err != nil {
			return s, err
		}
	}
	x.found.spans[name] = s
	return s, nil
}

// A cut divides the runs that meet a condition by a number, a text and a kind, and counts them.
type cut struct {
	where              expr
	key                string // the same for the same condition
	number, text, kind expr
	add                func(number sql.NullFloat64, text sql.NullString, kind, runs int)
}

// The kinds of a cut.
const (
	isMissing = iota
	isNumber
	isText
	isBin
)

func (x *asking) facets(ctx context.Context, q query.Query) ([]query.Facet, error) {
	list := make([]query.Facet, len(q.Facets))
	var cuts []*cut
	counts := make([]map[field.Value]int, len(list))
	for i, name := range q.Facets {
		s, err := x.span(ctx, name)
		if err != nil {
			return nil, err
		}
		f := q.FilterOf(name)
		where, key, v := x.where(f, x.seen), textOf(f), x.value(name, x.seen)
		facet := &list[i]
		facet.Field, counts[i] = name, map[field.Value]int{}
		cuts = append(cuts, x.values(v, s, facet, counts[i]))
		if s.numbers > query.Bins {
			facet.Histogram = query.NewHistogram(s.low, s.high)
			cuts = append(cuts, bins(v, facet.Histogram))
		}
		for _, c := range cuts {
			if c.key == "" {
				c.where, c.key = where, key
			}
		}
	}
	if err := x.cut(ctx, cuts); err != nil {
		return nil, err
	}
	for i := range list {
		list[i].SetCounts(counts[i])
	}
	return list, nil
}

// values cuts by the values of a field, those that are too many taken together.
func (x *asking) values(v value, s span, f *query.Facet, counts map[field.Value]int) *cut {
	c := &cut{number: v.number, text: v.text}
	if s.numbers > query.MaxDistinct {
		c.number = raw(x.sql.null(true))
	}
	if s.texts > query.MaxDistinct {
		c.text = raw(x.sql.null(false))
	}
	c.kind = format("CASE WHEN %s IS NOT NULL THEN 1 WHEN %s IS NOT NULL THEN 2 ELSE 0 END", v.number, v.text)
	c.add = func(n sql.NullFloat64, t sql.NullString, kind, runs int) {
		switch {
		case kind == isMissing:
			f.Missing += runs
		case kind == isNumber && s.numbers > query.MaxDistinct, kind == isText && s.texts > query.MaxDistinct:
			f.Others += runs
		default:
			counts[valueOf(n, t)] += runs
		}
	}
	return c
}

// bins cuts by the bins of a histogram.
func bins(v value, h *query.Histogram) *cut {
	edges := edges(h)
	text, args := "CASE WHEN %[1]s IS NULL THEN NULL", []any{}
	args = append(args, v.number.args...)
	for i, e := range edges {
		text += fmt.Sprintf(" WHEN %%[1]s < ? THEN %d.0", i)
		args = append(append(args, v.number.args...), e)
	}
	text += fmt.Sprintf(" ELSE %d.0 END", len(edges))
	return &cut{
		number: raw("CAST("+fmt.Sprintf(text, v.number.text)+" AS double precision)", args...), text: raw("CAST(NULL AS text)"), kind: raw("3"),
		add: func(n sql.NullFloat64, _ sql.NullString, _, runs int) {
			if n.Valid {
				h.Runs[int(n.Float64)] += runs
			}
		},
	}
}

// edges are the smallest numbers of all bins but the first, found without arithmetic that the databases
// do otherwise.
func edges(h *query.Histogram) []float64 {
	of := query.NewBinning(h.Min, h.Max).Of
	list := make([]float64, query.Bins-1)
	for i := range list {
		low, high := ordered(h.Min), ordered(h.Max)
		for low < high { // the first number of a bin beyond i
			if mid := low + (high-low)/2; of(unordered(mid)) > i {
				high = mid
			} else {
				low = mid + 1
			}
		}
		list[i] = unordered(low)
	}
	return list
}

// ordered numbers all float64 in their order.
func ordered(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func unordered(n uint64) float64 {
	if n>>63 == 1 {
		return math.Float64frombits(n &^ (1 << 63))
	}
	return math.Float64frombits(^n)
}

// atOnce is how many cuts are asked for in one query; GROUPING takes 31.
const atOnce = 24

// cut counts the runs of cuts; those with one condition are asked for together.
func (x *asking) cut(ctx context.Context, cuts []*cut) error {
	groups := map[string][]*cut{}
	for _, c := range cuts {
		groups[c.key] = append(groups[c.key], c)
	}
	for _, group := range groups {
		for some := range slices.Chunk(group, atOnce) {
			if err := x.cutTogether(ctx, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutTogether reads the runs that meet one condition once.
func (x *asking) cutTogether(ctx context.Context, cuts []*cut) error {
	columns := make([]expr, len(cuts))
	for i, c := range cuts {
		columns[i] = format(fmt.Sprintf("%%s AS n%d, %%s AS t%d, %%s AS k%d", i, i, i), c.number, c.text, c.kind)
	}
	runs := format("SELECT %s FROM benchmark_runs b WHERE %s", joined(columns, ", "), cuts[0].where)
	return x.rows(ctx, func(r *sql.Rows) error {
		var n sql.NullFloat64
		var t sql.NullString
		var set, kind, count int
		if err := r.Scan(&set, &n, &t, &kind, &count); err != nil {
			return err
		}
		for i, c := range cuts { // the bit of its own set is 0
			if set&(1<<(len(cuts)-1-i)) == 0 {
				c.add(n, t, kind, count)
			}
		}
		return nil
	}, x.sql.grouped(runs, len(cuts)))
}
