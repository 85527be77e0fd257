package collect

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
)

// A listing answers like the directory itself.
func TestListing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "raw/deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "raw/a.json"), []byte("{}"), 0o644))
	l := list(dir)
	for name, there := range map[string]bool{
		".": true, "raw": true, "raw/deep": true, "raw/a.json": true,
		"no": false, "raw/no": false, "no/a.json": false, "no/no/no": false,
	} {
		_, err := l.Stat(name)
		require.Equal(t, there, err == nil, name)
		if !there {
			require.ErrorIs(t, err, fs.ErrNotExist, name)
		}
		f, err := l.Open(name)
		require.Equal(t, there, err == nil, name)
		if err == nil {
			require.NoError(t, f.Close())
		}
	}
	data, err := fs.ReadFile(l, "raw/a.json")
	require.NoError(t, err)
	require.Equal(t, "{}", string(data))
	entries, err := fs.ReadDir(l, "raw")
	require.NoError(t, err)
	require.Len(t, entries, 2)
	_, err = fs.ReadDir(l, "no")
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "raw/late.json"), nil, 0o644))
	_, err = l.Open("raw/late.json")
	require.ErrorIs(t, err, fs.ErrNotExist, "listed once")
}

// one is a parser that finds a file.
type one string

func (o one) Parse(dir fs.FS) (result.Part, error) {
	_, err := fs.Stat(dir, string(o))
	return result.Part{Metrics: &result.Metrics{Source: string(o)}}, err
}

// What is planned and in no listing, as on a network file system that believes an old
// one, is looked for by its name.
func TestAnOldListingHidesNoResult(t *testing.T) {
	dir := t.TempDir()
	e := evidence{at: dir, files: list(dir)}
	_, err := e.files.ReadDir(".")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bench.json"), nil, 0o644))
	for _, planned := range []bool{false, true} {
		d := &draft{record: &result.Result{}}
		parseAny(&e, d, []Parser{one("bench.json")}, "the result", planned)
		require.Empty(t, d.facts.Missing)
		require.Equal(t, planned, d.record.Results.Source == "bench.json")
	}
}
