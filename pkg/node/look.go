package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/quantity"
)

// gpuLimit is for the driver's answer: nvidia-smi takes seconds where no daemon
// keeps the driver awake.
const gpuLimit = 30 * time.Second

// setupLimit is for what no server depends on.
const setupLimit = 10 * time.Second

const (
	nearlyFull  = 16 * quantity.MiB // of a file system: nothing can be written
	wantFiles   = 4096              // open files: sockets of that many requests
	wantThreads = 4096              // of the user, on the node
	wantMemlock = quantity.GiB      // for the buffers that RDMA registers
)

// Look says what to check on this node.
type Look struct {
	Settings  *config.Preflight // nil: the defaults
	GPUs      []int             // planned on this node, by their index; none: GPUs are not looked at
	Simulated bool              // the engine needs no memory
	Several   bool              // the job has more nodes than this
	Clients   int               // requests at once, 0 if not known
	Job, Host string            // SLURM_JOB_ID, SLURMD_NODENAME
	Self      int               // this process
	Memory    string            // SLURM_MEM_PER_NODE, in MiB; "" or 0 for all of the node's
	Dir       string            // the run directory
	Tmp       string
	Mounts    []string // what containers are given of this node
	Shm       string   // "/dev/shm"
	Proc      string   // "/proc"
	Root      string   // "" for /

	ListGPUs func(context.Context) (gpu.Listing, error) // nil: the engine needs none
	SetUp    func(context.Context, []gpu.Device) error  // nil: how GPUs are set is not asked
	Now      func() time.Time
}

// Report looks at everything.
func (l *Look) Report(ctx context.Context) Report {
	r := Report{Host: l.Host, Began: l.Now().UTC()}
	add := func(name string, v Verdict, format string, args ...any) {
		r.Checks = append(r.Checks, Judged(l.Settings, name, v, fmt.Sprintf(format, args...))...)
	}
	settings := l.Settings
	if settings == nil {
		settings = &config.Preflight{}
	}
	l.gpus(ctx, &r, add)
	if l.Simulated {
		add("shm", NotPossible, "not needed by a simulated engine")
		add("memory", NotPossible, "not needed by a simulated engine")
		add("limits", NotPossible, "not needed by a simulated engine")
	} else {
		space("shm", l.Shm, gibibytes(settings.Shm, 8), add)
		l.memory(gibibytes(settings.Memory, 4), add)
		l.limits(ctx, add)
	}
	if old := segments(l.Shm, l.Proc, os.Getuid(), nil); len(old) > 0 {
		add("shm-leftovers", Warn, "unused segments: %s", describe(old))
	} else {
		add("shm-leftovers", OK, "none")
	}
	space("disk", l.Dir, gibibytes(settings.Disk, 1), add)
	space("tmp", l.Tmp, gibibytes(settings.Tmp, 1), add)
	l.mounts(add)
	r.Strays = l.strays()
	r.Is = machine(cmp.Or(l.Root, "/"))
	r.Ended = l.Now().UTC()
	return r
}

// mounts looks for what containers are given: most runtimes end with an error of their
// own, minutes after the servers were to start, and Docker's daemon makes a folder.
func (l *Look) mounts(add adder) {
	var missing []string
	for _, path := range l.Mounts {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, path)
		}
	}
	switch {
	case len(l.Mounts) == 0:
		add("mounts", NotPossible, "no container")
	case len(missing) > 0:
		add("mounts", Fail, "mount sources missing on this node: %s", strings.Join(missing, ", "))
	default:
		add("mounts", OK, "%d mount sources exist", len(l.Mounts))
	}
}

type adder func(name string, v Verdict, format string, args ...any)

// gpus looks at those that are planned: whether they are there, what they hold
// and who computes on them.
func (l *Look) gpus(ctx context.Context, r *Report, add adder) {
	all := func(v Verdict, format string, args ...any) {
		for _, name := range []string{"gpus", "gpu-memory", "gpu-processes"} {
			add(name, v, format, args...)
		}
	}
	switch {
	case l.ListGPUs == nil:
		all(NotPossible, "not needed by a simulated engine")
		return
	case len(l.GPUs) == 0:
		all(NotPossible, "no GPU is planned on this node")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gpuLimit)
	defer cancel()
	list, err := l.ListGPUs(ctx)
	devices := list.Devices
	switch {
	case errors.Is(err, gpu.ErrNoDriver):
		all(NotPossible, "no NVIDIA driver: cannot tell whether GPUs of another kind are free")
		return
	case err != nil:
		add("gpus", Fail, "%v", err)
		return
	}
	r.GPUs = devices
	if l.SetUp != nil {
		within, stop := context.WithTimeout(ctx, setupLimit)
		_ = l.SetUp(within, devices) // what is not known is left out
		stop()
	}
	note := ""
	if list.Note != "" {
		note = "; " + list.Note
	}
	missing := slices.DeleteFunc(slices.Clone(l.GPUs), func(i int) bool { return numbered(devices, i) != nil })
	if len(missing) > 0 {
		add("gpus", Fail, "%d visible, GPU %d is planned%s", len(devices), slices.Max(missing), note)
	} else {
		add("gpus", OK, "%d visible, %d planned%s", len(devices), len(l.GPUs), note)
	}
	var foreign []string
	for _, i := range l.GPUs {
		if d := numbered(devices, i); d != nil && len(d.Processes) > 0 {
			foreign = append(foreign, fmt.Sprintf("GPU %d: %s", i, l.holders(*d)))
		}
	}
	verdict := func(name string, v Verdict, bad []string, good string) {
		if len(bad) == 0 {
			v, bad = OK, []string{good}
		}
		add(name, v, "%s", strings.Join(bad, "; "))
	}
	verdict("gpu-memory", Fail, l.busy(devices, l.memoryLimit()),
		"at most "+quantity.Bytes(l.memoryLimit())+" in use on each")
	verdict("gpu-processes", Warn, foreign, "none")
}

