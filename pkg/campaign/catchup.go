package campaign

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Open is a job that is not over; the zero value is none.
type Open struct {
	Text  string      // job 60 of results/qwen/a/0 is queued, Priority
	Stuck *StuckError // it does not start without somebody's doing
}

// CatchUp collects the runs of a night that were not collected, and returns one of its
// jobs that is not over, preferably a stuck one. A job that Slurm does not know counts as
// running until unknownLimit.
func (c *Client) CatchUp(ctx context.Context, dirs []string) (open Open, err error) {
	dirs = slices.DeleteFunc(slices.Clone(dirs), HasFinalRecord)
	if len(dirs) == 0 {
		return Open{}, nil
	}
	subs := c.Jobs(ctx, dirs)
	states, err := c.States(ctx, dirs, subs)
	if err != nil {
		return Open{}, err
	}
	col := c.Collector()
	for _, dir := range dirs {
		st, asked := states[dir]
		switch {
		case !asked: // never submitted
		case !st.Final() && (st.State != run.Unknown || c.Now().Sub(subs[dir].Time) < unknownLimit):
			if stuck := c.stuck(dir, st); open.Stuck == nil {
				open = Open{fmt.Sprintf("job %s of %s is %s%s", st.JobID, c.relative(dir), st.State,
					prefixed(", ", st.Reason)), stuck}
			}
		default:
			if _, err := col.Write(dir, &st); err != nil {
				c.progress("%s: %v", c.relative(dir), err)
			}
		}
	}
	return open, nil
}

// HasFinalRecord reports whether a run is over and its record says what became of it.
func HasFinalRecord(dir string) bool {
	var st run.State
	if run.ReadJSON(filepath.Join(dir, run.StateFile), &st) != nil || !st.Final() {
		return false
	}
	runs, err := records.Load(dir)
	if err != nil || len(runs) == 0 {
		return false
	}
	for _, r := range runs {
		if r.Result == nil || r.Result.Status == result.Unknown {
			return false
		}
		if st.Source != "local" && !strings.HasPrefix(st.JobID, run.KubePrefix) && (r.Result.Slurm == nil || r.Result.Slurm.State != cmp.Or(st.Raw, "UNKNOWN")) {
			return false
		}
	}
	return true
}

// Collector reads what the clients and evaluations of this program's catalog write.
func (c *Client) Collector() *collect.Collector {
	return &collect.Collector{Version: c.Version, Bench: catalog.Benches, Eval: catalog.Evals, Causes: failure.Builtin}
}
