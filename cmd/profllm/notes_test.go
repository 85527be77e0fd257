package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/conf"
)

// What a person should know before a job waits for GPUs is said once for all runs,
// beside the plan, with what to write.
//
// covers: PL-V15, PL-S33
func TestPlanNotes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "site.toml"), conf.Local, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
launcher = "bare"
cmd_args.decode.tensor_parallel_size = [1, 2]
[Tests.slurm]
export = ["UCX_TLS"]
`), 0o644))
	shell := []string{"NCCL_IB_HCA=mlx5", "NCCL_DEBUG=INFO", "UCX_TLS=rc"}
	plain := profllm(t, dir, nil, "slurm", "dry-run", "s.toml", "--system", "site.toml", "--time",
		"2026-01-01T00:00:00Z")
	require.Equal(t, exitOK, plain.code)
	require.Equal(t, "note: s.toml:2:3: the results will be no-steady-state: 30 requests, 16 at a time (num_prompts = 80 or more is accepted)\n", plain.stderr)

	noted := profllm(t, dir, shell, "slurm", "dry-run", "s.toml", "--system", "site.toml", "--time",
		"2026-01-01T00:00:00Z")
	require.Equal(t, plain.stdout, noted.stdout, "the script does not depend on the shell")
	require.Equal(t, plain.stderr+"note: set in this shell, but not passed to the jobs:  NCCL_DEBUG, NCCL_IB_HCA\n"+
		"\thint: export = [\"NCCL_DEBUG\", \"NCCL_IB_HCA\"] in the system file or in [Tests.slurm] passes the value of this shell; extra_env_vars sets a value in the test\n", noted.stderr)
	rehearsed := profllm(t, dir, shell, "slurm", "dry-run", "--simulate", "s.toml", "--system", "site.toml")
	require.Equal(t, plain.stderr, rehearsed.stderr, "a simulated engine has no network")
}
