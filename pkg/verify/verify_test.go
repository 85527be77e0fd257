package verify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"site.toml": "name = \"s\"\nscheduler = \"slurm\"\noutput_path = \"o\"\ninstall_path = \"i\"\ndefault_partition = \"p\"\n",
		"good.toml": "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\ncmd_args.seconds = 1\n",
		"bad.toml":  "name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"Sleep\"\nnum_nodez = 2\n",
		"none.toml": "name = ",
		"notes.md":  "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	files, missing := Files([]string{dir})
	require.Empty(t, missing)
	require.Len(t, files, 4)
	kinds := map[string]string{"site.toml": "system", "good.toml": "scenario", "bad.toml": "scenario",
		"none.toml": "file"}
	for _, file := range files {
		found := Verifier{}.File(file)
		name := filepath.Base(file)
		require.Equal(t, kinds[name], found.Kind)
		require.Equal(t, name == "bad.toml" || name == "none.toml", found.Err != nil, "%s: %v", name, found.Err)
	}
	tooLarge := errors.New("too large")
	v := Verifier{Plan: func(string) error { return tooLarge }}
	require.Equal(t, tooLarge, v.File(filepath.Join(dir, "good.toml")).Err)
	files, missing = Files([]string{t.TempDir(), filepath.Join(dir, "nowhere"), filepath.Join(dir, "good.toml")})
	require.Len(t, files, 1, "the others stop nothing")
	require.Len(t, missing, 2)
	require.ErrorIs(t, missing[1], fs.ErrNotExist)
	require.ErrorContains(t, missing[0], "there is no TOML file in this folder")
}
