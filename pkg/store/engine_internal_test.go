package store

import (
	"context"
	"database/sql"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
	"github.com/profllm/profllm/pkg/tier"
)

// celled is a store whose runs have cells and no records.
type celled struct {
	*Store
	t   *testing.T
	seq map[string]int64
}

func (c *celled) put(runs ...query.Run) {
	require.NoError(c.t, c.change(context.Background(), func(x *change) error {
		var rows []*row
		for i, r := range runs {
			rows = append(rows, &row{id: r.ID, replaces: c.seq[r.ID], cells: r.Cells, packed: []byte{}, besides: []byte{}})
			c.seq[r.ID] = x.seq + 1 + int64(i)
		}
		return x.replace(context.Background(), rows)
	}))
}

func (c *celled) Put(id string, cells []field.Cell) { c.put(query.Run{ID: id, Cells: cells}) }

func (c *celled) Delete(ids ...string) {
	_, err := c.Store.Delete(context.Background(), ids...)
	require.NoError(c.t, err)
	for _, id := range ids {
		delete(c.seq, id)
	}
}

// The databases answer every question as a look at each run does.
//
// covers: DB-5, DB-7, DB-9
func TestEngine(t *testing.T) {
	tier.Alone(t)
	for name, place := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "runs.db") },
		"postgres": func(t *testing.T) string { return pgtest.Database(t, os.Environ()) },
	} {
		t.Run(name, func(t *testing.T) {
			querytest.Run(t, func(t *testing.T, runs []query.Run) query.Engine {
				s, err := Open(t.Context(), place(t), Options{Create: true})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				if name == "sqlite" {
					_, err := s.write.Exec("PRAGMA synchronous = OFF") // of what is tested here, nothing must last
					require.NoError(t, err)
				}
				c := &celled{Store: s, t: t, seq: map[string]int64{}}
				c.put(runs...)
				return c
			})
		})
	}
}

// What is filtered by most is found by an index.
//
// covers: DB-6, DB-8, SM-10
func TestIndexes(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	seen := used{"gpu": {texts: true}, "median_ttft_ms": {numbers: true}}
	for text, index := range map[string]string{
		`{"and":[{"field":"gpu","in":["H100"]},{"text":"x"}]}`: "runs_by_gpu",
		`{"field":"median_ttft_ms","min":3,"max":4}`:           "runs_by_median_ttft_ms",
		`{}`: "runs_newest",
	} {
		f, err := filter.Parse([]byte(text))
		require.NoError(t, err)
		q := format("EXPLAIN QUERY PLAN SELECT b.id FROM benchmark_runs b WHERE %s ORDER BY coalesce(b.timestamp, 0) DESC, b.id", s.where(f, seen))
		var plan string
		require.NoError(t, s.each(t.Context(), s.read, func(r *sql.Rows) error {
			var a, b, c int
			var line string
			err := r.Scan(&a, &b, &c, &line)
			plan += line + "; "
			return err
		}, q.text, q.args...))
		require.Contains(t, plan, index, text)
	}
	for _, name := range indexed {
		_, ok := known().column(name)
		require.True(t, ok, name)
	}
}

// SQLite reads every number in JSON as Go writes it.
func TestNumbersInJSON(t *testing.T) {
	tier.Alone(t)
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		x := math.Float64frombits(r.Uint64())
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		var got float64
		text := field.OfNumber(x).String()
		require.NoError(t, s.read.QueryRow("SELECT json_extract(?, '$[0]')", "["+text+"]").Scan(&got))
		require.Equal(t, x, got, text)
	}
}

func TestEdges(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		low, high := r.NormFloat64()*math.Pow(10, float64(r.IntN(20)-10)), r.NormFloat64()*math.Pow(10, float64(r.IntN(20)-10))
		h := query.NewHistogram(min(low, high), max(low, high))
		at := edges(h)
		for range 50 {
			x := h.Min + r.Float64()*(h.Max-h.Min)
			if r.IntN(3) == 0 {
				x = at[r.IntN(len(at))]
			}
			n := 0
			for _, e := range at {
				if x >= e {
					n++
				}
			}
			require.Equal(t, h.Bin(x), n)
		}
	}
}

// Of fields that no run has, nothing is remembered: there is no end of their names.
func TestUnknownFieldsAreNotRemembered(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	gpu, err := field.Find("gpu")
	require.NoError(t, err)
	c := &celled{Store: s, t: t, seq: map[string]int64{}}
	c.Put("a", []field.Cell{{Field: gpu, Value: field.OfText("H100")}})
	a, err := s.Query(t.Context(), query.Query{Facets: []string{"gpu", "cmd_args.nobody_has_it", "cpu"}})
	require.NoError(t, err)
	require.Equal(t, 1, a.Facets[1].Missing)
	require.Len(t, s.found.spans, 1)
}

// The largest filter that is accepted is answered: SQLite takes no deeper expression than 1,000.
func TestLargestFilters(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), Options{Create: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	f := filter.Filter{Condition: filter.Condition{Field: "gpu", Has: new(true)}}
	for name, large := range map[string]*filter.Filter{
		"and": {And: slices.Repeat([]filter.Filter{f}, 1000)}, "or": {Or: slices.Repeat([]filter.Filter{f}, 1000)},
		"text": {Or: slices.Repeat([]filter.Filter{{Anywhere: "x"}}, 1000)},
	} {
		_, err := s.Query(t.Context(), query.Query{Filter: large, Facets: []string{"cpu"}})
		require.NoError(t, err, name)
	}
}
