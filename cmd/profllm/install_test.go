package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// go install needs nothing but the modules that go.mod and go.sum declare, and the program needs
// nothing beside it: no file, no variable.
//
// covers: LIB-12
func TestInstalled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install := exec.Command("go", "install", "-mod=readonly", "./cmd/profllm")
	install.Dir, install.Env = checkout, append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, args := range [][]string{{"version"}, {"verify", filepath.Join(dir, "s.toml")}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(reportScenario), 0o644))
		cmd := exec.Command(filepath.Join(dir, "profllm"), args...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotEmpty(t, out)
	}
}
