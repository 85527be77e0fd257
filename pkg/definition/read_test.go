package definition_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/definition"
)

func TestFolderInThePlaceOfAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	require.NoError(t, os.Mkdir(dir, 0o755))
	_, err := definition.ReadFile("scenario", dir)
	require.EqualError(t, err,
		dir+" is a folder, not a scenario file\n\thint: name a scenario file; the folder has none")
	for i := range 10 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/s%d.toml", dir, i), []byte("[[Tests]]\nid = 'x'\n"), 0o644))
	}
	require.NoError(t, os.WriteFile(dir+"/a.toml", []byte("scheduler = 'slurm'\n"), 0o644))
	_, err = definition.ReadFile("scenario", dir)
	require.ErrorContains(t, err,
		"file in it: s0.toml, s1.toml, s2.toml, s3.toml, s4.toml, s5.toml, s6.toml, s7.toml and 2 more")
	_, err = definition.ReadFile("system", dir)
	require.ErrorContains(t, err, "file in it: a.toml")
}

func TestSame(t *testing.T) {
	dir := t.TempDir()
	require.True(t, definition.Same(dir, dir+"/../"+filepath.Base(dir)))
	require.False(t, definition.Same(dir, t.TempDir()))
	require.False(t, definition.Same(dir+"/x", dir+"/x"))
}
