package campaign_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/run"
)

// Each run is counted once, by the state of its job; imported runs are not counted.
func TestStandings(t *testing.T) {
	imported := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(imported, run.ImportFile), []byte("{}"), 0o644))
	states := map[string]run.State{
		"waits": {State: run.Queued}, "runs": {State: run.Running}, "unknown": {State: run.Unknown, Note: run.Forgotten},
		"well": {State: run.Succeeded, ExitCode: "0:0"}, "invalid": {State: run.Failed, ExitCode: "6:0"},
		"failed": {State: run.Failed, ExitCode: "5:0"}, "signal": {State: run.Failed, ExitCode: "6:9"},
		"cancelled": {State: run.Cancelled}, "late": {State: run.Timeout}, "oom": {State: run.OOM},
	}
	subs := map[string]run.Submission{"refused": {Refused: "by Slurm"}}
	dirs := []string{imported, "refused", "new", "asked"}
	for dir := range states {
		dirs, subs[dir] = append(dirs, dir), run.Submission{JobID: "1"}
	}
	subs["asked"] = run.Submission{JobID: "1"} // nobody has answered yet
	require.Equal(t, campaign.Standing{Open: 4, NotSubmitted: 2, Failed: 5, Invalid: 1, Succeeded: 1},
		campaign.Standings(dirs, subs, states))
}
