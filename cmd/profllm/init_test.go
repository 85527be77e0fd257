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
	o := profllm(t, dir, os.Environ(), "init", "lab.toml")
	require.Zero(t, o.code)
	require.Equal(t, "wrote lab.toml; next: check its paths, account and launcher, then profllm verify lab.toml\n",
		o.stderr)
	before, err := os.ReadFile(filepath.Join(dir, "lab.toml"))
	require.NoError(t, err)
	require.Contains(t, string(before), `name = "lab"`)
	o = profllm(t, dir, os.Environ(), "init", "lab.toml")
	require.Equal(t, exitUsage, o.code)
	require.Equal(t, "lab.toml is there already, and init overwrites no file\n\thint: name another file, or none to print it\n", o.stderr)
	after, err := os.ReadFile(filepath.Join(dir, "lab.toml"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The launcher is one that the cluster has.
func TestInitWritesTheLauncher(t *testing.T) {
	srun := map[bool]string{true: "echo --container-image", false: "echo --cpus-per-task"}
	for _, c := range []struct {
		pyxis    bool
		programs []string
		want     string
	}{
		{true, []string{"podman"}, "\n# launcher = \"pyxis\" "},
		{false, []string{"docker", "podman"}, "\nlauncher = \"podman\" "},
		{false, nil, "\nlauncher = \"bare\" "},
	} {
		bin := t.TempDir()
		scripts := map[string]string{"sinfo": "echo 'gpu*|gpu:4|2|n[1-2]'", "scontrol": "echo ClusterName = lab",
			"srun": srun[c.pyxis]}
		for _, name := range c.programs {
			scripts[name] = "exit 0"
		}
		for name, text := range scripts {
			require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		}
		t.Setenv("PATH", bin)
		o := profllm(t, t.TempDir(), os.Environ(), "init")
		require.Zero(t, o.code, o.stderr)
		require.Contains(t, o.stdout, c.want)
	}
}
