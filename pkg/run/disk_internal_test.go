package run

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A link whose answer was lost counts as made by this command, and by no other.
func TestMade(t *testing.T) {
	dir := t.TempDir()
	mine, other, target := filepath.Join(dir, "mine"), filepath.Join(dir, "other"), filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(mine, nil, 0o644))
	require.NoError(t, os.WriteFile(other, nil, 0o644))
	require.ErrorIs(t, made(mine, target, fs.ErrPermission), fs.ErrPermission)
	require.NoError(t, os.Link(mine, target))
	require.NoError(t, made(mine, target, os.Link(mine, target)))
	require.ErrorIs(t, made(other, target, os.Link(other, target)), fs.ErrExist)
}

// What killed writers left is taken away, and nothing else.
func TestSweep(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	dir := t.TempDir()
	long := time.Now().Add(-2 * abandoned)
	for name, c := range map[string]struct{ stays, old bool }{
		fmt.Sprintf(".a.json.tmp-%s,%d-1", host, 1<<30):       {false, false},
		fmt.Sprintf(".b.json.tmp-%s,%d-1", host, os.Getpid()): {true, false},
		".c.json.tmp-elsewhere,1-1":                           {true, false},
		".d.json.tmp-elsewhere,1-1":                           {false, true},
		".e.json.tmp-elsewhere":                               {true, true},
		"f.json.tmp-elsewhere,1-1":                            {true, true},
		".g.json":                                             {true, true},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		if c.old {
			require.NoError(t, os.Chtimes(path, long, long))
		}
		require.NoError(t, WriteFile(filepath.Join(dir, "x"), nil, 0o644))
		require.Equal(t, c.stays, exists(path), name)
	}
}

// Nor are directories that are still built.
func TestUnfinishedDir(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, stays := range map[string]bool{
		fmt.Sprintf("s_1.partial-%s-%d", host, 1<<30):        false,
		fmt.Sprintf("s_2.partial-%s-%d", host, os.Getpid()):  false, // of an earlier process
		fmt.Sprintf("s_3.partial-%s-%d", host, os.Getppid()): true,
		"s_4.partial-elsewhere-1":                            true,
		"s_5":                                                true,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Join(path, "a"), 0o755))
		temp, err := unfinishedDir(filepath.Join(dir, "t"))
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, fmt.Sprintf("t.partial-%s-%d", host, os.Getpid())), temp)
		require.Equal(t, stays, exists(path), name)
	}
}
