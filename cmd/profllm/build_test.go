package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// forkHelp is what vllm serve --help=all of a fork of 0.32.0 prints: with an option more, one less,
// and another choice.
func forkHelp(t *testing.T) string {
	t.Helper()
	lines := []string{"usage: vllm serve [model_tag] [options]", "", "options:", "  --fork-level FORK_LEVEL"}
	for _, o := range arguments.Serve.Options() {
		f, ok := o.FormAt("0.32.0")
		if !ok || o.Name == "--enforce-eager" {
			continue
		}
		value := "X"
		if f.Choices != nil {
			value = "{" + strings.Join(f.Choices, ",") + "}"
		}
		if o.Name == "--dtype" {
			value = "{auto,nvfp4}"
		}
		shape, ok := map[string]string{"": " %[1]s", "0": "", "?": " [%[1]s]", "+": " %[1]s [%[1]s ...]", "*": " [%[1]s ...]"}[f.Values]
		require.True(t, ok, o.Name)
		shape = strings.ReplaceAll(shape, "%[1]s", value)
		names := f.Names
		if names == nil {
			names = []string{o.Name}
		}
		lines = append(lines, "  "+strings.Join(names, shape+", ")+shape)
	}
	return strings.Join(lines, "\n") + "\n"
}

// What args capture prints of a fork goes into a test, which then takes what the fork takes and
// refuses what it refuses.
//
// covers: CFG-1, CFG-3
func TestBuildOfAFork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "help.txt"), []byte(forkHelp(t)), 0o644))
	o := profllm(t, dir, nil, "args", "capture", "--toml", "--text", "help.txt", "--release", "0.32.0")
	require.Zero(t, o.code, o.stderr)
	const want = `# how vllm serve differs from that of vLLM 0.32.0
[cmd_args.build.serve]
dtype = { choices = "auto, nvfp4" }
enforce_eager = false
fork_level = {}
`
	require.Equal(t, want, o.stdout)
	write := func(options string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), fmt.Appendf(nil, `name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
time_limit = "5m"
[Tests.bench_cmd_args]
num_prompts = 4
random_input_len = 4
random_output_len = 4
[Tests.cmd_args]
engine_version = "0.32.0"
%s
[Tests.cmd_args.decode]
%s
`, strings.Replace(want, "[cmd_args", "[Tests.cmd_args", 1), options), 0o644))
	}
	write("dtype = \"nvfp4\"\nfork_level = 3")
	o = profllm(t, dir, nil, "rehearse", "s.toml", "--output-dir", "results")
	require.Zero(t, o.code, o.stdout+o.stderr)
	write("dtype = \"half\"\nenforce_eager = true")
	o = profllm(t, dir, nil, "verify", "s.toml")
	require.Equal(t, exitDefinition, o.code)
	require.Contains(t, o.stdout+o.stderr, "invalid choice: 'half' (choose from 'auto', 'nvfp4')")
	require.Contains(t, o.stdout+o.stderr, "your build lacks it")
}
