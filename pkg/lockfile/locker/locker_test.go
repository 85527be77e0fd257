package locker

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// What a lock file cannot reproduce is refused, with what to name instead.
func TestNotLockable(t *testing.T) {
	o := Options{Relative: func(path string) string { return path }, Log: t.Logf}
	refused := func(dir, why string) {
		t.Helper()
		_, err := Lock(dir, o)
		var refused *NotLockableError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, why)
	}
	root := t.TempDir()
	refused(root, "is neither a run of profllm nor the directory of a scenario")
	for why, s := range map[string]run.Scenario{
		"continues the sweeps of /earlier":       {Continues: "/earlier"},
		"hint: profllm confirm " + root + "/fir": {Confirm: &run.Confirmation{}},
		"is not a run of the scenario in":        {},
	} {
		s.Schema, s.Name = "profllm.scenario/1", "s"
		require.NoError(t, run.WriteJSON(filepath.Join(root, run.ScenarioFile), s))
		refused(root, why)
	}
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.ScenarioFile), run.Scenario{
		Schema: "profllm.scenario/1", Name: "s", Runs: []string{"a/0"},
	}))
	refused(root, "plan.json")
}
