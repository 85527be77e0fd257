package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const napping = `name = "nap"
[[Tests]]
id = "short"
name = "nap"
description = "waits"
test_template_name = "Sleep"
[Tests.cmd_args]
seconds = 0
`

// The summary of verify says why it fails if --runnable alone makes it fail.
func TestVerifyRunnableSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(napping), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.toml"),
		[]byte("name = \"o\"\ndescription = \"o\"\ntest_template_name = \"OSUBench\"\n[cmd_args]\n"), 0o644))
	o := profllm(t, dir, nil, "verify", ".")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Contains(t, o.stderr, "1 of 2 files not runnable\n")
	o = profllm(t, dir, nil, "verify", "--runnable", ".")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr,
		"1 of 2 files not runnable; with --runnable, files that are not runnable count as failures\n")
	o = profllm(t, dir, nil, "verify", "--runnable", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.NotContains(t, o.stderr, "count as failures")
}

// A folder that cannot be made is named once.
func TestSaveFailsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(napping), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "saved"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "saved", "short"), nil, 0o644))
	o := profllm(t, dir, nil, "slurm", "dry-run", "s.toml", "--simulate", "--save", "saved")
	require.NotEqual(t, exitOK, o.code)
	require.Equal(t, 1, strings.Count(o.stderr, "not a directory"), o.stderr)
}

// The words of a rehearsal agree with its exit code.
func TestRehearsalOfAnInvalidRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := profllm(t, dir, []string{"PROFLLM_SIM_FAULTS=decode:short=0.5"}, "rehearse", "demo", "--speed", "20",
		"--output-dir", "results")
	require.Equal(t, exitInvalid, o.code, o.stderr)
	require.Regexp(t, `(?m)^results/demo_\S+/disaggregated/0: invalid \(2 of 2 runs over\)$`, o.stderr)
	require.Regexp(t, `(?m)^invalid run: profllm why results/demo_\S+/disaggregated/0$`, o.stderr)
	require.NotContains(t, o.stderr, "failed")
}
