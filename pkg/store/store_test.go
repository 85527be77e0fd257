package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/pgtest"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// both runs a test on an empty store of each database.
func both(t *testing.T, test func(t *testing.T, place string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "runs.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Database(t, os.Environ())) })
}

func open(t testing.TB, place string) *store.Store {
	t.Helper()
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	s, err := store.Open(t.Context(), place, store.Options{Create: true, Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// released are records of all releases.
func released(t testing.TB) []records.Run {
	t.Helper()
	runs, err := records.Load("../result/testdata/releases")
	require.NoError(t, err)
	return slices.DeleteFunc(runs, func(r records.Run) bool { // gpu has a changed copy of a run of release
		return r.Result == nil || strings.Contains(r.Dir, "/gpu/")
	})
}

func put(t testing.TB, s *store.Store, runs ...records.Run) []store.Outcome {
	t.Helper()
	list, err := s.Put(t.Context(), runs)
	require.NoError(t, err)
	require.Len(t, list, len(runs))
	return list
}

func did(list []store.Outcome) map[store.Did]int {
	n := map[store.Did]int{}
	for _, o := range list {
		n[o.Did]++
	}
	return n
}

func ctx(t testing.TB) context.Context { return t.Context() }

// What was put is given back as it was, once, by a store that was closed in between.
//
// covers: DB-1, DB-2, DATA-2, SM-4
func TestPut(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s := open(t, place)
		runs := released(t)
		first := put(t, s, runs...)
		require.Equal(t, map[store.Did]int{store.Stored: len(runs)}, did(first))
		require.Equal(t, map[store.Did]int{store.Duplicate: len(runs)}, did(put(t, s, runs...)))
		s = open(t, place)
		n, err := s.Count(ctx(t))
		require.NoError(t, err)
		require.Equal(t, len(runs), n)
		for i, want := range runs {
			got, err := s.Get(ctx(t), first[i].ID)
			require.NoError(t, err)
			require.Equal(t, want, got.Run)
		}
		var ids []string
		require.NoError(t, s.Each(ctx(t), func(r *store.Run) error {
			ids = append(ids, r.ID)
			return nil
		}))
		require.Len(t, ids, len(runs))
		_, err = s.Get(ctx(t), "none")
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

// changed is a run with another number in its record.
func changed(r records.Run) records.Run {
	res := *r.Result
	res.Results.CompletedRequests = new(*r.Result.Results.CompletedRequests + 1)
	r.Result = &res
	return r
}

// complete are runs with a count of requests.
func complete(t testing.TB) []records.Run {
	return slices.DeleteFunc(released(t), func(r records.Run) bool { return r.Result.Results.CompletedRequests == nil })
}

// Another record of a run replaces it, and stays as a former one; copies of either change nothing; other
// runs with the same random run id are other runs; what has no record is refused.
//
// covers: DATA-3, SM-4, UI-15
func TestUpdates(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s := open(t, place)
		one := complete(t)[0]
		two := changed(one)
		list := put(t, s, one, one, two, two)
		require.Equal(t, map[store.Did]int{store.Stored: 1, store.Duplicate: 2, store.Updated: 1}, did(list))
		id := list[0].ID
		require.Equal(t, one.Result.RunID, id)
		stored := func() records.Run {
			x, err := s.Get(ctx(t), id)
			require.NoError(t, err)
			return x.Run
		}
		require.Equal(t, two, stored())
		require.Equal(t, store.Updated, put(t, s, one)[0].Did)
		copied := two
		copied.Dir = "/elsewhere"
		require.Equal(t, store.Duplicate, put(t, s, copied)[0].Did, "a copy that was left behind")
		require.Equal(t, one, stored())
		moved := one
		moved.Dir = "/elsewhere"
		require.Equal(t, store.Duplicate, put(t, s, moved)[0].Did)
		rewarded := one
		rewarded.Reward = new(3.5)
		require.Equal(t, store.Updated, put(t, s, rewarded)[0].Did)
		require.Equal(t, rewarded, stored())

		namesake := complete(t)[1]
		res := *namesake.Result
		res.RunID, namesake.Result = one.Result.RunID, &res
		other := put(t, s, namesake)[0]
		require.Equal(t, store.Outcome{ID: id + "~2", Did: store.Stored}, other)
		require.Equal(t, store.Duplicate, put(t, s, namesake)[0].Did)
		waiting := records.Run{Dir: "/w", Problem: records.NotCollected}
		require.Equal(t, store.Outcome{Did: store.Refused, Why: records.NotCollected}, put(t, s, waiting)[0])

		info, err := s.Info(ctx(t))
		require.NoError(t, err)
		require.Equal(t, []int{2, 2}, []int{info.Runs, info.Formers})
		n, err := s.Delete(ctx(t), id, "none")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		info, err = s.Info(ctx(t))
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{info.Runs, info.Formers})
	})
}

// Columns in memory follow a store that changes.
func TestFollowed(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s, runs, table := open(t, place), complete(t), columns.New()
		list := put(t, s, runs...)
		follow := func(c store.Change) error {
			if c.Gone {
				table.Delete(c.ID)
			} else {
				table.Put(c.ID, c.Cells)
			}
			return nil
		}
		last, err := s.Changes(ctx(t), 0, follow)
		require.NoError(t, err)
		_, err = s.Delete(ctx(t), list[0].ID)
		require.NoError(t, err)
		put(t, s, changed(runs[1]))
		again, err := s.Changes(ctx(t), last, follow)
		require.NoError(t, err)
		require.Greater(t, again, last)
		same, err := s.Changes(ctx(t), again, func(store.Change) error { return errors.New("nothing is new") })
		require.NoError(t, err)
		require.Equal(t, again, same)
		var want []query.Run
		require.NoError(t, s.Each(ctx(t), func(r *store.Run) error {
			want = append(want, query.Run{ID: r.ID, Cells: field.Of(&r.Run)})
			return nil
		}))
		require.Len(t, want, len(runs)-1)
		ask := query.Query{Rows: &query.Rows{Limit: 100}}
		fields, err := s.Fields(ctx(t))
		require.NoError(t, err)
		for _, f := range fields {
			ask.Rows.Fields, ask.Facets = append(ask.Rows.Fields, f.Name), append(ask.Facets, f.Name)
		}
		right, err := query.Naive(want).Query(ctx(t), ask)
		require.NoError(t, err)
		for name, e := range map[string]query.Engine{"columns": table, "database": s} {
			got, err := e.Query(ctx(t), ask)
			require.NoError(t, err)
			require.Equal(t, right.Rows, got.Rows, name)
			require.Equal(t, right.Facets, got.Facets, name)
		}
	})
}

