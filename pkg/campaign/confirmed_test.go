package campaign

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// The command for more pairs rehearses at the speed of the others: runs of different speeds are
// not compared.
func TestMorePairs(t *testing.T) {
	root := t.TempDir()
	s := run.Scenario{Runs: []string{"first/a/0"}, Confirm: &run.Confirmation{Metrics: []string{"throughput"}}}
	require.Equal(t, "profllm confirm r/first r/second --pairs 8 --metric throughput", MorePairs(s, root, "r", 8))
	s.Local, s.Simulated = true, true
	require.Equal(t, "profllm confirm r/first r/second --pairs 8 --metric throughput --rehearse",
		MorePairs(s, root, "r", 8))
	data, err := (&plan.Plan{Schema: plan.Schema, Rehearsal: &plan.Rehearsal{Speed: 20}}).Encode()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "first/a/0"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "first/a/0", run.PlanFile), data, 0o644))
	require.Equal(t, "profllm confirm r/first r/second --pairs 8 --metric throughput --rehearse --speed 20",
		MorePairs(s, root, "r", 8))
	require.NoError(t, run.WriteJSON(filepath.Join(root, "first/a/0", run.PlacementFile),
		run.Placement{Simulator: map[string]string{"PROFLLM_SIM_ITL": "9ms", "PROFLLM_SIM_FAULTS": "serve:cold=3;client:pace=1"}}))
	require.Equal(t, "PROFLLM_SIM_FAULTS='serve:cold=3;client:pace=1' PROFLLM_SIM_ITL=9ms "+
		"profllm confirm r/first r/second --pairs 8 --metric throughput --rehearse --speed 20",
		MorePairs(s, root, "r", 8))
}
