package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// nodesLimit is for every node to answer: the driver of one alone may take half a
// minute.
const nodesLimit = 5 * time.Minute

// shm and proc are where every Linux has them. Variables for tests.
var (
	shm  = "/dev/shm"
	proc = "/proc"
)

// Preflight is preflight.json: what every node looked like before servers started.
type Preflight struct {
	Schema  string        `json:"schema"` // profllm.preflight/1
	JobID   string        `json:"job_id"`
	Verdict node.Verdict  `json:"verdict"` // the worst of all
	Nodes   []node.Report `json:"nodes"`   // in allocation order
}

// look is what to look at on node index of the allocation.
func (j *Job) look(p *plan.Plan, index int) *node.Look {
	l := &node.Look{
		Settings: p.Preflight, GPUs: plannedGPUs(p, index), Simulated: p.Simulated, Several: p.Job.Nodes > 1,
		Job: j.Env("SLURM_JOB_ID"), Host: j.Env("SLURMD_NODENAME"), Self: os.Getpid(),
		Memory: j.Env("SLURM_MEM_PER_NODE"),
		Dir:    j.Dir, Tmp: cmp.Or(j.Env("TMPDIR"), "/tmp"), Mounts: p.MountSources(), Shm: shm, Proc: proc,
		ListGPUs: j.gpus, Now: j.Now,
	}
	switch {
	case p.Simulated && j.Env(SimGPUs) == "":
		l.ListGPUs = nil
	case p.Simulated:
		l.ListGPUs = j.simulatedGPUs
	case l.ListGPUs == nil:
		l.ListGPUs, l.SetUp = j.GPUs.List, gpu.AddSetup
	}
	for _, load := range p.Loads {
		l.Clients = max(l.Clients, load.Expect.Concurrency)
	}
	return l
}

// simulatedGPUs are those of a simulated nvidia-smi, and say so.
func (j *Job) simulatedGPUs(ctx context.Context) (gpu.Listing, error) {
	list, err := gpu.Reader{View: j.GPUs.View}.List(ctx)
	for i := range list.Devices {
		list.Devices[i].Reader = "simulated " + gpu.SMI
	}
	return list, err
}

