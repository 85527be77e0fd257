package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// A test in a subfolder of the tests folder is found, kept with the results, and kept
// in a lock; what the scenario does not name is not.
func TestTestsInSubfolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	nap := func(name, seconds string) string {
		return "name = \"" + name + "\"\ndescription = \"d\"\ntest_template_name = \"Sleep\"\n[cmd_args]\nseconds = " + seconds + "\n"
	}
	write("s.toml", "name = \"s\"\npre_test = \"before\"\n[[Tests]]\nid = \"a\"\ntest_name = \"nap\"\n")
	write("hook/before.toml", "name = \"before\"\n[[Tests]]\nid = \"h\"\ntest_name = \"nap\"\n")
	write("hook/test/site/nap.toml", nap("nap", "1"))
	write("tests/x/deep/nap.toml", nap("nap", "1"))
	write("tests/x/other.toml", nap("twice", "1"))
	write("tests/y/other.toml", nap("twice", "2"))
	write("tests/.git/nap.toml", nap("nap", "3"))

	o := profllm(t, dir, nil, "verify", "s.toml")
	require.Equal(t, exitOK, o.code)
	o = profllm(t, dir, nil, "rehearse", "--output-dir", "results", "s.toml")
	require.Equal(t, exitOK, o.code)
	d := only(t, dir)
	kept := filepath.Join(run.Root(d), run.DefinitionDir)
	for _, name := range []string{"tests/x/deep/nap.toml", "hook/before.toml", "hook/test/site/nap.toml"} {
		require.FileExists(t, filepath.Join(kept, name))
	}
	require.NoFileExists(t, filepath.Join(kept, "tests/x/other.toml"))
	require.Equal(t, exitOK, profllm(t, dir, nil, "verify", filepath.Join(kept, "scenario.toml")).code)
	require.Equal(t, exitOK, profllm(t, dir, nil, "lock", d, "--save", "run.lock").code)
	require.Equal(t, exitOK, profllm(t, dir, nil, "rehearse", "--output-dir", "again", "run.lock").code)

	write("s.toml", "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_name = \"twice\"\n")
	o = profllm(t, dir, nil, "verify", "s.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stderr, "s.toml:4:1: 2 test files are named \"twice\": tests/x/other.toml:1:1, tests/y/other.toml:1:1\n\thint: choose one by its folder, such as --tests-dir tests/x")
	require.Equal(t, exitOK, profllm(t, dir, nil, "verify", "s.toml", "--tests-dir", "tests/y").code)
}

// A workload that is only read has metrics of its own.
func TestMetricsOfOtherWorkloads(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "s.toml")
	const text = "name = \"s\"\n[[Tests]]\nid = \"a\"\nagent_metrics = [\"frames_per_day\"]\nagent_reward_function = \"of_the_site\"\n[Tests.cmd_args]\nseconds = [1, 2]\n"
	for template, want := range map[string]int{"Aiconfigurator": exitOK, "Sleep": exitDefinition} {
		require.NoError(t, os.WriteFile(file, []byte(text[:len("name = \"s\"\n[[Tests]]\n")]+"test_template_name = \""+template+"\"\n"+text[len("name = \"s\"\n[[Tests]]\n"):]), 0o644))
		require.Equal(t, want, profllm(t, dir, nil, "verify", "s.toml").code)
	}
}
