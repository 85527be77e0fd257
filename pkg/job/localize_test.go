package job_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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

// A node's own files come of what its start-up command wrote. The file that they come of stays as
// it is.
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
	own := filepath.Join(dir, job.RuntimeDir, "n1.LMCACHE_CONFIG_FILE.yaml")
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
		`{} }`:                                "something stands behind the object",
		`{} ]`:                                "something stands behind the object",
		`{"../A": {"a": "b"}}`:                "is no name of a variable",
	} {
		_, _, err := localize(t, dir, wrote)
		require.ErrorContains(t, err, want, wrote)
	}
}

// Files with one base name have a copy each, variables that name one file share a copy with the
// texts of both, and only a whole word or its end behind = or @ names a file.
//
// covers: U-29
func TestLocalizeSeveral(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, job.RuntimeDir), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
	first, second := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "b", "c.yaml")
	require.NoError(t, os.WriteFile(first, []byte("x y"), 0o644))
	require.NoError(t, os.WriteFile(second, []byte("x"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, job.RuntimeDir, "n1.json"),
		[]byte(`{"A": {"x": "1"}, "B": {"x": "2"}, "C": {"y": "3"}}`), 0o644))
	values := map[string]string{"SLURMD_NODENAME": "n1", "A": first, "B": second, "C": first}
	j := &job.Job{Dir: dir, Env: func(name string) string { return values[name] }}
	argv, env, err := j.Localize([]string{first, "--a=" + first, "@" + second, first + ".bak", "/other" + first}, nil)
	require.NoError(t, err)
	a, b := filepath.Join(dir, job.RuntimeDir, "n1.A.yaml"), filepath.Join(dir, job.RuntimeDir, "n1.B.yaml")
	require.Equal(t, []string{a, "--a=" + a, "@" + b, first + ".bak", "/other" + first}, argv)
	require.ElementsMatch(t, []string{"A=" + a, "B=" + b, "C=" + a}, env)
	for name, want := range map[string]string{a: "1 3", b: "2"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func FuzzLocalize(f *testing.F) {
	f.Add(`{"LMCACHE_CONFIG_FILE": {"OLD": "new"}}`)
	f.Add(`{"A": {"a": {}}}`)
	f.Add(`{} }`)
	f.Fuzz(func(t *testing.T, wrote string) {
		const text = "OLD a: b\n"
		dir := t.TempDir()
		file := filepath.Join(dir, "cache.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		argv, _, err := localize(t, dir, wrote)
		now, readErr := os.ReadFile(file)
		require.NoError(t, readErr)
		require.Equal(t, text, string(now), "the file itself stays as it is")
		if err != nil || wrote == "" {
			return
		}
		var said map[string]map[string]string
		require.NoError(t, json.Unmarshal([]byte(wrote), &said), "what is taken is one object of objects of texts")
		if len(said) == 0 {
			require.Equal(t, "@"+file, argv[1])
			return
		}
		own, err := os.ReadFile(strings.TrimPrefix(argv[1], "@"))
		require.NoError(t, err)
		if pairs := said["LMCACHE_CONFIG_FILE"]; len(pairs) == 1 && strings.Count(wrote, ":") == 2 {
			for old, with := range pairs {
				require.Equal(t, strings.ReplaceAll(text, old, with), string(own))
			}
		}
	})
}
