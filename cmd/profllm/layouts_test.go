package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// Each way in which a vLLM server spans nodes, on the lab: every rank runs on its node, and gets its
// own form of the command.
//
// covers: SRV-2, SRV-3, SRV-4
func TestSlurmLayouts(t *testing.T) {
	dir := lab(t)
	t.Parallel()
	scenario, err := filepath.Abs("../../scenarios/layouts.toml")
	require.NoError(t, err)
	o := profllm(t, dir, nil, "slurm", "submit", "--simulate", "--system", "site.toml", scenario, "--wait")
	require.Equal(t, exitOK, o.code)
	all := runs(t, dir)
	require.Len(t, all, 4)
	second := map[string]string{
		"ray.tp8": "Ray rank 1 of 2", "ray.tp2dp4": "Ray rank 1 of 2", "mp.tp4pp2": "--headless --node-rank 1",
		"headless.tp2dp4": "--headless --data-parallel-start-rank 2",
	}
	for d, p := range all {
		t.Run(p.Test, func(t *testing.T) {
			requirePlaced(t, d, p)
			require.Contains(t, logOf(t, d, "serve-1.log"), second[p.Test])
			require.NotContains(t, logOf(t, d, "serve-0.log"), "--headless")
		})
	}
}

func logOf(t *testing.T, dir, name string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, run.LogDir, name))
	require.NoError(t, err)
	return string(log)
}

// A rehearsal shows that a rank is missing: the head never serves.
//
// covers: SRV-3
func TestMissingRank(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `name = "s"
[[Tests]]
id = "dp"
test_template_name = "vllm"
num_nodes = 2
time_limit = "10m"
[Tests.cmd_args]
serve_wait_seconds = 3
[Tests.cmd_args.decode]
data_parallel_size = 2
data_parallel_backend = "mp"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(text), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=serve:absent=1"}, "rehearse", "s.toml", "--output-dir", "results",
		"--gpus-per-node", "4")
	require.Equal(t, exitJobFailed, o.code, o.stderr)
	for d := range runs(t, dir) {
		require.Contains(t, logOf(t, d, "serve-1.log"), "rank 1 never joins the others")
		require.Contains(t, logOf(t, d, "serve-0.log"), "Shutting down before all nodes joined.")
		r := readResult(t, d)
		require.False(t, r.Validity.Valid)
		t.Logf("%+v", r.Failure)
	}
}
