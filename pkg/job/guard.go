package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// guardStep is the name of the step that Guard is.
const guardStep = "nodes"

// GuardEnds is the signal with which Stop ends the guard. It is not TERM, because
// slurmstepd would then write into every job's output that the step was cancelled.
const GuardEnds = syscall.SIGUSR1

// Limits of what Guard does once it is told to end.
const (
	// from TERM to KILL of a daemon; the lowest KillWait of sites is 5 s
	strayGrace  = 2 * time.Second
	straySettle = time.Second / 2                          // before TERM, if the job does not end by force
	gpuRelease  = 2 * time.Second                          // for the driver to free the memory of a killed process
	guardWait   = strayGrace + gpuRelease + 12*time.Second // a busy node needs seconds to begin
	termLate    = 2 * time.Second                          // from the end of a job's steps to TERM for its script
)

// Guard does what Node does, and then stays on the node until end closes or ctx ends, as
// at every end of a job: GuardEnds from Stop; TERM from scancel, at the time limit, or
// when the script itself is killed. It then cleans the node and reports what it found. A
// clean-up step could not be started at that time, because Slurm starts no step in a job
// that is ending.
func (j *Job) Guard(ctx context.Context, end <-chan struct{}) error {
	p, err := run.ReadPlan(j.Dir) // once: at the end even the run directory may be gone
	if err != nil {
		return err
	}
	host := j.Env("SLURMD_NODENAME")
	_, hook := run.HookOf(j.Dir)
	sweep := node.Sweep{
		Proc: proc, Job: j.Env("SLURM_JOB_ID"), Held: j.Env(run.HeldVar), Host: host, Self: os.Getpid(), Grace: strayGrace,
		Limit: j.termWait() + killWait + strayGrace + time.Second,
		Tasks: tasksEnd(j.termWait(), hook), Steps: hook || j.Env(run.HeldVar) != "",
		Patient: p.Profiles(),
	}
	before := node.NewSnapshot(shm, proc)
	if err := j.Node(ctx); err != nil {
		if ctx.Err() != nil { // no server has started
			err = errors.Join(err, j.writeLeft(host, nil, true))
		}
		return err
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	sampled, hostSampled := j.sampleGPUs(watch, p, host), j.sampleHost(watch, p, host)
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		j.printSteps(watch, p, host)
	}()
	abandoned := false // by a script that is over: its srun may be gone as well
	select {
	case <-end:
	case <-ctx.Done():
	case <-j.scriptOver(watch, cmp.Or(j.grace, guardWait)):
		abandoned = true
	}
	var ending sync.WaitGroup
	ending.Go(sampled)
	ending.Go(hostSampled)
	ending.Wait()
	stop()
	select {
	case <-printed: // it writes to the same output
	case <-time.After(printPause): // a file system that does not answer must not keep the node from being cleaned
	}
	forced := abandoned || ctx.Err() != nil
	if !forced {
		sweep.Settle = straySettle
	} else { // Slurm may kill this process before a stubborn role, on which it waits
		sweep.Changed = func(ended []node.Ended) {
			if err := j.writeLeft(host, outlived(ended), false); err != nil {
				j.logf("%v", err)
			}
		}
	}
	found := j.cleaned(&sweep, before, p)
	if forced || ctx.Err() != nil { // the srun that would carry it is gone
		return j.writeLeft(host, found, true)
	}
	return node.WriteLeft(j.Stdout, host, found)
}

// cleaned cleans the node and says what was left on it.
func (j *Job) cleaned(sweep *node.Sweep, before node.Snapshot, p *plan.Plan) []string {
	ended, stubborn := sweep.Run()
	found := outlived(ended)
	for _, e := range stubborn {
		found = append(found, fmt.Sprintf("process %d cannot be ended: %s", e.PID, e.Command))
	}
	if j.Env("PROFLLM_LOCAL_JOB") == "" && sweep.Held == "" { // else it may be that of other processes of the job
		if removed := before.Clean(sweep.Job, sweep.Host); removed != "" {
			found = append(found, "removed unused shared memory: "+removed)
		}
	}
	for _, text := range j.gpusInUse(p, sweep.Host) {
		found = append(found, "GPU memory is still in use: "+text)
	}
	return found
}

