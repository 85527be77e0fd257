package columns

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
	"github.com/profllm/profllm/pkg/tier"
)

// covers: API-6, DASH-2, DASH-8
func TestAnswersAsNaive(t *testing.T) {
	tier.Alone(t)
	for _, most := range []int{query.MaxDistinct, 20, 0} { // different values in a dictionary
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			querytest.Run(t, func(_ *testing.T, runs []query.Run) query.Engine {
				table := New()
				table.most = most
				table.PutAll(runs)
				return table
			})
		})
	}
}

// run is one with a text and a number; both say the same, so that a half-written run would show.
func run(id string, n int) query.Run {
	return query.Run{ID: id, Cells: []field.Cell{
		{Field: fieldOf("suite"), Value: field.OfText(fmt.Sprint(n))},
		{Field: fieldOf("gpus"), Value: field.OfNumber(float64(n))},
	}}
}

func fieldOf(name string) *field.Field {
	f, err := field.Find(name)
	if err != nil {
		panic(err)
	}
	return f
}

// Questions are answered while runs come and go, and see each run whole.
//
// covers: PERF-1
func TestQuestionsBesideChanges(t *testing.T) {
	table := New()
	for i := range 500 {
		table.PutAll([]query.Run{run(fmt.Sprint("fixed-", i), 1)})
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(done)
		r := rand.New(rand.NewPCG(1, 1))
		for range 3000 {
			id := fmt.Sprint(r.IntN(50))
			if r.IntN(3) == 0 {
				table.Delete(id)
			} else {
				n := 1 + r.IntN(60)
				table.Put(id, run(id, n).Cells)
			}
		}
	})
	for range 3 {
		group.Go(func() {
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				f := &filter.Filter{Condition: filter.Condition{Field: "gpus", Min: new(field.OfNumber(1))}}
				a, err := table.Query(context.Background(), query.Query{
					Filter: f, Facets: []string{"suite", "gpus"}, Within: true, Metrics: []string{"gpus"},
					Rows: &query.Rows{Fields: []string{"suite", "gpus"}, Limit: 1000},
				})
				if err != nil || a.Matches != a.Runs || a.Metrics[0].Runs != a.Runs || len(a.Rows.IDs) != a.Runs {
					t.Errorf("%+v %v", a, err)
					return
				}
				for i, v := range a.Rows.Columns[0] {
					if v.Text != a.Rows.Columns[1][i].String() {
						t.Errorf("%v beside %v", v, a.Rows.Columns[1][i])
					}
				}
				texts := map[string]int{}
				for _, c := range a.Facets[0].Values {
					texts[c.Value.Text] = c.Runs
				}
				for _, c := range a.Facets[1].Values {
					if texts[c.Value.String()] != c.Runs {
						t.Errorf("%v: %d and %d", c.Value, c.Runs, texts[c.Value.String()])
					}
				}
			}
		})
	}
	group.Wait()
}

// A run that is replaced, and what a deleted run leaves, cost nothing for good.
func TestChurnCostsNothing(t *testing.T) {
	table := New()
	table.most = 100
	change := func(from int) {
		for i := range 300 {
			id := fmt.Sprint("run-", i%30)
			if i%7 == 0 {
				table.Delete(id)
			}
			table.Put(id, run(id, from+i).Cells)
		}
	}
	change(0)
	size, rows := table.Size(), table.rows
	for i := range 100 {
		change(1000 * (i + 1))
	}
	require.Equal(t, rows, table.rows)
	require.Equal(t, 30, table.Len())
	require.Less(t, table.Size(), size+size/10)
}

// A column that no run has any more is no field.
func TestFieldsGo(t *testing.T) {
	table := New()
	table.Put("a", run("a", 1).Cells)
	fields, err := table.Fields(t.Context())
	require.NoError(t, err)
	require.Len(t, fields, 2)
	table.Put("a", nil)
	fields, err = table.Fields(t.Context())
	require.NoError(t, err)
	require.Empty(t, fields)
	require.Equal(t, 1, table.Len())
}

// Ids whose hashes are equal are told apart.
func TestEqualHashes(t *testing.T) {
	table := New()
	table.Put("a", run("a", 1).Cells)
	table.rowOf[maphash.String(table.seed, "b")] = 0 // as if both had one hash
	table.Put("b", run("b", 2).Cells)
	table.Put("b", run("b", 3).Cells)
	require.Equal(t, 2, table.Len())
	a, err := table.Query(t.Context(), query.Query{Rows: &query.Rows{Fields: []string{"gpus"}, Limit: 9}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, a.Rows.IDs)
	require.Equal(t, []field.Value{field.OfNumber(1), field.OfNumber(3)}, a.Rows.Columns[0])
	table.Delete("b")
	table.Delete("b")
	require.Equal(t, 1, table.Len())
}

// A sum that exceeds float64 has no mean, and JSON can be written of it.
func TestSumTooLarge(t *testing.T) {
	table := New()
	table.most = 0
	for i := range 4 {
		table.Put(fmt.Sprint(i), []field.Cell{{Field: fieldOf("gpus"), Value: field.OfNumber(1e308)}})
	}
	a, err := table.Query(t.Context(), query.Query{Metrics: []string{"gpus"}})
	require.NoError(t, err)
	require.Equal(t, 1e308, *a.Metrics[0].Max)
	require.Nil(t, a.Metrics[0].Mean)
}

// The same question has the same answer to the last bit, on any number of processors.
func TestSameEveryTime(t *testing.T) {
	table := New()
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 3 * size {
		id := fmt.Sprintf("%08d", i)
		table.Put(id, []field.Cell{
			{Field: fieldOf("gpus"), Value: field.OfNumber(r.NormFloat64())},
			{Field: fieldOf("gpu"), Value: field.OfText(fmt.Sprint(i % 5))},
		})
	}
	ask := func() *query.Answer {
		f := &filter.Filter{Condition: filter.Condition{Field: "gpu", In: []field.Value{field.OfText("1"), field.OfText("3")}}}
		a, err := table.Query(t.Context(), query.Query{Filter: f, Facets: []string{"gpu", "gpus"}, Metrics: []string{"gpus"}})
		require.NoError(t, err)
		return a
	}
	first := ask()
	for range 20 {
		require.Equal(t, first, ask())
	}
}

// sort puts any part of the order in its place.
func TestSortPart(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	table := New()
	for i := range 2000 {
		table.Put(fmt.Sprintf("%05d", i), nil)
	}
	o := table.ordering(nil)
	for range 200 {
		list := make([]entry, 1+r.IntN(500))
		for i := range list {
			list[i] = entry{key: uint64(r.IntN(40)), row: uint32(i)}
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		want := slices.SortedFunc(slices.Values(list), o.compare)
		from := r.IntN(len(list) + 1)
		to := from + r.IntN(len(list)-from+1)
		o.sort(list, from, to)
		require.Equal(t, want[from:to], list[from:to])
	}
}
