package definition

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/scenario"
)

// Who cannot read a definition cannot read its copy, which never gets more permissions than usual.
func TestCopyKeepsPermissions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.toml")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for mode, want := range map[fs.FileMode]fs.FileMode{0o600: 0o600, 0o644: 0o644, 0o640: 0o640, 0o777: 0o644, 0o400: 0o600} {
		require.NoError(t, os.Chmod(file, mode))
		require.Equal(t, want, copyOf(scenario.File{Name: file}).Mode, mode)
	}
	require.Equal(t, fs.FileMode(0o644), copyOf(scenario.File{Name: "built in"}).Mode)
	require.Equal(t, fs.FileMode(0o644), copyOf(scenario.File{Name: "/dev/null"}).Mode)
}
