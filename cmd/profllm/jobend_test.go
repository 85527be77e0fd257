package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file of either client of a simulated run says so, wherever it is taken to.
//
// covers: PL-V29
func TestRawFilesOfRehearsalsAreMarked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []string
	for _, r := range []*rehearsed{&rehearsedDemo, &rehearsedPair} { // of vLLM's client, and of profllm's
		found, err := filepath.Glob(filepath.Join(r.made(t), "*", "0", "raw", "vllm-bench.json"))
		require.NoError(t, err)
		require.Len(t, found, 2)
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(data, &doc))
		require.Equal(t, "true", doc["simulated"], file)
	}
	alone := filepath.Join(t.TempDir(), "run=0.json") // taken out of its run
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(alone, data, 0o644))
	imported := filepath.Join(dir, "imported")
	out, err := command(dir, nil, "import", alone, "--output", imported).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var records []string
	require.NoError(t, filepath.WalkDir(imported, func(path string, d os.DirEntry, err error) error {
		if d.Name() == "result.json" {
			records = append(records, path)
		}
		return err
	}))
	require.Len(t, records, 1)
	data, err = os.ReadFile(records[0])
	require.NoError(t, err)
	require.Contains(t, string(data), `"simulated": true`)
}
