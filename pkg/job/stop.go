package job

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Teardown limits: an engine that has not ended a while after TERM gets KILL.
const (
	termWait     = 10 * time.Second
	killWait     = 5 * time.Second
	commandLimit = 10 * time.Second
)

// Stop ends every step of this job, by step id: first with TERM, so that engines can
// flush, then with KILL. If the local srun were killed instead, the tasks would get KILL
// at once. Before that, Stop stops profilers inside of engines that still run, and reads the
// engines' counters.
func (j *Job) Stop(ctx context.Context, procs []Process) {
	if err := j.owns(); err != nil {
		j.logf("%v", err)
		j.endOwn(ctx, procs)
		return
	}
	running := false
	for _, p := range procs {
		running = running || alive(p.PID)
	}
	if running {
		j.endTraces(ctx)
		scrape, cancel := context.WithTimeout(ctx, scrapeLimit)
		j.scrapeLast(scrape, After, func(role string) bool { return !ended(procs, role) })
		cancel()
		j.ask(ctx)
	}
	if err := j.event(Event{Event: Stopping}); err != nil {
		j.logf("%v", err)
	}
	j.endHooks(ctx, procs)
	steps := j.steps(ctx)
	j.signalSteps(ctx, "TERM", steps.roles)
	j.signalSteps(ctx, "USR1", steps.guards)
	if grace := cmp.Or(j.grace, j.termWait()); !j.waitUntilGone(ctx, procs, grace) {
		j.logf("some steps are still running %s after TERM; sending KILL", grace)
		j.signalSteps(ctx, "KILL", j.steps(ctx).roles)
		if !j.waitUntilGone(ctx, procs, cmp.Or(j.grace, killWait)) {
			for _, p := range procs { // so that the script's wait for them ends; Slurm deals with the tasks
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
	}
}

// termWait is how long roles may take to end; a profiler writes its report
// meanwhile.
func (j *Job) termWait() time.Duration {
	p, err := run.ReadPlan(j.Dir)
	if err == nil && p.Profiles() {
		return plan.ReportWait
	}
	return termWait
}

// ended reports whether a role's process is known and gone.
func ended(procs []Process, role string) bool {
	return slices.ContainsFunc(procs, func(p Process) bool { return p.Name == role && !alive(p.PID) })
}

// endHooks passes TERM on to a run inside this job: its script stops its own
// steps, writes its sentinel and judges what it has.
func (j *Job) endHooks(ctx context.Context, procs []Process) {
	var hooks []Process
	for _, p := range procs {
		if strings.HasPrefix(p.Name, run.PreTestDir+"/") && alive(p.PID) {
			syscall.Kill(p.PID, syscall.SIGTERM)
			hooks = append(hooks, p)
		}
	}
	if len(hooks) > 0 && !j.waitUntilGone(ctx, hooks, 2*cmp.Or(j.grace, termWait+killWait)) {
		j.logf("%s has not ended", hooks[0].Name)
	}
}

// waitUntilGone waits until all processes have ended, and is false if they have not within
// the limit.
func (j *Job) waitUntilGone(ctx context.Context, procs []Process, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var running []int
		for _, p := range procs {
			if alive(p.PID) {
				running = append(running, p.PID)
			}
		}
		if len(running) == 0 {
			return true
		}
		if !untilEnd(ctx, poll/2, running...) {
			return false
		}
	}
	return false
}

// steps are the ids of the job's running steps. What guards the nodes is told apart
// by its name.
type steps struct{ roles, guards []string }

func (j *Job) steps(ctx context.Context) (s steps) {
	id, own := j.Env("SLURM_JOB_ID"), j.ownSteps()
	out, err := command(ctx, "squeue", "-h", "-s", "-j", id, "-o", "%i|%j|%N")
	if err != nil {
		j.logf("list steps: %v", err)
		return s
	}
	for _, line := range strings.Split(out, "\n") {
		fields := strings.Split(strings.TrimSpace(line), "|")
		step, name, named := fields[0], "", len(fields) > 1
		if named {
			name = fields[1]
		}
		if len(fields) > 2 && !j.within(fields[len(fields)-1]) || !own(step, name) {
			continue
		}
		// squeue prints a task's step as 60_3.0; scancel signals it, and complains.
		if number, of := strings.CutPrefix(step, j.id()+"."); of {
			step = id + "." + number
		}
		switch {
		case !named || !isStep(step, id):
		case name == guardStep:
			s.guards = append(s.guards, step)
		default:
			s.roles = append(s.roles, step)
		}
	}
	return s
}

// ownSteps tells the run's steps where the allocation may have others, of whoever holds it: by their
// names, which steps from before the run may have as well.
func (j *Job) ownSteps() func(step, name string) bool {
	if j.Env(run.HeldVar) == "" {
		return func(string, string) bool { return true }
	}
	var claim run.Claim
	if err := run.ReadJSON(j.path(run.ClaimFile), &claim); err != nil {
		j.logf("steps of the run: %v", err)
		return func(string, string) bool { return false }
	}
	own := map[string]bool{guardStep: true}
	if err := addSteps(own, j.Dir); err != nil {
		j.logf("steps of the run: %v", err)
	}
	return func(step, name string) bool { return own[name] && !slices.Contains(claim.Others, step) }
}

// addSteps adds the names of the steps of a run and of its hooks.
func addSteps(own map[string]bool, dir string) error {
	p, err := run.ReadPlan(dir)
	if err != nil {
		return err
	}
	for i := range p.Setup {
		own[p.Setup[i].Name] = true
	}
	for i := range p.Roles {
		own[p.Roles[i].Step.Name] = true
	}
	if p.APICheck != nil {
		own[p.APICheck.Name] = true
	}
	for i := range p.Loads {
		for _, c := range p.Loads[i].Clients {
			own[c.Name] = true
		}
	}
	var errs []error
	for _, h := range slices.Concat(p.PreTest, p.PostTest) {
		errs = append(errs, addSteps(own, h.Dir))
	}
	return errors.Join(errs...)
}

// runningSteps are the ids of the steps of a job, as squeue prints them.
func runningSteps(id string) ([]string, error) {
	out, err := command(context.Background(), "squeue", "-h", "-s", "-j", id, "-o", "%i")
	return strings.Fields(out), err
}

// scancel ends with the lowest byte of Slurm's error code (slurm/slurm_errno.h).
const (
	stepUnknown = 2017 & 0xff // ESLURM_INVALID_JOB_ID
	stepDone    = 2021 & 0xff // ESLURM_ALREADY_DONE
)

func (j *Job) signalSteps(ctx context.Context, signal string, ids []string) {
	if len(ids) == 0 {
		return
	}
	_, err := command(ctx, "scancel", append([]string{"--signal=" + signal}, ids...)...)
	if exit := new(exec.ExitError); errors.As(err, &exit) &&
		(exit.ExitCode() == stepUnknown || exit.ExitCode() == stepDone) {
		return // the step ended between the list and the signal
	}
	if err != nil {
		j.logf("signal steps: %v", err)
	}
}

// within reports whether a step's nodes are all of this job's: a controller that
// lost its last seconds may have given the job's id to another, elsewhere.
func (j *Job) within(nodes string) bool {
	own, err := hostlist.Expand(j.Env("SLURM_JOB_NODELIST"))
	hosts, stepErr := hostlist.Expand(nodes)
	if err != nil || stepErr != nil || len(own) == 0 {
		return true // nothing to tell by
	}
	return !slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(own, host) })
}

// isStep reports whether a step was started by the job's script: JOB.NUMBER, in a
// heterogeneous job JOB+N.NUMBER. The batch script and Slurm's own steps have words for
// a number, and no other job's step is ours to signal.
func isStep(step, job string) bool {
	owner, number, ok := strings.Cut(step, ".")
	owner, _, _ = strings.Cut(owner, "+")
	_, err := strconv.ParseUint(number, 10, 32)
	return ok && owner == job && err == nil
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, err := capture.Run(exec.CommandContext(ctx, name, args...))
	return string(out), err
}
