package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A dry run begins with what a sweep consists of and may cost, and ends with it; the
// scripts are those that are printed alone.
func TestDryRunTellsPointsAndCost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "curve"
test_template_name = "vllm"
num_nodes = 2
time_limit = "1h"
  [Tests.cmd_args.decode]
  tensor_parallel_size = [4, 8]
  [Tests.bench_cmd_args]
  max_concurrency = [1, 4]
  num_prompts = [20, 40]
  [Tests.sweep]
  zip = [["max_concurrency", "num_prompts"]]
`), 0o644))
	at := []string{"slurm", "dry-run", "s.toml", "--simulate", "--time", "2026-01-01T00:00:00Z"}
	o := profllm(t, dir, nil, at...)
	require.Zero(t, o.code, o.stderr)
	const sum = "# scenario s, test curve: 4 points in 2 runs, at most 2 h per run (time limit), 4 h and 8.0 node-hours in all\n"
	require.True(t, strings.HasPrefix(o.stdout,
		sum+`# curve: note: points 1, 2: 4 of 8 GPUs of serve idle: TP 4 x PP 1 x DP 1 uses 4; raise TP, PP or DP, or give the role fewer nodes
 point  tensor_parallel_size  max_concurrency  num_prompts  run
──────────────────────────────────────────────────────────────────────
 1      4                     1                20           curve/0/1
 2      4                     4                40           curve/0/1
 3      8                     1                20           curve/0/3
 4      8                     4                40           curve/0/3

# curve, points 1, 2: 2 nodes, 8 GPUs allocated, 4 used, launcher bare, SIMULATED engine, run `), o.stdout[:2000])
	require.True(t, strings.HasSuffix(o.stdout, sum))
	require.Contains(t, o.stdout, "\n bench (2 loads)  0\n")

	scripts := profllm(t, dir, nil, append(at, "--output", "script")...)
	for script := range strings.SplitSeq(scripts.stdout, "#!/bin/bash\n") {
		require.Contains(t, o.stdout, script)
	}
}
