package cache

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect/index"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Few runs are not worth an index, and the zero value knows nothing.
func TestFewRuns(t *testing.T) {
	c := Open([]string{"a"}, Options{Now: time.Now()})
	require.Equal(t, &Cache{}, c)
	require.False(t, c.IsUnchanged("a"))
	require.Nil(t, c.index("a"))
	c.Save()
}

// What is kept of a record is what is printed of many runs; the rest is read from its file.
func TestRecalled(t *testing.T) {
	dir := t.TempDir()
	whole := &result.Result{
		Schema: "s", RunID: "r", Status: result.Failed, Config: result.Config{Settings: map[string]string{"a": "m"}},
		Failure: &result.Failure{Cause: "cuda-oom", Tail: []string{"x"}},
		Validity: &result.Validity{Verdict: result.VerdictInvalid, Checks: []result.Check{
			{Word: "a", Outcome: result.Fail, Severity: result.Invalid}, {Word: "b", Outcome: result.Pass},
		}},
	}
	shown, err := json.Marshal(keptRun{State: run.Failed, Rows: []keptRow{{"p1", brief(whole)}}})
	require.NoError(t, err)
	c, ok := recalled(dir, &index.Entry{Shown: shown})
	require.True(t, ok)
	require.Equal(t, run.Failed, c.State)
	row := c.Rows[0]
	require.Equal(t, filepath.Join(dir, "p1"), row.Dir)
	require.Equal(t, "cuda-oom", row.Result.Failure.Cause)
	require.Empty(t, row.Result.Failure.Tail)
	require.Empty(t, row.Result.Config.Settings)
	require.Len(t, row.Result.Validity.Checks, 1)

	require.Error(t, row.Read(), "the record is gone")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "p1"), 0o755))
	require.NoError(t, run.WriteJSON(filepath.Join(dir, "p1", run.ResultFile), whole))
	require.NoError(t, row.Read())
	require.Equal(t, "m", row.Result.Config.Settings["a"])
	require.Len(t, row.Result.Validity.Checks, 2)

	for _, e := range []*index.Entry{nil, {Shown: []byte("{")}} {
		_, ok := recalled(dir, e)
		require.False(t, ok)
	}
}

// A record depends on the program that wrote it, and on the zone of Slurm's times.
func TestProgram(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	one := Options{Version: "1", Now: now}
	require.Equal(t, one.program(), Options{Version: "1", Now: now.Add(time.Hour)}.program())
	require.NotEqual(t, one.program(), Options{Version: "2", Now: now}.program())
	require.NotEqual(t, one.program(), Options{Version: "1", Executable: t.TempDir(), Now: now}.program())
}
