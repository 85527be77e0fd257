package importer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/run"
)

// A result gets one directory, however often it is imported; another of its name gets one
// beside it.
func TestImport(t *testing.T) {
	plain := func(path string) string { return path }
	output := filepath.Join(t.TempDir(), "ours")
	m := Importer{Collector: &collect.Collector{Version: "test"}, Dir: output, Relative: plain}
	scan := func(path string) (interchange.File, interchange.Item) {
		t.Helper()
		s := interchange.Scan{Skip: output, Name: plain, Spoilt: func(_ string, err error) { require.NoError(t, err) }}
		files, err := s.Path(path)
		require.NoError(t, err)
		require.Len(t, files, 1)
		return files[0], files[0].Items[0]
	}
	f, it := scan("../testdata/agg_row.json")
	for _, first := range []bool{true, false} {
		dir, isNew, err := m.Import(f, it)
		require.NoError(t, err)
		require.Equal(t, first, isNew)
		require.Equal(t, filepath.Join(output, "agg_row"), dir)
		require.FileExists(t, filepath.Join(dir, run.ResultFile))
	}
	data, err := os.ReadFile("../testdata/agg_row.json")
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "agg_row.json")
	require.NoError(t, os.WriteFile(other, append(data, '\n'), 0o644))
	f, it = scan(other)
	dir, isNew, err := m.Import(f, it)
	require.NoError(t, err)
	require.True(t, isNew)
	require.Regexp(t, `/agg_row-[0-9a-f]{8}$`, dir)
	require.NoError(t, os.Remove(other))
	at, _, err := m.Import(f, it)
	require.Error(t, err)
	require.Equal(t, f.Source, at)
}
