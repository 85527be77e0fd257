package job

import (
	"context"
	"fmt"
	"syscall"

	"github.com/profllm/profllm/pkg/run"
)

// owns fails once the job has begun this run anew on another node, while the
// script that asks goes on: a controller that lost sight of a node, or its own
// last seconds, starts a job a second time under the same id. (On one node slurmd
// refuses a second copy.) From then on nothing of the run is this script's to
// write, and steps that carry the job's id are not its to stop. The script of a held
// allocation begins once, and its steps write from other nodes than its own.
func (j *Job) owns() error {
	if j.Env == nil { // a command looks after the run of a job that is over
		return nil
	}
	var claim run.Claim
	node := j.Env("SLURMD_NODENAME")
	if run.ReadJSON(j.path(run.ClaimFile), &claim) != nil || claim.Node == "" || node == "" || claim.JobID != j.id() ||
		claim.Node == node || claim.Allocation != "" {
		return nil
	}
	return fmt.Errorf("job %s restarted this run on %s; this script, on %s, no longer owns the run", claim.JobID,
		claim.Node, node)
}

// endOwn ends the steps of a script that has lost its run, through their own srun
// alone.
func (j *Job) endOwn(ctx context.Context, procs []Process) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, p := range procs {
			if alive(p.PID) {
				syscall.Kill(p.PID, signal)
			}
		}
		if j.waitUntilGone(ctx, procs, killWait) {
			return
		}
	}
}
