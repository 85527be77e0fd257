package job

import (
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// containMargin is between the end of a container by force and that of its step.
const containMargin = 2 * time.Second

// patience is how long a container may outlive TERM: a little less than Stop gives its step, which
// is more if a profiler in it writes a report.
func (b *box) patience() time.Duration {
	if b.Contain.Dir != "" {
		if p, err := run.ReadPlan(b.Contain.Dir); err == nil && p.Profiles() {
			return plan.ReportWait - containMargin
		}
	}
	return termWait - containMargin
}

// restarted reports whether Slurm has queued the job again. Its steps have the numbers, and its
// containers the names, of the attempt before.
func (b *box) restarted() bool {
	n := b.Env("SLURM_RESTART_COUNT")
	return n != "" && n != "0"
}
