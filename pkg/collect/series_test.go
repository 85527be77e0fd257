package collect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// A series that ended early has records of what ran, with the reason; of one whose job
// ended first every load has one, and no reason is made up.
//
// covers: PL-Q14
func TestSeries(t *testing.T) {
	begin := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"time":"2026-11-21T04:56:0%dZ","event":"load-begins","load":"r%d"}`+"\n", i, i+1)
		}
		return b.String()
	}
	const end = `{"time":"2026-11-21T04:57:00Z","event":"repeats-end","load":"r3","text":"known","repeats":{"group":"g","done":2,"why":"precise","saved_s":90,"nodes":4}}` + "\n"
	for name, c := range map[string]struct {
		events   string
		sentinel bool
		records  int
		want     result.Series
	}{
		"precise":       {begin(2) + end, true, 2, result.Series{Done: 2, Stopped: result.Precise, Why: "known", SavedRepeats: 1, SavedNodeMinutes: 6}},
		"all ran":       {begin(3), true, 3, result.Series{Done: 3, Stopped: result.AllRan}},
		"the job ended": {begin(2), true, 3, result.Series{Done: 2}},
		"it goes on":    {begin(3), false, 3, result.Series{Done: 3}},
		"another group": {begin(2) + strings.Replace(end, `"g"`, `"h"`, 1), true, 3, result.Series{Done: 2}},
	} {
		dir := recorded(t)
		p, err := run.ReadPlan(dir)
		require.NoError(t, err)
		first := p.Loads[0]
		p.Loads = nil
		for i := range 3 {
			l := first
			l.Name, l.RunID, l.Dir = fmt.Sprintf("r%d", i+1), fmt.Sprintf("exp_%d", i), filepath.Join(p.Dir,
				fmt.Sprintf("r%d", i+1))
			l.Repeat = &plan.Repeat{Group: "g", Index: i, Of: 3,
				Until: &plan.Until{Percent: 2, Metrics: []string{"output_throughput"}}}
			p.Loads = append(p.Loads, l)
		}
		data, err := p.Encode()
		require.NoError(t, err)
		write(t, dir, run.PlanFile, string(data))
		write(t, dir, run.EventFile, c.events)
		if !c.sentinel {
			require.NoError(t, os.Remove(filepath.Join(dir, run.SentinelFile)))
		}
		records, err := collector(t).Run(dir, nil)
		require.NoError(t, err)
		require.Len(t, records, c.records, name)
		c.want.Percent, c.want.Metrics = 2, []string{"output_throughput"}
		for i, rec := range records {
			require.Equal(t, filepath.Join(dir, fmt.Sprintf("r%d", i+1)), rec.Dir)
			require.Equal(t, &result.Repeats{Group: "g", Index: i, Of: 3, Series: &c.want}, rec.Result.Repeats, name)
		}
	}
}
