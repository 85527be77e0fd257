package result_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
)

// Every record that a release has written is read by this one, and written again
// it says the same.
//
// covers: PL-D20
func TestReleasedRecords(t *testing.T) {
	var files []string
	require.NoError(t, filepath.WalkDir("testdata/releases", func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "result.json" || filepath.Base(filepath.Dir(path)) == "records") {
			files = append(files, path)
		}
		return err
	}))
	require.Greater(t, len(files), 8)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, result.Validate(data))
			r, err := result.Decode(data)
			require.NoError(t, err)
			again, err := resulttest.Marshal(r)
			require.NoError(t, err)
			require.JSONEq(t, string(data), string(again))
			back, err := result.Decode(again)
			require.NoError(t, err)
			require.Equal(t, r, back)
		})
	}
}
