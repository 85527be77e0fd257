package columns

import (
	"context"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
)

// Query answers a question. It ends early with the context's error.
func (t *Table) Query(ctx context.Context, q query.Query) (*query.Answer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	hits, err := t.meeting(ctx, &q)
	if err != nil {
		return nil, err
	}
	a := &query.Answer{Runs: t.runs, Matches: hits.chosen.n}
	if n := len(q.Facets); n > 0 {
		a.Facets = make([]query.Facet, n)
	}
	if n := len(q.Metrics); n > 0 {
		a.Metrics = make([]query.Stats, n)
	}
	tasks := len(q.Facets) + len(q.Metrics) + 1
	err = each(ctx, tasks, func(i int, _ *scratch) {
		switch i--; { // the rows first: they take longest
		case i < 0:
			if q.Rows != nil {
				a.Rows = t.table(hits.chosen, *q.Rows)
			}
		case i < len(q.Metrics):
			a.Metrics[i] = t.stats(q.Metrics[i], hits)
		default:
			i -= len(q.Metrics)
			of := hits.without[q.Facets[i]]
			if of == nil {
				of = &hits.choice
			}
			a.Facets[i] = t.facet(q.Facets[i], of)
		}
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// stats are the statistics of a field.
func (t *Table) stats(name string, of *filtered) query.Stats {
	s := query.Stats{Field: name}
	c := t.byName[name]
	if c == nil || c.numeric == 0 {
		return s
	}
	var all sums
	if c.numbers != nil {
		c.derive(c.numbers.sum)
		all = t.sumsOf(c.numbers, &of.choice)
	} else {
		all = noSums()
		for code, n := range c.counts(&of.choice) {
			if v := c.values[code]; n > 0 && v.IsNumber() {
				all.join(sums{n, float64(n) * v.Number, v.Number, v.Number})
			}
		}
	}
	s.Set(all.n, all.sum, all.low, all.high)
	return s
}

// sumsOf adds up the numbers that are chosen, chunk by chunk, so that the sum is the same every time.
func (t *Table) sumsOf(p *numberPart, of *choice) sums {
	all := noSums()
	var room [size]uint16
	for i := range p.chunks {
		c, n := &p.chunks[i], of.chosen.counts[i]
		switch {
		case c.x == nil || n == 0:
			continue
		case n == t.lives[i]:
			all.join(c.sums)
			continue
		}
		bits, rows, gaps := &of.chosen.bits[i], of.chosen.rows[i], c.n < t.lives[i]
		c.extend(&all, bits, rows)
		if of.others != nil && n > t.lives[i]/2 {
			if n, sum, ok := c.without(of.others.rows[i], gaps); ok {
				all.n, all.sum = all.n+n, all.sum+sum
				continue
			}
		}
		if rows == nil {
			rows = bits.list(room[:0])
		}
		found, sum := c.sum(rows, gaps)
		all.n, all.sum = all.n+found, all.sum+sum
	}
	return all
}

// counts are the runs of a choice by code; the first is of no use.
func (c *column) counts(of *choice) []int {
	if of.chosen.n == of.all {
		return slices.Clone(c.totals)
	}
	rows := of.smaller()
	// A set costs about as much as this many rows of a chunk, as BenchmarkCount measures.
	const setRows = 60
	if rows.n > (len(c.values)-len(c.spare))*setRows*c.codes.chunks() {
		sets := false
		if c.derive(func() { sets = c.wantSets() }); sets {
			return c.countSets(of.chosen)
		}
	}
	k := &counter{}
	if c.codes.isWide {
		k.wide = make([]uint32, len(c.values))
	}
	for i := range min(c.codes.chunks(), len(rows.rows)) {
		c.codes.count(i, rows.rows[i], k)
	}
	counts := k.sums(len(c.values))
	if rows == of.others {
		for code := range counts {
			counts[code] = c.totals[code] - counts[code]
		}
	}
	return counts
}

// countSets counts by the sets of rows.
func (c *column) countSets(of *selection) []int {
	counts := make([]int, len(c.values))
	for code, set := range c.sets {
		for i, b := range set {
			if b != nil && of.counts[i] > 0 {
				counts[code] += b.countBoth(&of.bits[i])
			}
		}
	}
	return counts
}

// facet counts the values of a field.
func (t *Table) facet(name string, of *choice) query.Facet {
	f := query.Facet{Field: name, Missing: of.chosen.n}
	c := t.byName[name]
	if c == nil || c.runs == 0 {
		return f
	}
	counts := c.counts(of)
	counts[0] = 0
	for _, n := range counts {
		f.Missing -= n
	}
	var more map[field.Value]int // of values that have no code
	if c.numbers != nil && c.numbers.n > 0 {
		more = c.numberFacet(&f, of)
	}
	if c.texts != nil && c.texts.n > 0 {
		more = c.textFacet(&f, of, more)
	}
	if c.numbers == nil {
		f.Histogram = c.histogram(counts)
	}
	if more != nil {
		for code, n := range counts {
			if n > 0 {
				more[c.values[code]] += n
			}
		}
		f.SetCounts(more)
		return f
	}
	c.list(&f, counts)
	return f
}

// list lists the most frequent values of the dictionary.
func (c *column) list(f *query.Facet, counts []int) {
	c.derive(c.order)
	keys := make([]uint64, 0, len(c.inOrder)) // the more runs the smaller, then by order
	for rank, code := range c.inOrder {
		if n := counts[code]; n > 0 {
			keys = append(keys, uint64(math.MaxUint32-n)<<32|uint64(rank))
		}
	}
	slices.Sort(keys)
	f.Values = make([]query.Count, 0, min(len(keys), query.MaxValues))
	for i, key := range keys {
		code := c.inOrder[uint32(key)]
		if i >= query.MaxValues {
			f.Others += counts[code]
			continue
		}
		f.Values = append(f.Values, query.Count{Value: c.values[code], Runs: counts[code]})
	}
}

// histogram is that of the numbers of the dictionary.
func (c *column) histogram(counts []int) *query.Histogram {
	if len(c.byNumber) <= query.Bins {
		return nil
	}
	low, high := math.Inf(1), math.Inf(-1)
	for x := range c.byNumber {
		low, high = min(low, x), max(high, x)
	}
	h, bin := query.NewHistogram(low, high), query.NewBinning(low, high)
	for x, code := range c.byNumber {
		h.Runs[bin.Of(x)] += counts[code]
	}
	return h
}

// numberFacet counts the numbers that have no code. It returns them by value if there are few enough
// to be listed.
func (c *column) numberFacet(f *query.Facet, of *choice) map[field.Value]int {
	p := c.numbers
	var several, listed bool
	c.derive(func() {
		p.bin()
		several, listed = p.several(), p.listed()
	})
	counts := p.bins
	if of.chosen.n < of.all {
		k, rows := &counter{}, of.smaller()
		for i := range p.chunks {
			if chunk := &p.chunks[i]; chunk.x != nil {
				countBytes(chunk.bins, rows.rows[i], &k.narrow)
			}
		}
		found := k.sums(len(counts))
		for bin := range counts {
			if rows == of.others {
				counts[bin] -= found[bin]
			} else {
				counts[bin] = found[bin]
			}
		}
	}
	n := 0
	for _, runs := range counts[1:] {
		n += runs
	}
	f.Missing -= n
	if several {
		f.Histogram = query.NewHistogram(p.low, p.high)
		copy(f.Histogram.Runs, counts[1:])
	}
	if !listed {
		f.Others += n
		return nil
	}
	list := map[field.Value]int{}
	of.chosen.each(func(row uint32) {
		if v := field.OfNumber(p.at(row)); v.Has() {
			list[v]++
		}
	})
	return list
}

// textFacet does the same for texts.
func (c *column) textFacet(f *query.Facet, of *choice, more map[field.Value]int) map[field.Value]int {
	var listed bool
	if c.derive(func() { listed = c.texts.listed() }); listed {
		if more == nil {
			more = map[field.Value]int{}
		}
		of.chosen.each(func(row uint32) {
			if s := c.texts.at(row); len(s) > 0 {
				more[field.OfText(string(s))]++
				f.Missing--
			}
		})
		return more
	}
	n := c.texts.n
	if of.chosen.n < of.all {
		rows := of.smaller()
		n = 0
		for i, chunk := range c.texts.chunks {
			if chunk != nil {
				n += chunk.count(rows.rows[i])
			}
		}
		if rows == of.others {
			n = c.texts.n - n
		}
	}
	f.Missing -= n
	f.Others += n
	return more
}

// count counts the rows that have a text.
func (c *texts) count(rows []uint16) int {
	n := 0
	for _, r := range rows {
		if len(c.at(int(r))) > 0 {
			n++
		}
	}
	return n
}

// each calls do for every row of a selection.
func (s *selection) each(do func(row uint32)) {
	var list []uint16
	for i := range s.bits {
		list = s.bits[i].list(list[:0])
		for _, r := range list {
			do(uint32(i<<shift) + uint32(r))
		}
	}
}
