package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// A run is resumed with what it waits for; anything in its directory means it, and
// a folder means the runs below it. The whole may have been moved.
func TestMeant(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	runs := []string{"base/0", "base/1", "child/0", "other/0"}
	waits := map[string]string{"base/1": "base/0", "child/0": "base/1"}
	for _, rel := range runs {
		p := &plan.Plan{Schema: plan.Schema, RunID: rel, Dir: filepath.Join("/was/there", rel)}
		if parent := waits[rel]; parent != "" {
			p.Job.After = []plan.After{{Type: "afterok", Dir: filepath.Join("/was/there", parent)}}
		}
		require.NoError(t, run.Fill(filepath.Join(root, rel), p, nil))
	}
	for path, want := range map[string][]string{
		"":            runs,
		"child/0":     {"base/0", "base/1", "child/0"},
		"child":       {"base/0", "base/1", "child/0"},
		"base/0/logs": {"base/0"},
		"base":        {"base/0", "base/1"},
		"other/0":     {"other/0"},
		"definitions": nil,
	} {
		var dirs []string
		for _, rel := range want {
			dirs = append(dirs, filepath.Join(root, rel))
		}
		require.Equal(t, dirs, meant(root, filepath.Join(root, path), runs), path)
	}
}

// What is measured once more although its numbers are there is said, with the reason.
func TestRepeatedLoadsAreTold(t *testing.T) {
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
	require.Contains(t, repeats(d), "measures one, two, three again, 3 of its 3 loads")

	file := filepath.Join(d, "two", run.ResultFile)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte(`"status": "completed"`), []byte(`"status": "failed"`), 1), 0o644))
	require.NoError(t, os.Remove(filepath.Join(d, "three", run.ResultFile)))
	require.Contains(t, repeats(d), "measures one again, 1 of its 3 loads, because one start of the service serves all of them")

	asOnSlurm(t, run.Root(d))
	l := &live{t: t, dir: d, slurm: fakeSlurm(t)}
	l.job("", "NODE_FAIL")
	require.NoError(t, os.Remove(filepath.Join(d, run.SentinelFile)))
	require.NoError(t, os.WriteFile(filepath.Join(l.slurm, "sbatch"), []byte("#!/bin/bash\nexit 1\n"), 0o755))
	o := profllm(t, dir, l.env(), "slurm", "resume", "--settle", "1ms", d)
	require.Contains(t, o.stderr, "a/0: measures one again")
}
