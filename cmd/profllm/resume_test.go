package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/run"
)

// What is measured once more although its numbers are there is said, with the reason.
func TestRepeatedLoadsAreTold(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs a rehearsal")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
bench_cmd_args = { num_prompts = 10, max_concurrency = 2, random_output_len = 3 }
[[Tests.phases]]
name = "one"
[[Tests.phases]]
name = "two"
bench_cmd_args = { seed = 2 }
[[Tests.phases]]
name = "three"
bench_cmd_args = { seed = 3 }
`), 0o644))
	require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "s.toml").code)
	d := only(t, dir)
	require.Contains(t, campaign.RepeatedLoads(d), "measures one, two, three again, 3 of its 3 loads")

	file := filepath.Join(d, "two", run.ResultFile)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file,
		bytes.Replace(text, []byte(`"status": "completed"`), []byte(`"status": "failed"`), 1), 0o644))
	require.NoError(t, os.Remove(filepath.Join(d, "three", run.ResultFile)))
	require.Contains(t, campaign.RepeatedLoads(d),
		"measures one again, 1 of its 3 loads, because all of them share one server start")

	asOnSlurm(t, run.Root(d))
	l := &live{t: t, dir: d, slurm: fakeSlurm(t)}
	l.job("", "NODE_FAIL")
	require.NoError(t, os.Remove(filepath.Join(d, run.SentinelFile)))
	require.NoError(t, os.WriteFile(filepath.Join(l.slurm, "sbatch"), []byte("#!/bin/bash\nexit 1\n"), 0o755))
	o := profllm(t, dir, l.env(), "slurm", "resume", "--settle", "1ms", d)
	require.Contains(t, o.stderr, "a/0: measures one again")
}
