package store

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strconv"

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
		if x.seen[name] == nil { // anybody can ask for any number of fields that no run has
			continue
		}
		if _, ok := known[name]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	found := make([]span, len(missing))
	if err := x.ranges(ctx, missing, found); err != nil {
		return nil, err
	}
	// The first runs show which measured numbers have too many values to be counted one by one.
	for _, p := range passes {
		if err := x.distinct(ctx, missing, found, p); err != nil {
			return nil, err
		}
	}
	for i, name := range missing {
		known[name] = found[i]
	}
	return maps.Clone(known), nil
}

// pass is one of the passes that count the values of fields: of so many runs, for fields that have shown so many
// values.
type pass struct{ runs, values int }

var passes = []pass{{2 * query.MaxDistinct, 0}, {10 * query.MaxDistinct, query.MaxDistinct / 10}, {math.MaxInt64, 0}}

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
func (x *asking) distinct(ctx context.Context, names []string, found []span, p pass) error {
	var places []int
	for i, name := range names {
		v := x.value(name, x.seen)
		open := v.hasNumbers && found[i].numbers <= query.MaxDistinct || v.hasTexts && found[i].texts <= query.MaxDistinct
		if open && max(found[i].numbers, found[i].texts) >= p.values {
			places = append(places, i)
		}
	}
	for group := range slices.Chunk(places, atOnce) {
		columns, sets := make([]expr, len(group)), make([]set, len(group))
		for i, at := range group {
			v := x.value(names[at], x.seen)
			sets[i] = set{number: v.hasNumbers, text: v.hasTexts}
			columns[i] = sets[i].columns(i, v.number, v.text, expr{})
		}
		runs := format("SELECT %s FROM benchmark_runs b LIMIT %s", joined(columns, ", "), raw(strconv.Itoa(p.runs)))
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
		}, format("WITH g(s, n, t, k, c) AS (%s) SELECT s, count(n), count(t) FROM g GROUP BY s", x.sql.grouped(runs, sets)))
		if err != nil {
			return err
		}
	}
	return nil
}

// set names the columns of runs that are counted together: a number, a text, a kind.
type set struct{ number, text, kind bool }

// columns are those of a set in a question about runs, numbered.
func (s set) columns(i int, number, text, kind expr) expr {
	var list []expr
	for _, c := range []struct {
		wanted bool
		name   string
		expr
	}{{s.number, "n", number}, {s.text, "t", text}, {s.kind, "k", kind}} {
		if c.wanted {
			list = append(list, format("%s AS "+c.name+strconv.Itoa(i), c.expr))
		}
	}
	return joined(list, ", ")
}

// names are those of the columns of a set.
func (s set) names(i int) []string {
	var list []string
	for name, wanted := range map[string]bool{"n": s.number, "t": s.text, "k": s.kind} {
		if wanted {
			list = append(list, name+strconv.Itoa(i))
		}
	}
	slices.Sort(list)
	return list
}

// A cut divides the runs that meet a condition by a number, a text and a kind, and counts them.
type cut struct {
	where              expr
	key                string // the same for the same condition
	number, text, kind expr
	set
	add func(number sql.NullFloat64, text sql.NullString, kind, runs int)
}

// The kinds of a cut.
const (
	isMissing = iota
	isNumber
	isText
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
			cuts = append(cuts, x.bins(v, facet.Histogram))
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
	c := &cut{number: v.number, text: v.text, set: set{
		number: v.hasNumbers && s.numbers <= query.MaxDistinct, text: v.hasTexts && s.texts <= query.MaxDistinct,
	}}
	c.set.kind = c.set.number != v.hasNumbers || c.set.text != v.hasTexts || !v.hasNumbers && !v.hasTexts
	c.kind = format("CASE WHEN %s IS NOT NULL THEN 1 WHEN %s IS NOT NULL THEN 2 ELSE 0 END", v.number, v.text)
	c.add = func(n sql.NullFloat64, t sql.NullString, kind, runs int) {
		switch {
		case n.Valid || t.Valid:
			counts[valueOf(n, t)] += runs
		case kind == isMissing:
			f.Missing += runs
		default:
			f.Others += runs
		}
	}
	return c
}

// bins cuts by the bins of a histogram.
func (x *asking) bins(v value, h *query.Histogram) *cut {
	return &cut{
		number: x.sql.bin(v.number, edges(h)), set: set{number: true},
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
	columns, sets := make([]expr, len(cuts)), make([]set, len(cuts))
	for i, c := range cuts {
		columns[i], sets[i] = c.columns(i, c.number, c.text, c.kind), c.set
	}
	runs := format("SELECT %s FROM benchmark_runs b WHERE %s", joined(columns, ", "), cuts[0].where)
	return x.rows(ctx, func(r *sql.Rows) error {
		var n sql.NullFloat64
		var t sql.NullString
		var kind sql.NullInt64
		var set, count int
		if err := r.Scan(&set, &n, &t, &kind, &count); err != nil {
			return err
		}
		for i, c := range cuts { // the bit of its own set is 0
			if set&(1<<(len(cuts)-1-i)) == 0 {
				c.add(n, t, int(kind.Int64), count)
			}
		}
		return nil
	}, x.sql.grouped(runs, sets))
}
