package store_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/store"
)

// An older backup changes no record of the store: its records become former ones. A newer one brings its records.
//
// covers: DATA-4
func TestRestoreOlder(t *testing.T) {
	both(t, func(t *testing.T, place string) {
		clock := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
		at := func(place string) *store.Store {
			s, err := store.Open(ctx(t), place, store.Options{Create: true, Now: func() time.Time {
				clock = clock.Add(time.Hour)
				return clock
			}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
		s, runs := at(place), complete(t)[:2]
		put(t, s, runs...)
		preset := store.Preset{Name: "p", Filter: []byte("{}"), View: []byte("1")}
		require.NoError(t, s.SetPreset(ctx(t), preset))
		old, young := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "young")
		_, err := s.Backup(ctx(t), old)
		require.NoError(t, err)
		put(t, s, changed(runs[0]))
		rewarded := runs[1]
		rewarded.Reward = new(3.5)
		put(t, s, rewarded)
		preset.View = []byte("2")
		require.NoError(t, s.SetPreset(ctx(t), preset))
		now := everything(t, s)
		_, err = s.Backup(ctx(t), young)
		require.NoError(t, err)
		holds := func(s *store.Store) {
			t.Helper()
			info, err := s.Info(ctx(t))
			require.NoError(t, err)
			require.Equal(t, []int{2, 1, 1}, []int{info.Runs, info.Formers, info.Presets})
			presets, err := s.Presets(ctx(t))
			require.NoError(t, err)
			require.JSONEq(t, "2", string(presets[0].View))
			c, err := s.Verify(ctx(t), nil)
			require.NoError(t, err)
			require.Empty(t, c.Problems)
		}
		for range 2 {
			_, outcomes, err := s.Restore(ctx(t), old)
			require.NoError(t, err)
			require.Equal(t, map[store.Did]int{store.Duplicate: 2}, did(outcomes))
			require.Equal(t, now, everything(t, s))
			holds(s)
		}
		other := at(filepath.Join(t.TempDir(), "other.db"))
		for _, file := range []string{old, young, old} {
			_, _, err := other.Restore(ctx(t), file)
			require.NoError(t, err)
		}
		require.Equal(t, now, everything(t, other))
		holds(other)

		// The records alone, without what the store knew of formers.
		bare := at(filepath.Join(t.TempDir(), "bare.db"))
		put(t, bare, changed(runs[0]), rewarded)
		_, _, err = bare.Restore(ctx(t), old)
		require.NoError(t, err)
		require.Equal(t, now, everything(t, bare))
		info, err := bare.Info(ctx(t))
		require.NoError(t, err)
		require.Equal(t, []int{2, 1}, []int{info.Runs, info.Formers})
	})
}

// More readers than connections get their answers, also while a backup reads.
func TestManyReaders(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "runs.db"))
	put(t, s, complete(t)...)
	require.NoError(t, s.SetPreset(ctx(t), store.Preset{Name: "p"}))
	dir := t.TempDir()
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() {
			n, err := s.Backup(ctx(t), filepath.Join(dir, string(rune('a'+i))))
			if err == nil && n.Presets != 1 {
				err = store.ErrNotFound
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
