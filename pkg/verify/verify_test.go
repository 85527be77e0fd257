package verify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"site.toml":  "name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\n",
		"good.toml":  "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\ncmd_args.seconds = 1\n",
		"bad.toml":   "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\nnum_nodez = 2\n",
		"none.toml":  "name = ",
		"wrong.toml": "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\ncmd_args.seconds = -1\n",
		"notes.md":   "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	files, missing := Files([]string{dir})
	require.Empty(t, missing)
	require.Len(t, files, 5)
	kinds := map[string]string{"site.toml": "system", "good.toml": "scenario", "bad.toml": "scenario",
		"none.toml": "file", "wrong.toml": "scenario"}
	for _, file := range files {
		found := Verifier{}.File(file)
		name := filepath.Base(file)
		require.Equal(t, kinds[name], found.Kind)
		require.Equal(t, name != "site.toml" && name != "good.toml", found.Err != nil, "%s: %v", name, found.Err)
	}
	tooLarge := errors.New("too large")
	v := Verifier{Plan: func(string) error { return tooLarge }}
	require.ErrorIs(t, v.File(filepath.Join(dir, "good.toml")).Err, tooLarge)
	err := v.File(filepath.Join(dir, "bad.toml")).Err
	require.NotErrorIs(t, err, tooLarge, "a file that cannot be read is not planned")
	err = v.File(filepath.Join(dir, "wrong.toml")).Err
	require.ErrorIs(t, err, tooLarge)
	require.ErrorContains(t, err, "wrong.toml:5:10: cmd_args.seconds", "what is wrong without a cluster, too")
	files, missing = Files([]string{t.TempDir(), filepath.Join(dir, "nowhere"), filepath.Join(dir, "good.toml")})
	require.Len(t, files, 1, "the others stop nothing")
	require.Len(t, missing, 2)
	require.ErrorIs(t, missing[1], fs.ErrNotExist)
	require.ErrorContains(t, missing[0], "there is no TOML file in this folder")
}

// The definitions that are kept with runs are checked only if their folder is named.
func TestFilesOfRuns(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "results", "s_2026-11-25", "definitions", "scenario.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	runs := filepath.Dir(filepath.Dir(kept))
	mine := filepath.Join(dir, "mine.toml")
	for _, name := range []string{kept, mine, filepath.Join(runs, "scenario.json")} {
		require.NoError(t, os.WriteFile(name, nil, 0o644))
	}
	for path, want := range map[string]string{dir: mine, runs: kept, filepath.Dir(kept): kept} {
		files, missing := Files([]string{path})
		require.Empty(t, missing)
		require.Equal(t, []string{want}, files)
	}
	files, missing := Files([]string{filepath.Join(dir, "results")})
	require.Empty(t, files)
	require.ErrorContains(t, missing[0], "there are only runs in this folder")
}

// The hint at one of several test files says if none of them can run.
func TestAmbiguousFilesThatCannotRun(t *testing.T) {
	for workload, want := range map[string]string{
		"MegatronBridge": "; the scenario can then be read, and cannot run: the workload MegatronBridge is not supported yet",
		"vllm":           "",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"s.toml":            "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_name = \"x\"\n",
			"tests/b200/x.toml": "name = \"x\"\ndescription = \"d\"\ntest_template_name = \"" + workload + "\"\n",
			"tests/h100/x.toml": "name = \"x\"\ndescription = \"d\"\ntest_template_name = \"" + workload + "\"\n",
		} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		err := Verifier{}.File(filepath.Join(dir, "s.toml")).Err
		require.ErrorContains(t, err, "2 test files are named \"x\"")
		require.True(t, strings.HasSuffix(err.Error(), filepath.Join("tests", "b200")+want), err.Error())
	}
}
