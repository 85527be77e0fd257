package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
