package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An archive is unpacked once, and what is found in it has the archive's name.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "x/a"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x/a/log"), []byte("line\n"), 0o644))
	file := filepath.Join(dir, "x"+Suffix)
	require.False(t, Is(file))
	_, err := Write(t.Context(), filepath.Join(dir, "x"), file)
	require.NoError(t, err)
	require.True(t, Is(file))
	require.False(t, Is(dir))

	var f Folders
	at, isNew, err := f.Unpack(t.Context(), file)
	require.NoError(t, err)
	require.True(t, isNew)
	again, isNew, err := f.Unpack(t.Context(), file)
	require.NoError(t, err)
	require.False(t, isNew)
	require.Equal(t, at, again)
	require.FileExists(t, filepath.Join(at, "a/log"))
	require.Equal(t, file, f.File(at))
	named := f.Named(filepath.Join(at, "a"))
	require.Equal(t, filepath.Join(file, "a"), named)
	require.Equal(t, filepath.Join(at, "a"), f.OnDisk(named))
	name, ok := Inside(named)
	require.True(t, ok)
	require.Equal(t, "x"+Suffix+"/a", name)

	require.Empty(t, f.Remove())
	require.NoDirExists(t, at)
	require.Equal(t, file, f.File(at), "names stay known")
	_, isNew, err = f.Unpack(t.Context(), file)
	require.NoError(t, err)
	require.True(t, isNew)
	require.Empty(t, f.Remove())
}
