package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report/reporttest"
)

// A new configuration is validated before it is deployed: its options, its script, that its server starts, and that
// it is not slower than the accepted one. Each step stops one that is not fit, by its exit code.
//
// covers: UC-8
func TestValidatedBeforeDeployment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scenario := func(name, option string) {
		text := "name = \"service\"\n[[Tests]]\nid = \"chat\"\ntest_template_name = \"vllm\"\n[Tests.cmd_args.decode]\n" + option +
			"\n[Tests.bench_cmd_args]\nmax_concurrency = 4\nnum_prompts = 24\nrandom_output_len = 10\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	scenario("mistaken.toml", "max_num_sequences = 64")
	scenario("new.toml", "max_num_seqs = 64")
	o := profllm(t, dir, nil, "verify", "mistaken.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "mistaken.toml:6:1: decode.max_num_sequences is an option of no release of vLLM")

	require.Zero(t, profllm(t, dir, nil, "verify", "new.toml").code)
	o = profllm(t, dir, nil, "slurm", "dry-run", "new.toml", "--simulate")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "--max-num-seqs 64")

	if !testing.Short() {
		o = profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=serve:die-at-start,exit=3"}, "rehearse", "new.toml", "--output-dir", "broken")
		require.Equal(t, exitJobFailed, o.code, o.stdout)
		require.Contains(t, o.stdout+o.stderr, "kv-cache-none")
	}

	// What was measured of the accepted one, and of three new ones.
	reporttest.Runs(t, filepath.Join(dir, "accepted"), 7, 1000, 50, 1)
	reporttest.Runs(t, filepath.Join(dir, "slower"), 7, 900, 50, 2)
	reporttest.Runs(t, filepath.Join(dir, "faster"), 7, 1100, 50, 3)
	o = profllm(t, dir, nil, "compare", "accepted", "slower")
	require.Equal(t, exitInvalid, o.code, o.stderr)
	require.Contains(t, o.stdout, "regressed: throughput")
	o = profllm(t, dir, nil, "compare", "accepted", "faster")
	require.Zero(t, o.code, o.stderr)
	require.Contains(t, o.stdout, "improved: throughput")
}
