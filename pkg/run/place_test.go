package run_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

func TestPlaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "0", "1")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "p1", "logs", "deep"), 0o755))
	require.False(t, run.HasPlan(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), []byte("{}"), 0o644))
	require.True(t, run.HasPlan(dir))
	require.Equal(t, dir, run.Above(filepath.Join(dir, "p1", "logs")))
	require.Equal(t, filepath.Join(dir, "p1/logs/deep"), run.Above(filepath.Join(dir, "p1/logs/deep")), "too far below")
	require.True(t, run.IsPoint(dir))
	require.False(t, run.IsPoint(filepath.Dir(dir)))
	require.Empty(t, run.PointTexts([]string{dir}), "a plan that cannot be read has no settings")
}

// A run is open until a file of its last job says that it is over.
func TestOpenRuns(t *testing.T) {
	root := t.TempDir()
	open := func() []run.OpenRun {
		t.Helper()
		list, err := run.OpenRuns(root)
		require.NoError(t, err)
		return list
	}
	require.Equal(t, []run.OpenRun{{Why: "it is neither the directory of a scenario nor that of a run"}}, open())
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.PlanFile), struct{}{}))
	require.Equal(t, []run.OpenRun{{root, "the run was not submitted, or its state is unknown"}}, open())
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.SubmitFile), run.Submission{JobID: "60"}))
	require.Equal(t, []run.OpenRun{{root, "it is not known whether job 60 is over"}}, open())
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.SentinelFile), run.Sentinel{JobID: "60"}))
	require.Empty(t, open())
}
