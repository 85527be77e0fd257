package campaign

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/stats"
)

// What is looked at of earlier executions, so that a dry run of a large sweep stays fast.
const (
	earlierExecutions = 10
	earlierLooks      = 200 // run directories, of all runs of a plan
)

// Estimate is how long runs may take, one after the other.
type Estimate struct {
	About   time.Duration // by earlier runs; 0: not known
	Earlier int           // how many runs that is the median of; 0 for a sum
	Least   time.Duration // by the request rate, without the start of the server; 0: not known
	Most    time.Duration // by the time limit; 0: none
}

// earlier are the executions of a scenario in the folder of results.
type earlier struct {
	roots []string // newest first
	looks int
}

// earlierOf lists the executions of p's scenario that began before it.
func earlierOf(p *Planned) *earlier {
	parent, own := filepath.Split(p.Root)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return &earlier{} // nothing was ever submitted there, or it cannot be seen from here
	}
	e := &earlier{}
	for _, x := range slices.Backward(entries) {
		stamp, ok := strings.CutPrefix(x.Name(), p.Name+"_")
		if _, err := time.Parse("2006-01-02_15-04-05", stamp); !ok || err != nil || x.Name() >= own {
			continue
		}
		if e.roots = append(e.roots, filepath.Join(parent, x.Name())); len(e.roots) == earlierExecutions {
			break
		}
	}
	return e
}

// estimate is how long one run may take.
func (e *earlier) estimate(root string, p *plan.Plan) Estimate {
	est := Estimate{Most: time.Duration(p.Job.TimeLimit), Least: paced(p)}
	rel, err := filepath.Rel(root, p.Dir)
	if err != nil {
		return est
	}
	var took []float64
	for _, r := range e.roots {
		if e.looks++; e.looks > earlierLooks {
			break
		}
		if d, ok := duration(filepath.Join(r, rel), p); ok {
			took = append(took, d)
		}
	}
	if median, err := stats.Median(took); err == nil {
		est.About, est.Earlier = time.Duration(median*float64(time.Second)), len(took)
	}
	return est
}

// paced is how long the loads of a run take at least, if each has a rate of requests.
func paced(p *plan.Plan) time.Duration {
	var sum float64
	for _, l := range p.Loads {
		if l.Expect.RequestRate <= 0 || l.Repeat != nil && l.Repeat.Until != nil {
			return 0
		}
		sum += float64(l.Expect.NumPrompts) / l.Expect.RequestRate
	}
	return time.Duration(sum * float64(time.Second))
}

// duration is how long an earlier run took, in s, if it completed and was asked for the
// same.
func duration(dir string, p *plan.Plan) (float64, bool) {
	old, err := run.ReadPlan(dir)
	if err != nil || old.Simulated != p.Simulated || len(old.Loads) != len(p.Loads) || len(p.Loads) == 0 {
		return 0, false
	}
	for i := range p.Loads {
		if !maps.Equal(old.Settings(&old.Loads[i]), p.Settings(&p.Loads[i])) {
			return 0, false
		}
	}
	below, err := filepath.Rel(old.Dir, old.Loads[0].Dir)
	if err != nil {
		return 0, false
	}
	var r struct {
		Status   result.Status `json:"status"`
		Duration *float64      `json:"duration"`
	}
	if run.ReadJSON(filepath.Join(dir, below, run.ResultFile), &r) != nil || r.Status != result.Completed ||
		r.Duration == nil {
		return 0, false
	}
	return *r.Duration, true
}