// tasksEnd is when the guard itself ends the steps that are still there: Stop has by then
// sent them TERM and KILL. A hook's guard ends none, because the steps may be those of
// the run around it.
func tasksEnd(term time.Duration, hook bool) time.Duration {
	if hook {
		return 0
	}
	return term + killWait
}

// printPause is between two looks at whether the servers are ready.
const printPause = time.Second

// printSteps waits until every server is ready, and prints what the steps on this node
// run with, once. That costs the node some milliseconds; what cannot be seen is left
// out, and nothing of it is an error.
func (j *Job) printSteps(ctx context.Context, p *plan.Plan, host string) {
	if len(p.Roles) == 0 {
		return
	}
	pause := printPause
	if p.Simulated {
		pause = poll / 2 // its loads may be over in a second, and its files are near
	}
	for sleep(ctx, pause) {
		events, err := ReadEvents(j.Dir)
		if err != nil || !slices.ContainsFunc(events, func(e Event) bool { return e.Event == AllReady }) {
			continue
		}
		var steps []node.Served
		for i := range p.Roles {
			s := node.Served{Step: p.Roles[i].Step.Name}
			if r := &p.Roles[i]; r.Engine {
				s.Model, s.Revision = p.Config.Model, p.Config.Option(r, "revision")
				s.Tokenizer, s.Cache = p.Config.Option(r, "tokenizer"), p.Config.Option(r, "download_dir")
			}
			steps = append(steps, s)
		}
		if err := node.WriteRan(j.Stdout, host,
			node.LookAtSteps(proc, j.Env("SLURM_JOB_ID"), host, steps)); err != nil {
			j.logf("%v", err)
		}
		return
	}
}

// scriptOver is closed when the script has written its sentinel and the guard is there
// after so long all the same: its signals were lost, because the controller was down
// when they were sent.
func (j *Job) scriptOver(ctx context.Context, patience time.Duration) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		for seen := time.Duration(0); sleep(ctx, patience/4); {
			var s run.Sentinel
			if run.ReadJSON(j.path(run.SentinelFile), &s) != nil || s.JobID != j.id() {
				continue
			}
			if seen += patience / 4; seen > patience {
				close(over)
				return
			}
		}
	}()
	return over
}

func outlived(ended []node.Ended) []string {
	found := []string{}
	for _, e := range ended {
		found = append(found, fmt.Sprintf("process %d outlived its step and was ended by %s: %s", e.PID, e.Signal,
			e.Command))
	}
	return found
}

// leftFile is left/HOST.json: what was found on a node when the job ended by force.
type leftFile struct {
	Schema string   `json:"schema"` // profllm.left/1
	Host   string   `json:"host"`
	Found  []string `json:"found"`
	Swept  bool     `json:"swept"` // false: there was no time to look for all
}

func (j *Job) writeLeft(host string, found []string, swept bool) error {
	if err := os.MkdirAll(j.path(run.LeftDir), 0o755); err != nil {
		return err
	}
	return run.WriteJSON(j.path(run.LeftDir, host+".json"),
		leftFile{Schema: "profllm.left/1", Host: host, Found: found, Swept: swept})
}

// readLeft reads what one node wrote, nil if that was nothing.
func readLeft(dir, host string) *leftFile {
	var f leftFile
	if run.ReadJSON(filepath.Join(dir, run.LeftDir, host+".json"), &f) != nil {
		return nil
	}
	return &f
}

