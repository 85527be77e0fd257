package repeats

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// A series that was ended stays ended; a load that belongs to none, and a run without a plan,
// are errors.
func TestDecide(t *testing.T) {
	dir := t.TempDir()
	col := &collect.Collector{Version: "test"}
	_, err := Decide(col, dir, "r2", time.Now())
	require.Error(t, err)

	p := &plan.Plan{Schema: plan.Schema, Loads: []plan.Load{
		{Name: "r1"}, {Name: "r2", Repeat: &plan.Repeat{Group: "g", Index: 1, Of: 3, Until: &plan.Until{}}},
	}}
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), data, 0o644))
	for _, load := range []string{"r1", "r3"} {
		_, err := Decide(col, dir, load, time.Now())
		require.ErrorContains(t, err, `the plan has no load "`+load+`" in a series`)
	}

	ended, err := json.Marshal(job.Event{Event: job.RepeatsEnd, Repeats: &job.RepeatsOver{Group: "g", Done: 1}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.EventFile), append(ended, '\n'), 0o644))
	d, err := Decide(col, dir, "r2", time.Now())
	require.NoError(t, err)
	require.Equal(t, Decision{Enough: true, Known: true}, d)
}
