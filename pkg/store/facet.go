package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// span is what all runs of a store have in a field.
type span struct {
	numbers, texts int // different ones; of more than are listed, some
	low, high      float64
}

// spans looks at all runs once in each state of the store, for all fields of a question together.
func (x *asking) spans(ctx context.Context, names []string) (map[string]span, error) {
	x.found.Lock()
	defer x.found.Unlock()
	x.found.state(x.seq)
	known := x.found.spans
	var missing []string
	for _, name := range names {
		if _, ok := known[name]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	found := make([]span, len(missing))
	if err := x.ranges(ctx, missing, found); err != nil {
		return nil, err
	}
	// The first runs show which measured numbers have too many values to be counted one by one.
	some := raw(fmt.Sprintf(" LIMIT %d", 2*query.MaxDistinct+query.MaxDistinct/2))
	if err := x.distinct(ctx, missing, found, some); err != nil {
		return nil, err
	}
	if err := x.distinct(ctx, missing, found, raw("")); err != nil {
		return nil, err
	}
	for i, name := range missing {
		known[name] = found[i]
	}
	return maps.Clone(known), nil
}

// ranges finds the smallest and largest numbers of fields, in one pass for many of them.
func (x *asking) ranges(ctx context.Context, names []string, found []span) error {
	for from := 0; from < len(names); from += wide {
		var columns []expr
		var into []any
		ends := make([][2]sql.NullFloat64, min(wide, len(names)-from))
		for i := range ends {
			n := x.value(names[from+i], x.seen).number
			columns = append(columns, format("min(%s), max(%s)", n, n))
			into = append(into, &ends[i][0], &ends[i][1])
		}
		if err := x.one(ctx, format("SELECT %s FROM benchmark_runs b", joined(columns, ", ")), into...); err != nil {
			return err
		}
		for i, e := range ends {
			found[from+i].low, found[from+i].high = e[0].Float64, e[1].Float64
		}
	}
	return nil
}

// distinct counts the different values of fields among some runs, many fields in one pass. Fields that are known to
// have more than are listed are left out.
func (x *asking) distinct(ctx context.Context, names []string, found []span, some expr) error {
	var places []int
	for i, name := range names {
		v := x.value(name, x.seen)
		if v.hasNumbers && found[i].numbers <= query.MaxDistinct || v.hasTexts && found[i].texts <= query.MaxDistinct {
			places = append(places, i)
		}
	}
	for group := range slices.Chunk(places, atOnce) {
		columns := make([]expr, len(group))
		for i, at := range group {
			v := x.value(names[at], x.seen)
			columns[i] = format(fmt.Sprintf("%%s AS n%d, %%s AS t%d, 0 AS k%d", i, i, i), v.number, v.text)
		}
		runs := format("SELECT %s FROM benchmark_runs b%s", joined(columns, ", "), some)
		err := x.rows(ctx, func(r *sql.Rows) error {
			var set, numbers, texts int
			if err := r.Scan(&set, &numbers, &texts); err != nil {
				return err
			}
			for i, at := range group {
				if set&(1<<(len(group)-1-i)) == 0 {
					found[at].numbers, found[at].texts = numbers, texts
				}
			}
			return nil
		}, format("WITH g(s, n, t, k, c) AS (%s) SELECT s, count(n), count(t) FROM g GROUP BY s", x.sql.grouped(runs, len(group))))
		if err != nil {
			return err
		}
	}
	return nil
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
	spans, err := x.spans(ctx, q.Facets)
	if err != nil {
		return nil, err
	}
	for i, name := range q.Facets {
		s, f := spans[name], q.FilterOf(name)
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