// Leftovers is what was found on the nodes of a run after its end: what the job's script
// noted, and what nodes wrote when the script no longer could.
func Leftovers(dir string, events []Event) []node.Left {
	var list []node.Left
	wrote := map[string]bool{}
	files, _ := os.ReadDir(filepath.Join(dir, run.LeftDir))
	for _, file := range files {
		host, _ := strings.CutSuffix(file.Name(), ".json")
		if f := readLeft(dir, host); f != nil {
			wrote[host] = true
			for _, text := range f.Found {
				list = append(list, node.Left{Host: host, Text: text})
			}
		}
	}
	for _, e := range events {
		if e.Event == Leftover && !wrote[e.Node] {
			list = append(list, node.Left{Host: e.Node, Text: e.Text})
		}
	}
	return list
}

// gpusInUse lists the GPUs of this node whose memory is not freed in time.
func (j *Job) gpusInUse(p *plan.Plan, host string) []string {
	hosts, err := j.hosts(p)
	if err != nil {
		return nil
	}
	look := j.look(p, slices.Index(hosts, host))
	ctx, cancel := context.WithTimeout(context.Background(), gpuRelease)
	defer cancel()
	return stillHeld(ctx, look.Held)
}

// stillHeld is what was held when it was last seen, once nothing is or the time is over.
func stillHeld(ctx context.Context, look func(context.Context) ([]string, error)) []string {
	var last []string
	for {
		held, err := look(ctx)
		if err != nil { // a look that the time cut short says nothing
			return last
		}
		if last = held; len(last) == 0 || !sleep(ctx, poll) {
			return last
		}
	}
}

// LeaveTimeToTerm waits a moment if the guard's srun, which ends last, has ended before Stop: Slurm
// ends the steps of a cancelled job before it sends TERM to the script, which listens while Stop runs.
func (j *Job) LeaveTimeToTerm(ctx context.Context, guard int) {
	if !alive(guard) {
		sleep(ctx, cmp.Or(j.grace, termLate))
	}
}

// EndGuard waits until the nodes are clean, after Stop has ended the steps, and notes what
// was left on them. guard is the srun of Guard, which passes signals on even if Slurm's
// controller does not answer.
func (j *Job) EndGuard(ctx context.Context, guard int) {
	srun, wait := []Process{{guardStep, guard}}, cmp.Or(j.grace, guardWait)
	if !j.waitUntilGone(ctx, srun, wait) && syscall.Kill(guard, GuardEnds) == nil && !j.waitUntilGone(ctx, srun, wait) {
		j.signalSteps(ctx, "KILL", j.steps(ctx).guards)
		if !j.waitUntilGone(ctx, srun, cmp.Or(j.grace, killWait)) {
			syscall.Kill(guard, syscall.SIGKILL)
		}
	}
	for _, l := range j.leftovers(ctx, wait) {
		j.logf("left behind on %s: %s", l.Host, l.Text)
		if err := j.event(Event{Event: Leftover, Node: l.Host, Text: l.Text}); err != nil {
			j.logf("%v", err)
		}
	}
}

// leftovers collects what the nodes found. Those that were told to end by force take a
// while, and leave a file.
func (j *Job) leftovers(ctx context.Context, wait time.Duration) []node.Left {
	var lines node.Lines
	data, err := regular.ReadFile(j.path(run.NodesFile))
	if err != nil {
		j.logf("%v", err)
	}
	for line := range strings.Lines(string(data)) {
		lines.Add([]byte(line))
	}
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return lines.Left
	}
	hosts, _ := j.hosts(p)
	end := time.Now().Add(wait)
	for _, h := range hosts {
		if slices.Contains(lines.Swept, h) {
			continue
		}
		f := readLeft(j.Dir, h)
		for (f == nil || !f.Swept) && time.Now().Before(end) && sleep(ctx, poll/2) {
			f = readLeft(j.Dir, h)
		}
		if f == nil {
			f = &leftFile{Found: []string{"the node was not checked for leftovers"}}
		}
		for _, text := range f.Found {
			lines.Left = append(lines.Left, node.Left{Host: h, Text: text})
		}
	}
	return lines.Left
}
