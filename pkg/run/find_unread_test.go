package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// A folder that cannot be read hides no run elsewhere, and is named.
func TestFindWithAFolderThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "0"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "0", run.PlanFile), nil, 0o644))
	t.Chdir(dir) // a path that is too long stops root too
	for range 1 + 4096/200 {
		name := strings.Repeat("x", 200)
		require.NoError(t, os.Mkdir(name, 0o755))
		require.NoError(t, os.Chdir(name))
	}
	found, err := run.Find(dir)
	require.Equal(t, []string{filepath.Join(dir, "a", "0")}, found)
	require.ErrorIs(t, err, syscall.ENAMETOOLONG)
	require.NoError(t, os.Chdir(dir))

	_, err = run.Find(dir, filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist, "what was asked for is not there")
}
