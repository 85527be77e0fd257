package columns

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

// selection is some of the runs.
type selection struct {
	n      int
	bits   []rowBits // by chunk
	counts []int
	rows   [][]uint16 // by chunk, nil unless listed
}

func (t *Table) newSelection() *selection {
	return &selection{bits: make([]rowBits, len(t.live)), counts: make([]int, len(t.live))}
}

// choice is a selection and the runs that are not in it.
type choice struct {
	chosen *selection
	others *selection
	all    int // runs of the table
}

// smaller is the smaller of both; it has its rows listed.
func (c *choice) smaller() *selection {
	if c.chosen.n <= c.all-c.chosen.n {
		return c.chosen
	}
	return c.others
}

// each calls do for 0 to n-1, on every processor at once. It stops once the context ends.
func each(ctx context.Context, n int, do func(i int, s *scratch)) error {
	workers := min(runtime.GOMAXPROCS(0), n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			s := &scratch{}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i, s)
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

// filtered are the runs that meet a filter, and those that meet it without its own parts on
// fields, by field.
type filtered struct {
	choice
	without map[string]*choice
}

// meeting finds the runs that meet the filter of a question.
func (t *Table) meeting(ctx context.Context, q *query.Query) (*filtered, error) {
	wanted := map[string]bool{} // fields whose own parts matter
	for _, name := range q.Facets {
		if q.Within {
			break
		}
		wanted[name] = true
	}
	groups := []*filter.Filter{{And: []filter.Filter{}}} // the first of parts that are no facet's own
	own := map[string]int{}
	for _, p := range q.Filter.Parts() {
		at := 0
		if p.Field != "" && wanted[p.Field] {
			var had bool
			if at, had = own[p.Field]; !had {
				at = len(groups)
				own[p.Field] = at
				groups = append(groups, &filter.Filter{And: []filter.Filter{}})
			}
		}
		groups[at].And = append(groups[at].And, *p.Filter)
	}
	nodes := make([]node, len(groups))
	for i, g := range groups {
		nodes[i] = t.compile(g)
	}
	found := make([]*selection, len(groups)) // the first meets all, any other all but its group
	for i := range found {
		found[i] = t.newSelection()
	}
	err := each(ctx, len(t.live), func(chunk int, s *scratch) { t.chunk(chunk, nodes, found, s) })
	if err != nil {
		return nil, err
	}
	out := &filtered{without: map[string]*choice{}}
	choices := make([]*choice, len(groups))
	for i, sel := range found {
		for _, n := range sel.counts {
			sel.n += n
		}
		choices[i] = &choice{chosen: sel, all: t.runs}
	}
	for name, at := range own {
		out.without[name] = choices[at]
	}
	out.choice = *choices[0]
	choices[0] = &out.choice
	return out, t.list(ctx, choices, q)
}

// chunk finds the rows of a chunk that meet all groups, and all groups but one.
func (t *Table) chunk(chunk int, nodes []node, found []*selection, s *scratch) {
	hits := make([]*rowBits, len(nodes))
	before := t.live[chunk] // what all groups so far leave
	for i, n := range nodes {
		hits[i] = s.take()
		n.match(chunk, hits[i], s)
		if i > 0 {
			found[i].bits[chunk] = before
		}
		before.and(hits[i])
	}
	found[0].bits[chunk] = before
	found[0].counts[chunk] = before.count()
	behind := s.take()
	behind.fill(true)
	for i := len(nodes) - 1; i > 0; i-- {
		found[i].bits[chunk].and(behind)
		found[i].counts[chunk] = found[i].bits[chunk].count()
		behind.and(hits[i])
	}
	s.give(behind)
	for _, b := range hits {
		s.give(b)
	}
}

// list lists the rows that the answer needs: of the smaller half of each choice, where values are
// counted, and of all that is chosen for the rows of the answer.
func (t *Table) list(ctx context.Context, choices []*choice, q *query.Query) error {
	count := len(q.Facets)+len(q.Metrics) > 0
	for _, c := range choices {
		c.chosen.rows = make([][]uint16, len(t.live))
		if count && c.smaller() == c.others {
			c.others = &selection{n: t.runs - c.chosen.n, rows: make([][]uint16, len(t.live))}
		}
	}
	return each(ctx, len(t.live), func(chunk int, _ *scratch) {
		for i, c := range choices {
			n := c.chosen.counts[chunk]
			// Where few rows of a chunk are chosen, sums want them although the others are fewer in
			// all.
			if count && c.others == nil || i == 0 && (q.Rows != nil || count && n <= t.lives[chunk]/2) {
				c.chosen.rows[chunk] = c.chosen.bits[chunk].list(make([]uint16, 0, n))
			}
			if c.others != nil {
				rest := c.chosen.bits[chunk]
				rest.not()
				rest.and(&t.live[chunk])
				c.others.rows[chunk] = rest.list(make([]uint16, 0, t.lives[chunk]-n))
			}
		}
	})
}
