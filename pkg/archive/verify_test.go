package archive

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// small makes a directory of two files.
func small(t *testing.T) (dir string, entries []Entry) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("first"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte(strings.Repeat("second", 1000)), 0o644))
	entries, err := survey(dir)
	require.NoError(t, err)
	return dir, entries
}

// What changed between writing and reading back is found, even if neither its
// size nor its time says so.
func TestVerify(t *testing.T) {
	dir, entries := small(t)
	var b bytes.Buffer
	require.NoError(t, pack(t.Context(), &b, dir, entries))
	require.NoError(t, verify(t.Context(), bytes.NewReader(b.Bytes()), dir, entries))

	file := filepath.Join(dir, "a")
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("First"), 0o644))
	require.NoError(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
	require.ErrorContains(t, verify(t.Context(), bytes.NewReader(b.Bytes()), dir, entries), "d/a differs in "+dir)

	dir, entries = small(t)
	b.Reset()
	require.NoError(t, pack(t.Context(), &b, dir, entries))
	entries[1].SHA256[0]++
	require.ErrorContains(t, verify(t.Context(), bytes.NewReader(b.Bytes()), dir, entries),
		"d/a differs in the archive")
	entries[1].SHA256[0]--
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	require.Error(t, verify(t.Context(), bytes.NewReader(b.Bytes()), dir, entries))
}

// A file that has another size than it was listed with is not archived.
func TestPackChanging(t *testing.T) {
	for _, size := range []int64{-1, 1} {
		dir, entries := small(t)
		entries[1].Size += size
		require.ErrorContains(t, pack(t.Context(), io.Discard, dir, entries), "the file changed while it was read")
	}
}

// full is a disk with room for some bytes.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return f.room, errFull
	}
	f.room -= len(p)
	return len(p), nil
}

// Wherever the disk is full, it is said.
func TestPackDiskFull(t *testing.T) {
	dir, entries := small(t)
	var b bytes.Buffer
	require.NoError(t, pack(t.Context(), &b, dir, entries))
	for room := 0; room < b.Len(); room += 3 {
		require.ErrorIs(t, pack(t.Context(), &full{room}, dir, entries), errFull, "room for %d of %d bytes", room,
			b.Len())
	}
}
