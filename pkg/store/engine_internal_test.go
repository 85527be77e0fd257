package store

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/internal/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/query/querytest"
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

func (c *celled) Delete(id string) {
	_, err := c.Store.Delete(context.Background(), id)
	require.NoError(c.t, err)
	delete(c.seq, id)
}

// The databases answer every question as a look at each run does.
//
// covers: DB-6, DB-7, DB-9
func TestEngine(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "runs.db") },
		"postgres": func(t *testing.T) string { return pgtest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			querytest.Run(t, func(t *testing.T, runs []query.Run) query.Engine {
				s, err := Open(t.Context(), place(t), Options{Create: true})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				c := &celled{Store: s, t: t, seq: map[string]int64{}}
				c.put(runs...)
				return c
			})
		})
	}
}

// SQLite reads every number in JSON as Go writes it.
func TestNumbersInJSON(t *testing.T) {
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
