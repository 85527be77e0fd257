package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What dry-run prints into a pipe is what would be submitted, to the byte, also where a terminal would obey it.
func TestDryRunIsTheTruth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scenario := func(name, from string) {
		text := readText(t, from)
		text += "\n[Tests.extra_env_vars]\nGREETING = \"a\\u001b[2Jb\\u202ec\\u0007\"\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain.toml"), []byte(`name = "esc"
[[Tests]]
id = "t"
test_template_name = "vllm"
time_limit = "10m"
[Tests.cmd_args]
docker_image_url = "vllm/vllm-openai:v0.32.0"
model = "Qwen/Qwen3-0.6B"
[Tests.bench_cmd_args]
num_prompts = 80
`), 0o644))
	scenario("s.toml", filepath.Join(dir, "plain.toml"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sys.toml"), []byte(`name = "c"
scheduler = "slurm"
output_path = "results"
install_path = "install"
default_partition = "batch"
gpus_per_node = 4
launcher = "bare"
`), 0o644))
	copyFile(t, "../../examples/kubernetes/cluster.toml", filepath.Join(dir, "kube.toml"))
	for _, c := range []struct{ verb, system, format, file string }{
		{"slurm", "sys.toml", "script", "job.sh"}, {"kube", "kube.toml", "manifest", "manifest.yaml"},
	} {
		o := profllm(t, dir, nil, c.verb, "dry-run", "s.toml", "--system", c.system, "--output", c.format, "--save", "saved-"+c.verb,
			"--time", "2026-01-01T00:00:00Z")
		require.Zero(t, o.code, o.stderr)
		require.NotContains(t, o.stderr, "written out", "no terminal reads it")
		saved := ""
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, "saved-"+c.verb), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == c.file {
				saved += readText(t, path)
			}
			return err
		}))
		require.Contains(t, saved, "GREETING")
		require.Equal(t, strings.TrimSpace(saved), strings.TrimSpace(o.stdout))
	}
}
