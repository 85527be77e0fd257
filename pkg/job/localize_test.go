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
	return j.Localize([]string{"serve", "@" + file}, []string{"A=1", "LMCACHE_CONFIG_FILE=" + file}, job.Placeholders{})
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
	argv, env, err := j.Localize([]string{first, "--a=" + first, "@" + second, first + ".bak", "/other" + first}, nil, job.Placeholders{})
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

// fill has the placeholders of a file filled in on node n1, where the start-up command wrote a text.
func fill(t *testing.T, text, wrote string) (filled string, argv []string, err error) {
	t.Helper()
	dir := t.TempDir()
	if wrote != "" {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, job.RuntimeDir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, job.RuntimeDir, "n1.json"), []byte(wrote), 0o644))
	}
	file := filepath.Join(dir, "own.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o444))
	values := map[string]string{"SLURMD_NODENAME": "n1", "LMCACHE_CONFIG_FILE": file}
	j := &job.Job{Dir: dir, Env: func(name string) string { return values[name] }}
	p, err := job.ParsePlaceholders("LMCACHE_CONFIG_FILE", []string{"frontend_node=10.0.0.1", "results_dir=/a=b"})
	require.NoError(t, err)
	argv, env, err := j.Localize([]string{"serve", file}, nil, p)
	same, readErr := os.ReadFile(file)
	require.NoError(t, readErr)
	require.Equal(t, text, string(same), "the user's file stays as it is")
	if err != nil {
		return "", nil, err
	}
	copied := filepath.Join(dir, job.RuntimeDir, "n1.LMCACHE_CONFIG_FILE.yaml")
	require.Equal(t, []string{"LMCACHE_CONFIG_FILE=" + copied}, env)
	require.Equal(t, []string{"serve", copied}, argv)
	data, err := os.ReadFile(copied)
	require.NoError(t, err)
	return string(data), argv, nil
}

// The placeholders of a user's own file are filled in, in a copy in the run's folder: behind what a
// start-up command wants of the node. Braces of YAML stay.
//
// covers: P-11, U-28, U-29
func TestPlaceholdersOfTheUser(t *testing.T) {
	const text = "# {unknown} in a comment, also of {frontend_node}\nurl: {frontend_node}:8300\nNIC: eth0\n" +
		"out: '{results_dir}/x'\nextra: {\"a\": {\"b\": 1}}\nraw: {{frontend_node}}\nhome: ${HOME}\n"
	const want = "# {unknown} in a comment, also of 10.0.0.1\nurl: 10.0.0.1:8300\nNIC: eth0\n" +
		"out: '/a=b/x'\nextra: {\"a\": {\"b\": 1}}\nraw: {frontend_node}\nhome: ${HOME}\n"
	got, _, err := fill(t, text, "")
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, _, err = fill(t, text, `{"LMCACHE_CONFIG_FILE": {"eth0": "{results_dir}"}}`)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(want, "NIC: eth0", "NIC: /a=b", 1), got, "first the start-up command, then placeholders")

	_, _, err = fill(t, "a: 1\nb: {storage}\n\nc: [{frontend_node}, {rezults_dir}]", "")
	require.ErrorContains(t, err, "own.yaml:2: unknown placeholder {storage}\n"+
		"\thint: known: frontend_node, results_dir; write {{storage}} for braces\n")
	require.ErrorContains(t, err, "own.yaml:4: unknown placeholder {rezults_dir}\n", "all of them are named")

	none := &job.Job{Dir: t.TempDir(), Env: func(name string) string {
		return map[string]string{"SLURMD_NODENAME": "n1", "LMCACHE_CONFIG_FILE": "/nowhere/own.yaml"}[name]
	}}
	_, _, err = none.Localize([]string{"serve"}, nil, job.Placeholders{Variable: "LMCACHE_CONFIG_FILE"})
	require.ErrorContains(t, err, "LMCACHE_CONFIG_FILE: open /nowhere/own.yaml: no such file or directory")
	_, err = job.ParsePlaceholders("X", []string{"a"})
	require.ErrorContains(t, err, `"a" is no NAME=TEXT`)
}

func FuzzPlaceholders(f *testing.F) {
	f.Add("a: {frontend_node}\nb: {{results_dir}}\n# {x}\n")
	f.Add("a: {{{results_dir}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := fill(t, text, "")
		if err != nil {
			require.ErrorContains(t, err, "unknown placeholder")
			return
		}
		if !strings.Contains(text, "{") {
			require.Equal(t, text, got)
		}
	})
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