// busy lists the planned GPUs of which more than limit is in use.
func (l *Look) busy(devices []gpu.Device, limit int64) []string {
	var list []string
	for _, i := range l.GPUs {
		d := numbered(devices, i)
		if d == nil || d.Used <= limit {
			continue
		}
		list = append(list, fmt.Sprintf("GPU %d holds %s of %s: %s", i, quantity.Bytes(d.Used), quantity.Bytes(d.Total),
			cmp.Or(l.holders(*d), "the driver names no process")))
	}
	return list
}

// numbered is the device with a number, nil if there is none.
func numbered(devices []gpu.Device, index int) *gpu.Device {
	i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.Index == index })
	if i < 0 {
		return nil
	}
	return &devices[i]
}

// Held lists the planned GPUs whose memory is still in use.
func (l *Look) Held(ctx context.Context) ([]string, error) {
	if l.ListGPUs == nil || len(l.GPUs) == 0 {
		return nil, nil
	}
	list, err := l.ListGPUs(ctx)
	if err != nil {
		return nil, err
	}
	return l.busy(list.Devices, l.memoryLimit()), nil
}

// memoryLimit is how much of a GPU may be in use.
func (l *Look) memoryLimit() int64 {
	if l.Settings == nil {
		return gibibytes(nil, 2)
	}
	return gibibytes(l.Settings.GPUMemory, 2)
}

// gibibytes is a number of GiB in bytes.
func gibibytes(set *float64, otherwise float64) int64 {
	if set != nil {
		otherwise = *set
	}
	return int64(otherwise * quantity.GiB)
}

// holders are the processes on a GPU as a person would look for them. One that we
// cannot see runs in another container, or is another user's.
func (l *Look) holders(d gpu.Device) string {
	t := readProcesses(l.Proc)
	var who []string
	for _, p := range d.Processes {
		text := fmt.Sprintf("process %d", p.PID)
		if p.Name != "" && !strings.HasPrefix(p.Name, "[") {
			text += " " + p.Name
		}
		if job := t[p.PID].job; job != "" {
			text += " of job " + job
		}
		who = append(who, text)
	}
	if len(who) > 2 {
		who = append(who[:2], fmt.Sprintf("%d more", len(who)-2))
	}
	return strings.Join(who, ", ")
}

// space judges the free space of a file system.
func space(name, path string, want int64, add adder) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		add(name, Fail, "%s: %v", path, err)
		return
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	text := fmt.Sprintf("%s free in %s", quantity.Bytes(free), path)
	switch {
	case free < nearlyFull:
		add(name, Fail, "%s", text)
	case free < want:
		add(name, Warn, "%s, less than %s", text, quantity.Bytes(want))
	default:
		add(name, OK, "%s", text)
	}
}

// memory judges what the job may have of the host's memory.
func (l *Look) memory(want int64, add adder) {
	data, err := os.ReadFile(l.Proc + "/meminfo")
	free := int64(-1)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				free = n * 1024
			}
		}
	}
	if err != nil || free < 0 {
		add("memory", NotPossible, "%s/meminfo does not report it", l.Proc)
		return
	}
	text := quantity.Bytes(free) + " available"
	if n, err := strconv.ParseInt(l.Memory, 10, 64); err == nil && n > 0 {
		text += ", " + quantity.Bytes(n*quantity.MiB) + " allocated to the job"
		if free < n*quantity.MiB {
			add("memory", Warn, "%s", text)
			return
		}
		free = min(free, n*quantity.MiB)
	}
	if free < want {
		add("memory", Warn, "%s, less than %s", text, quantity.Bytes(want))
		return
	}
	add("memory", OK, "%s", text)
}

// limits judges those that a role will have. They are read by a child: this
// program's own limit of open files is raised when it starts.
func (l *Look) limits(ctx context.Context, add adder) {
	out, err := capture.Run(exec.CommandContext(ctx, "cat", "/proc/self/limits"))
	if err != nil {
		add("limits", NotPossible, "%v", err)
		return
	}
	files := int64(max(wantFiles, 4*l.Clients))
	var bad, seen []string
	for _, x := range []struct {
		row, name string
		want      int64
	}{{"Max open files", "nofile", files}, {"Max processes", "nproc", wantThreads},
		{"Max locked memory", "memlock", wantMemlock}} {
		text := SoftLimit(string(out), x.row)
		seen = append(seen, x.name+" "+text)
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && n < x.want && (x.name != "memlock" || l.Several) {
			bad = append(bad, fmt.Sprintf("%s is %d, less than %d", x.name, n, x.want))
		}
	}
	if len(bad) > 0 {
		add("limits", Warn, "%s", strings.Join(bad, "; "))
		return
	}
	add("limits", OK, "%s", strings.Join(seen, ", "))
}

// SoftLimit is the soft limit in one row of /proc/PID/limits, such as "Max open files";
// "" if the text has no such row.
func SoftLimit(text, row string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, row); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

// strays lists processes of other jobs that belong to no step any more. Whether
// those jobs are over is for Slurm to say.
func (l *Look) strays() []Process {
	t := readProcesses(l.Proc)
	keeper := t.keeper(t[l.Self]).name
	var list []Process
	for _, p := range t {
		if p.job != "" && p.job != l.Job && !p.rehearsed && p.here(l.Host) && t.keeper(p).name != keeper {
			list = append(list, p.public())
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list[:min(len(list), mostStrays)]
}

// mostStrays of a node are named; with more, something else is wrong.
const mostStrays = 8
