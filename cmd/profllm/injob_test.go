package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/usertest"
)

// A step in a container is root, and the run a user's: it writes. Root on a login node only reads what is a user's.
func TestRootWritesInStepsOnly(t *testing.T) {
	t.Parallel()
	usertest.Need(t)
	address, env := fastServer(t)
	dir := t.TempDir()
	arithmetic(t, dir, 20)
	raw := filepath.Join(dir, "exp/a/0/raw")
	require.NoError(t, os.MkdirAll(raw, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "exp/a/0", run.PlanFile), []byte("{}"), 0o644))
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "exp"), func(path string, _ os.DirEntry, err error) error {
		return os.Chown(path, usertest.Other, usertest.Other)
	}))
	eval := func(more ...string) outcome {
		return profllm(t, dir, append(env, more...), "eval", "gsm8k", "--host", address, "--data", dir, "--num-questions", "10",
			"--save-results", filepath.Join(raw, "r.json"))
	}
	o := eval()
	require.NotZero(t, o.code)
	require.Contains(t, o.stderr, "belongs to user 12345, so it is only read")
	o = eval(plan.RoleVar + "=client")
	require.Zero(t, o.code, o.stderr)
	info, err := os.Stat(filepath.Join(raw, "r.json"))
	require.NoError(t, err)
	require.Zero(t, info.Sys().(*syscall.Stat_t).Uid)
}
