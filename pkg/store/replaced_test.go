package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/store"
)

// Nothing is acknowledged, and the store is not ready, once its file or its log is not where others look for it.
func TestFileReplacedInUse(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, file string){
		"removed": func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) },
		"moved":   func(t *testing.T, file string) { require.NoError(t, os.Rename(file, file+".away")) },
		"its log removed": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file+"-wal"))
		},
		"its folder moved": func(t *testing.T, file string) {
			require.NoError(t, os.Rename(filepath.Dir(file), filepath.Dir(file)+".away"))
		},
		"replaced by a store": func(t *testing.T, file string) {
			other := filepath.Join(t.TempDir(), "other.db")
			require.NoError(t, open(t, other).Close())
			require.NoError(t, os.Rename(other, file))
		},
		"replaced by a copy": func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file+".copy", data, 0o644))
			require.NoError(t, os.Rename(file+".copy", file))
		},
		"replaced by a link": func(t *testing.T, file string) {
			require.NoError(t, os.Rename(file, file+".away"))
			require.NoError(t, os.Symlink("nowhere", file))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			require.NoError(t, os.Mkdir(dir, 0o755))
			file := filepath.Join(dir, "runs.db")
			s, runs := open(t, file), released(t)
			put(t, s, runs[0])
			harm(t, file)
			_, err := s.Put(ctx(t), runs[1:2])
			require.ErrorIs(t, err, store.ErrReplaced)
			require.ErrorContains(t, err, file)
			require.Equal(t, "the file of the store was removed or replaced while the server used it", store.Reason(err))
			_, err = s.Count(ctx(t))
			require.ErrorIs(t, err, store.ErrReplaced)
		})
	}
}

// A file that was moved away and put back is the store again.
func TestFilePutBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.db")
	s, runs := open(t, file), released(t)
	put(t, s, runs[0])
	require.NoError(t, os.Rename(file, file+".away"))
	_, err := s.Put(ctx(t), runs[1:2])
	require.ErrorIs(t, err, store.ErrReplaced)
	require.NoError(t, os.Rename(file+".away", file))
	require.Equal(t, map[store.Did]int{store.Duplicate: 1}, did(put(t, s, runs[1])), "it was written, and not acknowledged")
	n, err := s.Count(ctx(t))
	require.NoError(t, err)
	require.Equal(t, 2, n)
}
