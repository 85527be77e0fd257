package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is there stays as it is, and the answer says what to do.
func TestInitOverwritesNothing(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for name, says := range map[string]string{"sinfo": "gpu*|gpu:4|2|n[1-2]", "scontrol": "ClusterName = lab"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.Zero(t, profllm(t, dir, os.Environ(), "init", "lab.toml").code)
	before, err := os.ReadFile(filepath.Join(dir, "lab.toml"))
	require.NoError(t, err)
	require.Contains(t, string(before), `name = "lab"`)
	o := profllm(t, dir, os.Environ(), "init", "lab.toml")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "lab.toml is there already, and init overwrites no file\n\thint: name another file, or none to print it\n", o.stderr)
	after, err := os.ReadFile(filepath.Join(dir, "lab.toml"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
