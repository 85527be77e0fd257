package store_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/pgtest"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// both runs a test on an empty store of each database.
func both(t *testing.T, test func(t *testing.T, place string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "runs.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Database(t)) })
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