// A backup of either database is restored into the other, with nothing lost, nothing doubled and what
// is there already kept; a file that was cut off or changed is refused whole.
//
// covers: DATA-4
func TestBackup(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s, runs := open(t, place), complete(t)
		put(t, s, runs...)
		put(t, s, changed(runs[0]))
		require.NoError(t, s.SetPreset(ctx(t), store.Preset{Name: "p", Filter: []byte("{}")}))
		file := filepath.Join(t.TempDir(), "backup")
		n, err := s.Backup(ctx(t), file)
		require.NoError(t, err)
		require.Equal(t, store.DumpCounts{Runs: len(runs), Formers: 1, Presets: 1}, n)
		_, err = s.Backup(ctx(t), file)
		require.ErrorContains(t, err, "exists")
		both(t, func(t *testing.T, other string) {
			o := open(t, other)
			for range 2 {
				back, _, err := o.Restore(ctx(t), file)
				require.NoError(t, err)
				require.Equal(t, n, back)
				require.Equal(t, everything(t, s), everything(t, o))
				info, err := o.Info(ctx(t))
				require.NoError(t, err)
				require.Equal(t, []int{len(runs), 1, 1}, []int{info.Runs, info.Formers, info.Presets})
			}
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			bad := filepath.Join(t.TempDir(), "bad")
			for _, spoilt := range [][]byte{data[:len(data)-20], data[:len(data)/2], {}, []byte("text"), append(slices.Clone(data), data...)} {
				require.NoError(t, os.WriteFile(bad, spoilt, 0o600))
				_, _, err := o.Restore(ctx(t), bad)
				require.ErrorContains(t, err, bad)
			}
		})
	})
}

func everything(t testing.TB, s *store.Store) map[string]records.Run {
	t.Helper()
	all := map[string]records.Run{}
	require.NoError(t, s.Each(ctx(t), func(r *store.Run) error {
		require.NotContains(t, all, r.ID)
		all[r.ID] = r.Run
		return nil
	}))
	return all
}

// Old runs go into an archive and then from the store, old former records at once.
func TestPrune(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s, runs := open(t, place), complete(t)
		put(t, s, runs...)
		put(t, s, changed(runs[0]))
		before := everything(t, s)
		all := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := s.Prune(ctx(t), store.Prune{Runs: &all})
		require.ErrorContains(t, err, "without an archive")
		file := filepath.Join(t.TempDir(), "old")
		n, err := s.Prune(ctx(t), store.Prune{Runs: &all, Archive: file})
		require.NoError(t, err)
		require.Equal(t, store.Pruned{Runs: len(runs)}, n)
		require.Empty(t, everything(t, s))
		_, _, err = s.Restore(ctx(t), file)
		require.NoError(t, err)
		require.Equal(t, before, everything(t, s))
		n, err = s.Prune(ctx(t), store.Prune{Formers: &all})
		require.NoError(t, err)
		require.Equal(t, store.Pruned{Formers: 1}, n)
		c, err := s.Verify(ctx(t), nil)
		require.NoError(t, err)
		require.Empty(t, c.Problems)
	})
}

// The rows of a store are made anew: with the folders in which the runs are now, and from the records of
// those whose folders are no more, unless they are to be forgotten.
func TestRebuild(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		s, runs := open(t, place), complete(t)
		put(t, s, runs...)
		was := everything(t, s)
		moved := slices.Clone(runs[:2])
		for i := range moved {
			moved[i].Dir = "/moved" + moved[i].Dir
		}
		for _, forget := range []bool{false, true} {
			r, err := s.Rebuild(ctx(t))
			require.NoError(t, err)
			list, err := r.Put(ctx(t), moved)
			require.NoError(t, err)
			require.Equal(t, map[store.Did]int{store.Duplicate: 2}, did(list))
			n, err := r.End(ctx(t), forget)
			require.NoError(t, err)
			require.Equal(t, len(runs)-2, n)
			now := everything(t, s)
			require.Equal(t, moved[0], now[list[0].ID])
			if forget {
				require.Len(t, now, 2)
				continue
			}
			require.Len(t, now, len(was))
		}
		c, err := s.Verify(ctx(t), nil)
		require.NoError(t, err)
		require.Empty(t, c.Problems)
	})
}
