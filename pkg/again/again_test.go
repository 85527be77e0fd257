package again_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/again"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

func TestCommand(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "0")
	e := again.Execution{Root: root, Shown: "my results/s_1", Run: dir}
	_, ok := e.Command("rehearse")
	require.False(t, ok, "no definitions")
	for _, name := range []string{run.ScenarioCopy, run.SystemCopy} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, run.DefinitionDir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, run.DefinitionDir, name), nil, 0o644))
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.PlacementFile),
		run.Placement{Simulator: map[string]string{"PROFLLM_SIM_TTFT": "5ms", "PROFLLM_SIM_FAULTS": "serve:a b"}}))
	const files = "'my results/s_1/definitions/scenario.toml' --system 'my results/s_1/definitions/system.toml' " +
		"--output-dir 'my results'"
	const settings = "PROFLLM_SIM_FAULTS='serve:a b' PROFLLM_SIM_TTFT=5ms "
	for _, c := range []struct {
		verb      string
		simulated bool
		speed     int
		want      string
	}{
		{"slurm submit", false, 0, "profllm slurm submit " + files},
		{"slurm submit", true, 10, settings + "profllm slurm submit " + files + " --simulate"},
		{"rehearse", true, 10, settings + "profllm rehearse " + files + " --speed 10"},
		{"rehearse", true, 0, settings + "profllm rehearse " + files},
		{"rehearse", false, 0, "profllm rehearse " + files},
	} {
		e.Simulated, e.Speed = c.simulated, c.speed
		got, ok := e.Command(c.verb)
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
	e.Simulated = false
	served := &plan.Plan{Schema: plan.Schema, Test: "a b", Serve: &plan.Serve{For: plan.Seconds(2 * time.Hour)}}
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.PlanFile), served))
	require.NoError(t, run.WriteJSON(filepath.Join(root, run.ScenarioFile),
		run.Scenario{Name: "s", Local: true, Verb: "serve"}))
	require.Equal(t, "serve", again.Verb(root))
	got, ok := e.Command("serve")
	require.True(t, ok)
	require.Equal(t, "profllm serve "+files+" --test 'a b' --for 2h0m0s", got)
	e.Simulated = true
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.PlacementFile),
		run.Placement{Simulator: map[string]string{"PROFLLM_SIM_TTFT": "\x00"}}))
	_, ok = e.Command("rehearse")
	require.False(t, ok, "no shell takes NUL")
}
