package campaign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/run"
)

// Submissions that begin in the same second get a directory each. Their plans and scripts
// name that directory. A name that the user gave is not changed.
func TestSubmissionsOfOneSecond(t *testing.T) {
	dir := t.TempDir()
	options := campaign.Options{Simulate: true, OutputDir: dir}
	c := client()
	var plans []*campaign.Planned
	for range 3 {
		p, err := c.Plan(t.Context(), "demo", options)
		require.NoError(t, err)
		plans = append(plans, p)
	}
	for plans[0].Root != plans[2].Root { // a second began meanwhile
		for i := range plans {
			var err error
			plans[i], err = c.Plan(t.Context(), "demo", options)
			require.NoError(t, err)
		}
	}
	allow := func(campaign.Cost) error { return nil }
	seen := map[string]bool{}
	for i := range plans {
		root, _, err := c.Begin(plans[i], allow)
		require.NoError(t, err)
		require.False(t, seen[root])
		seen[root] = true
		require.Equal(t, root, plans[i].Root)
		s, err := run.ReadScenario(root)
		require.NoError(t, err)
		for _, rel := range s.Runs {
			p, err := run.ReadPlan(filepath.Join(root, rel))
			require.NoError(t, err)
			require.Equal(t, filepath.Join(root, rel), p.Dir)
			script, err := os.ReadFile(filepath.Join(root, rel, run.ScriptFile))
			require.NoError(t, err)
			require.Contains(t, string(script), root+"/")
		}
	}

	options.Time = time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)
	for i := range 2 {
		p, err := c.Plan(t.Context(), "demo", options)
		require.NoError(t, err)
		err = c.BeginAnew(p, allow)
		if i == 0 {
			require.NoError(t, err)
			continue
		}
		require.True(t, strings.HasSuffix(err.Error(),
			"file already exists\n\thint: --time names this directory; give another time, or leave it out"), err)
	}
}
