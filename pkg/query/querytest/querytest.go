// Package querytest tests an Engine: it asks it random questions about random runs, and
// compares the answers with those of query.Naive.
//
//	querytest.Run(t, func(t *testing.T, runs []query.Run) query.Engine { return … })
package querytest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/tier"
)

// A Changer is an Engine whose runs change. Put replaces the run of an id, Delete does
// nothing if there is none. The suite changes the runs of an Engine that is one.
type Changer interface {
	Put(id string, cells []field.Cell)
	Delete(ids ...string)
}

// Run tests the engines that newEngine makes of runs. Their order in an engine means nothing.
func Run(t *testing.T, newEngine func(t *testing.T, runs []query.Run) query.Engine) {
	t.Run("few", func(t *testing.T) {
		for n := range 4 {
			m := newMaker(uint64(n))
			runs := m.runs(n)
			compare(t, m, newEngine(t, runs), runs, 20)
		}
	})
	questions := tier.Of(t, 120, 40)
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("random-%d", seed), func(t *testing.T) {
			m := newMaker(100 + seed)
			runs := m.runs(300 + int(seed)*300)
			compare(t, m, newEngine(t, runs), runs, questions)
		})
	}
	t.Run("many", func(t *testing.T) {
		m := newMaker(1000)
		runs := m.runs(query.MaxDistinct + 1500)
		e := newEngine(t, runs)
		compare(t, m, e, runs, 25)
		if c, ok := e.(Changer); ok { // to where some facets list their values again
			for some := range slices.Chunk(runs[query.MaxDistinct/2:], 100) {
				var ids []string
				for _, r := range some {
					ids = append(ids, r.ID)
				}
				c.Delete(ids...)
			}
			runs = runs[:query.MaxDistinct/2]
			compare(t, m, e, runs, 15)
		}
	})
	t.Run("far", func(t *testing.T) {
		m := newMaker(3000)
		runs := m.runs(100)
		e := newEngine(t, runs)
		for _, q := range farQuestions() {
			ask(t, query.Naive(runs), e, q)
		}
	})
	t.Run("changes", func(t *testing.T) { changes(t, newEngine) })
	t.Run("refuses", func(t *testing.T) { refuses(t, newEngine(t, newMaker(7).runs(50))) })
}

// changes puts and deletes runs between the questions.
func changes(t *testing.T, newEngine func(t *testing.T, runs []query.Run) query.Engine) {
	m := newMaker(2000)
	runs := m.runs(200)
	e := newEngine(t, runs)
	c, ok := e.(Changer)
	if !ok {
		t.Skip("the runs of this engine do not change")
	}
	for range tier.Of(t, 12, 6) {
		for range 80 {
			switch at := m.IntN(len(runs) + 1); {
			case m.chance(0.3) || at == len(runs):
				r := m.run(m.IntN(1 << 30))
				runs = append(runs, r)
				c.Put(r.ID, r.Cells)
			case m.chance(0.6):
				cells := m.cells(m.IntN(1<<30), runs[at].ID)
				runs[at] = query.Run{ID: runs[at].ID, Cells: cells}
				c.Put(runs[at].ID, cells)
			default:
				c.Delete(runs[at].ID)
				runs = slices.Delete(slices.Clone(runs), at, at+1)
			}
		}
		c.Delete("exp_unknown")
		compare(t, m, e, runs, 20)
	}
}

func refuses(t *testing.T, e query.Engine) {
	for _, q := range []query.Query{
		{Facets: []string{"no_such_field"}},
		{Metrics: []string{"no_such_field"}},
		{Filter: &filter.Filter{Condition: filter.Condition{Field: "no_such_field", Contains: "x"}}},
		{Rows: &query.Rows{Limit: query.MaxRows + 1}},
		{Rows: &query.Rows{Limit: -1}},
		{Rows: &query.Rows{Offset: -1}},
		{Rows: &query.Rows{Fields: []string{"no_such_field"}}},
		{Rows: &query.Rows{Sort: []query.Order{{Field: "no_such_field"}}}},
	} {
		_, err := e.Query(t.Context(), q)
		require.Error(t, err, "%+v", q)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Query(ctx, query.Query{Facets: []string{"gpu"}, Rows: &query.Rows{Limit: 10}})
	require.ErrorIs(t, err, context.Canceled)
}

// compare asks an engine some questions, and Naive.
func compare(t *testing.T, m *maker, e query.Engine, runs []query.Run, questions int) {
	t.Helper()
	right := query.Naive(runs)
	fields, err := e.Fields(t.Context())
	require.NoError(t, err)
	want, err := right.Fields(t.Context())
	require.NoError(t, err)
	require.Equal(t, kinds(want), kinds(fields))
	for range questions {
		ask(t, right, e, m.question(runs))
	}
}

// ask asks an engine a question, and one whose answer is right.
func ask(t *testing.T, right, e query.Engine, q query.Query) {
	t.Helper()
	text, err := json.Marshal(q)
	require.NoError(t, err)
	var again query.Query // a question changes where it is asked, and comes as JSON
	require.NoError(t, json.Unmarshal(text, &again))
	want, err := right.Query(t.Context(), q)
	require.NoError(t, err, "%s", text)
	got, err := e.Query(t.Context(), again)
	require.NoError(t, err, "%s", text)
	equal(t, string(text), want, got)
}

func kinds(fields []*field.Field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.Name + " " + string(f.Kind)
	}
	return list
}

// equal compares answers: means to 1e-12, everything else exactly.
func equal(t *testing.T, text string, want, got *query.Answer) {
	t.Helper()
	require.Equal(t, []int{want.Runs, want.Matches}, []int{got.Runs, got.Matches}, "%s", text)
	require.Len(t, got.Facets, len(want.Facets), "%s", text)
	for i := range want.Facets {
		w, g := want.Facets[i], got.Facets[i]
		if len(w.Values) == 0 && len(g.Values) == 0 {
			w.Values, g.Values = nil, nil
		}
		require.Equal(t, w, g, "facet %s of %s", w.Field, text)
	}
	require.Len(t, got.Metrics, len(want.Metrics), "%s", text)
	for i := range want.Metrics {
		w, g := want.Metrics[i], got.Metrics[i]
		if w.Mean != nil && g.Mean != nil {
			most := max(math.Abs(*w.Min), math.Abs(*w.Max)) // a mean near 0 of large numbers is less exact
			require.InDelta(t, *w.Mean, *g.Mean, 1e-12*most, "mean of %s of %s", w.Field, text)
			w.Mean, g.Mean = nil, nil
		}
		require.Equal(t, w, g, "statistics of %s of %s", w.Field, text)
	}
	require.Equal(t, want.Rows == nil, got.Rows == nil, "%s", text)
	if want.Rows == nil {
		return
	}
	require.Equal(t, want.Rows.IDs, got.Rows.IDs, "rows of %s", text)
	require.Equal(t, want.Rows.Fields, got.Rows.Fields, "rows of %s", text)
	require.Equal(t, want.Rows.Columns, got.Rows.Columns, "rows of %s", text)
}

// A maker makes runs and questions, the same for the same seed.
type maker struct{ *rand.Rand }

func newMaker(seed uint64) *maker { return &maker{rand.New(rand.NewPCG(seed, 18))} }

func (m *maker) chance(p float64) bool { return m.Float64() < p }

func pick[T any](m *maker, list []T) T { return list[m.IntN(len(list))] }
