package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
