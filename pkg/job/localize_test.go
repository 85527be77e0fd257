package job_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
)

// localize runs a command on node n1 of a run, whose start-up command wrote a text.
func localize(t *testing.T, dir, wrote string) (argv, env []string, err error) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, job.RuntimeDir), 0o755))
	if wrote != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, job.RuntimeDir, "n1.json"), []byte(wrote), 0o644))
	}
	file := filepath.Join(dir, "cache.yaml")
	values := map[string]string{"SLURMD_NODENAME": "n1", "LMCACHE_CONFIG_FILE": file}
	j := &job.Job{Dir: dir, Env: func(name string) string { return values[name] }}
	return j.Localize([]string{"serve", "@" + file}, []string{"A=1", "LMCACHE_CONFIG_FILE=" + file})
}

// A node's own files come of what its start-up command wrote. The file that they come of stays as it is.
//
// covers: P-11, U-29
func TestLocalize(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cache.yaml")
	require.NoError(t, os.WriteFile(file, []byte("dev: OLD\nip: X OLD\n"), 0o444))
	argv, env, err := localize(t, dir, "")
	require.NoError(t, err)
	require.Equal(t, []string{"serve", "@" + file}, argv, "nothing was written")
	require.Equal(t, []string{"A=1", "LMCACHE_CONFIG_FILE=" + file}, env)

	argv, env, err = localize(t, dir, `{"LMCACHE_CONFIG_FILE": {"OLD": "X", "X": "mlx5_0"}}`)
	require.NoError(t, err)
	own := filepath.Join(dir, job.RuntimeDir, "cache.n1.yaml")
	require.Equal(t, []string{"serve", "@" + own}, argv)
	require.Equal(t, []string{"A=1", "LMCACHE_CONFIG_FILE=" + own}, env)
	text, err := os.ReadFile(own)
	require.NoError(t, err)
	require.Equal(t, "dev: mlx5_0\nip: mlx5_0 mlx5_0\n", string(text), "one after the other")
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "dev: OLD\nip: X OLD\n", string(text))

	for wrote, want := range map[string]string{
		`{"HICACHE_CONFIG_FILE": {"a": "b"}}`: "the variable HICACHE_CONFIG_FILE is not set",
		`{"LMCACHE_CONFIG_FILE": {"a": 1}}`:   "each old text must have a new text",
		`{"LMCACHE_CONFIG_FILE": {"": "b"}}`:  "each old text must have a new text",
		`["x"]`:                               "not an object",
		`{"LMCACHE_CONFIG_FILE": `:            "n1.json: not an object",
		`{} x`:                                "something stands behind the object",
	} {
		_, _, err := localize(t, dir, wrote)
		require.ErrorContains(t, err, want, wrote)
	}
}

func FuzzLocalize(f *testing.F) {
	f.Add(`{"LMCACHE_CONFIG_FILE": {"OLD": "new"}}`)
	f.Add(`{"A": {"a": {}}}`)
	f.Fuzz(func(t *testing.T, wrote string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cache.yaml"), []byte("OLD"), 0o644))
		_, _, _ = localize(t, dir, wrote)
	})
}
