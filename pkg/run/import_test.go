package run_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/run"
)

// contents is every file below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	}))
	return files
}

// An import that is killed at any change leaves no run that is not whole, and the
// next one makes what is missing.
func TestImportKilled(t *testing.T) {
	wholeProgram(t)
	row, err := filepath.Abs("../interchange/testdata/agg_row.json")
	require.NoError(t, err)
	dir := t.TempDir()
	command := func(output string) *exec.Cmd {
		cmd := exec.Command(binary, "import", row, "--output", output)
		cmd.Dir = dir
		return cmd
	}
	changes, code, err := killtest.Run(command("whole"), 0)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Greater(t, len(changes), 8)
	want := contents(t, filepath.Join(dir, "whole"))
	for n := 1; n <= len(changes); n++ {
		_, code, err := killtest.Run(command("killed"), n)
		require.NoError(t, err)
		if code >= 0 {
			continue // it needed fewer changes this time
		}
		if runs, err := run.Find(filepath.Join(dir, "killed")); err == nil {
			for _, r := range runs {
				require.FileExists(t, filepath.Join(r, run.ResultFile), "killed before %v", changes[n-1])
			}
		}
		require.NoError(t, command("killed").Run())
		require.Equal(t, want, contents(t, filepath.Join(dir, "killed")), "killed before %v", changes[n-1])
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "killed")))
	}
}