// plannedGPUs lists those of a node that roles are given; of a test without roles,
// all that the job asked for.
func plannedGPUs(p *plan.Plan, index int) []int {
	used := map[int]bool{}
	for _, r := range p.Roles {
		if index >= r.Nodes.Offset && index < r.Nodes.End() {
			for _, id := range r.GPUs {
				used[id] = true
			}
		}
	}
	if len(p.Roles) == 0 {
		for id := range p.Job.GPUsPerNode {
			used[id] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// preflight adds to what the nodes saw what only shows from here, keeps all of it,
// and refuses nodes on which servers should not start.
func (j *Job) preflight(ctx context.Context, p *plan.Plan, hosts []string, a answers, began time.Time, slot int,
	tried []int) error {
	f := Preflight{Schema: "profllm.preflight/1", JobID: j.id()}
	for _, h := range hosts {
		r := a.lines.Reports[h]
		if r == nil {
			r = &node.Report{Host: h}
		}
		r.Checks = append(r.Checks, ports(a, h, slot, tried))
		r.Checks = append(r.Checks, clock(p.Preflight, *r, began, a.at[h])...)
		f.Nodes = append(f.Nodes, *r)
	}
	compareGPUs(p.Preflight, f.Nodes)
	j.strays(ctx, p.Preflight, f.Nodes)
	var all []node.Check
	var events []Event
	var failed []string
	for _, n := range f.Nodes {
		all = append(all, n.Checks...)
		for _, c := range n.Checks {
			e := Event{Event: PreflightWarned, Node: n.Host, Check: c.Name, Text: c.Seen}
			switch c.Verdict {
			case node.Fail:
				e.Event = PreflightFailed
				failed = append(failed, fmt.Sprintf("%s: %s: %s", n.Host, c.Name, c.Seen))
			case node.Warn:
				j.logf("preflight: %s: %s: %s", n.Host, c.Name, c.Seen)
			default:
				continue
			}
			events = append(events, e)
		}
	}
	f.Verdict = node.Worst(all)
	err := run.WriteJSON(j.path(run.PreflightFile), f)
	for _, e := range append(events, Event{Event: Looked, Text: string(f.Verdict)}) {
		err = errors.Join(err, j.event(e))
	}
	if len(failed) > 0 {
		err = errors.Join(fmt.Errorf("the nodes are not fit for this run:\n\t%s", strings.Join(failed, "\n\t")), err)
	}
	return err
}

// ports judges the slots of ports of one node; slot is the one that is free on all.
func ports(a answers, host string, slot int, tried []int) node.Check {
	if slot >= 0 {
		seen := fmt.Sprintf("slot %d is free", slot)
		if port, ok := a.risky[slot][host]; ok {
			seen += fmt.Sprintf("; port %d is in the node's range for outgoing connections, and every free slot has such a port", port)
		}
		return node.Check{Name: "ports", Verdict: node.OK, Seen: seen}
	}
	var taken []string
	for _, s := range tried {
		if port, ok := a.taken[s][host]; ok {
			taken = append(taken, strconv.Itoa(port))
		}
	}
	if len(taken) == 0 {
		return node.Check{Name: "ports", Verdict: node.OK, Seen: "every slot is free here"}
	}
	return node.Check{Name: "ports", Verdict: node.Fail, Seen: fmt.Sprintf(
		"none of the %d port slots from %d on is free on every node; in use here: %s", len(tried), tried[0],
		strings.Join(taken, " "))}
}

// clock compares a node's clock with this one's. The node looked at its own
// between the start of its step and the arrival of its answer, so what the network
// took is no difference.
func clock(s *config.Preflight, r node.Report, began, at time.Time) []node.Check {
	if r.Ended.IsZero() {
		return node.Judged(s, "clock", node.NotPossible, "the node did not report its time")
	}
	limit := time.Second
	if s != nil && s.Clock != nil {
		limit = time.Duration(*s.Clock * float64(time.Second))
	}
	ahead, behind := r.Ended.Sub(at), time.Duration(0)
	if !began.IsZero() {
		behind = began.Sub(r.Began)
	}
	switch {
	case ahead > limit:
		return node.Judged(s, "clock", node.Warn,
			fmt.Sprintf("at least %.1f s ahead of %s", ahead.Seconds(), "the job's first node"))
	case behind > limit:
		return node.Judged(s, "clock", node.Warn,
			fmt.Sprintf("at least %.1f s behind the job's first node", behind.Seconds()))
	}
	return node.Judged(s, "clock", node.OK, fmt.Sprintf("no difference above %s detected", limit))
}

// compareGPUs compares the GPUs and drivers of the nodes with those of the first.
func compareGPUs(s *config.Preflight, nodes []node.Report) {
	kind := func(r node.Report) string {
		var names []string
		for _, d := range r.GPUs {
			names = append(names, fmt.Sprintf("%s, %d MiB, driver %s", d.Name, d.Total>>20, d.Driver))
		}
		slices.Sort(names)
		return strings.Join(slices.Compact(names), " and ")
	}
	first := slices.IndexFunc(nodes, func(r node.Report) bool { return len(r.GPUs) > 0 })
	for i := range nodes {
		r := &nodes[i]
		if len(r.GPUs) == 0 {
			continue
		}
		own, other := kind(*r), kind(nodes[first])
		switch {
		case strings.Contains(own, " and "):
			r.Checks = append(r.Checks, node.Judged(s, "gpus-alike", node.Warn, "on one node: "+own)...)
		case own != other:
			r.Checks = append(r.Checks,
				node.Judged(s, "gpus-alike", node.Warn, own+"; "+nodes[first].Host+" has "+other)...)
		default:
			r.Checks = append(r.Checks, node.Judged(s, "gpus-alike", node.OK, own)...)
		}
	}
}

// strays judges the processes of other jobs that belong to no step: those of a job
// that is over are leftovers. Slurm is asked once, and only if there are any.
func (j *Job) strays(ctx context.Context, s *config.Preflight, nodes []node.Report) {
	var ids []string
	for _, r := range nodes {
		for _, p := range r.Strays {
			if strings.Trim(p.Job, "0123456789") == "" {
				ids = append(ids, p.Job)
			}
		}
	}
	var running map[string]bool
	var err error
	if len(ids) > 0 {
		slices.Sort(ids)
		running, err = j.running(ctx, slices.Compact(ids))
	}
	for i := range nodes {
		r := &nodes[i]
		var left []string
		r.Strays = slices.DeleteFunc(r.Strays, func(p node.Process) bool { return err == nil && running[p.Job] })
		for _, p := range r.Strays {
			left = append(left, fmt.Sprintf("process %d of job %s (%.60s)", p.PID, p.Job, p.Command))
		}
		switch {
		case len(left) == 0:
			r.Checks = append(r.Checks, node.Judged(s, "processes", node.OK, "none left by finished jobs")...)
		case err != nil:
			r.Checks = append(r.Checks,
				node.Judged(s, "processes", node.NotPossible,
					fmt.Sprintf("cannot tell which jobs are finished: %v", err))...)
		default:
			r.Checks = append(r.Checks,
				node.Judged(s, "processes", node.Warn, "left by finished jobs: "+strings.Join(left, ", "))...)
		}
	}
}

// running asks which of some jobs Slurm still knows as not over.
func (j *Job) running(ctx context.Context, ids []string) (map[string]bool, error) {
	if j.Env("PROFLLM_LOCAL_JOB") != "" {
		return nil, errors.New("a rehearsal has no queue")
	}
	out, err := command(ctx, "squeue", "-h", "-a", "-j", strings.Join(ids, ","), "-o", "%A")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) &&
		strings.Contains(string(exit.Stderr), "Invalid job id") {
		err = nil
	}
	known := map[string]bool{}
	for _, id := range strings.Fields(out) {
		known[id] = true
	}
	return known, err
}

// Follow reads what the nodes' step writes until the step has ended.
func (j *Job) Follow(ctx context.Context, pid int) io.ReadCloser {
	return &follower{ctx: ctx, path: j.path(run.NodesFile), pid: pid, end: time.Now().Add(nodesLimit)}
}

type follower struct {
	ctx  context.Context
	path string
	pid  int
	end  time.Time
	file *os.File
}

// Read waits for more as long as the process lives.
func (f *follower) Read(b []byte) (int, error) {
	for {
		over := !alive(f.pid) || time.Now().After(f.end) // before the last look
		if f.file == nil {
			file, err := regular.OpenLarge(f.path)
			if err == nil {
				f.file = file
			} else if !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
		}
		if f.file != nil {
			if n, err := f.file.Read(b); n > 0 || err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
		}
		if over {
			return 0, io.EOF
		}
		if !sleep(f.ctx, poll/10) {
			return 0, f.ctx.Err()
		}
	}
}

// Close closes the file, if it was there.
func (f *follower) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Began is when a process was started, to some hundredths of a second; zero if it
// is gone.
func Began(pid int, now time.Time) time.Time {
	const ticks = 100 // of /proc/PID/stat in a second, on every Linux that Go runs on
	var up float64
	uptime, err := os.ReadFile(proc + "/uptime")
	if err != nil {
		return time.Time{}
	}
	if _, err := fmt.Sscan(string(uptime), &up); err != nil {
		return time.Time{}
	}
	_, text, _ := strings.Cut(process.Start(pid), "/")
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return now.Add(-time.Duration((up - float64(since)/ticks) * float64(time.Second)))
}
