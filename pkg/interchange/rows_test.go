package interchange_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/interchange"
)

// Rows keep keys, null and infinities as the file has them, in its order, and know what the sweep chose.
func TestRows(t *testing.T) {
	rows, err := interchange.Rows("summary.json", []byte(`[{"duration": 1, "completed": 2, "request_rate": "inf",
		"max_concurrency": null, "x": NaN, "flag": true, "list": [1], "simulated": "true", "run_number": 0, "tp": 2, "model": "m"}]`))
	require.NoError(t, err)
	require.Len(t, rows, 1)
	r := rows[0]
	require.True(t, r.Simulated)
	var keys []string
	cells := map[string]interchange.Cell{}
	for _, c := range r.Cells {
		keys = append(keys, c.Key)
		cells[c.Key] = c
	}
	require.Equal(t, []string{"tp", "model"}, keys[r.Chosen:])
	require.NotContains(t, keys, "list")
	require.True(t, math.IsInf(*cells["request_rate"].Number, 1))
	require.Nil(t, cells["max_concurrency"].Number)
	require.Equal(t, "None", cells["max_concurrency"].Text)
	require.True(t, math.IsNaN(*cells["x"].Number))
	require.Equal(t, "True", cells["flag"].Text)
	require.Equal(t, 2.0, *cells["tp"].Number)
	require.Nil(t, cells["model"].Number)

	_, err = interchange.Rows("summary.json", []byte(`[{"a": 1}]`))
	require.ErrorIs(t, err, interchange.ErrUnknown)
}

// Sweeps are found below a folder; what lies within runs of profllm has records, and a broken file
// spoils nothing but itself.
func TestSweeps(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "sweep"), os.DirFS("testdata/sweep")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "run/raw"), os.DirFS("testdata/sweep")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run/import.json"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "summary.json"), []byte(`[{"duration": `), 0o644))
	var spoilt []string
	list, err := interchange.Sweeps(dir, func(path string, _ error) { spoilt = append(spoilt, path) })
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Len(t, list[0].Rows, 2)
	require.Equal(t, []string{filepath.Join(dir, "summary.json")}, spoilt)
	_, err = interchange.Sweeps(filepath.Join(dir, "nowhere"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzRows(f *testing.F) {
	data, err := os.ReadFile("testdata/sweep/SERVE--s8-BENCH--c4/summary.json")
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`[{"duration":1,"completed":1,"run_number":"x","a":"inf","b":-Infinity}, 3]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := interchange.Rows("summary.json", data)
		var place *interchange.PlaceError
		require.True(t, err == nil || errors.As(err, &place) || errors.Is(err, interchange.ErrUnknown), "%v", err)
		for _, r := range rows {
			require.LessOrEqual(t, r.Chosen, len(r.Cells))
		}
	})
}
