// Package local runs the very script that Slurm would run, on this machine: each
// node is an address of the loopback network (127.0.1.1, 127.0.1.2, …), and
// srun, squeue and scancel are stand-ins found first on PATH. In a shell that holds an allocation of
// Slurm, the nodes and these programs are Slurm's own (Hold).
//
// It is what a rehearsal uses, and a run on one machine. Jobs lease the ports that they listen on
// and, if they are to use the machine's GPUs, those. There is no other queue, and no limits.
package local

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/tail"
)

// Programs are the names under which profllm acts as a stand-in, see Main.
var Programs = []string{"srun", "squeue", "scancel"}

// ProgramPrefix begins the names under which profllm looks after one local job.
const ProgramPrefix = "profllm-local-"

// jobProgram is the name under which profllm watches over one local job.
const jobProgram = ProgramPrefix + "job"

// Local implements run.Scheduler.
type Local struct {
	shared  string // the folder with the user's own one, which has the state of all local jobs
	binary  string // profllm
	environ []string
	now     func() time.Time
	held    []string // what Slurm says of the allocation, in the environment

	// GPUs are given to jobs; nil: jobs are told of as many as they ask for, as in a rehearsal.
	GPUs *GPUs

	// Allocation is the id of one of Slurm that the shell of this command holds: the script's steps
	// are real ones there. "" for stand-ins on this machine.
	Allocation string

	// Attached jobs end when the process that submitted them does.
	Attached bool
}

// New keeps the state of local jobs in a folder of this user, below one that users share.
func New(shared, binary string, environ []string, now func() time.Time) *Local {
	l := &Local{shared: shared, binary: binary, now: now}
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "SLURM") {
			l.environ = append(l.environ, kv)
		}
	}
	return l
}

// base begins the name of the folder with the state of a user's local jobs.
func base() string { return fmt.Sprintf("profllm-local-%d", os.Getuid()) }

// record is <base>/<id>/started.json, and ended.json.
type record struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	State string    `json:"state"` // of run.State
	Code  int       `json:"code"`
	PID   int       `json:"pid"`
	Age   string    `json:"process_start"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Submit implements run.Scheduler: it starts the script under a process of its
// own that outlives this one and says its id, see newID.
func (l *Local) Submit(ctx context.Context, r run.Request) (run.Submission, error) {
	u, err := run.ReadUnit(r.Dir)
	if err != nil {
		return run.Submission{}, &run.RefusedError{Reason: err.Error()}
	}
	devices, leased, err := l.resources(ctx, u.Job())
	if err != nil {
		return run.Submission{}, &run.RefusedError{Reason: err.Error()}
	}
	if len(leased) > 0 { // what a job took over is not ours any more; the rest ends with this process at the latest
		defer ourselves().release(context.WithoutCancel(ctx))
	}
	temp, bin, err := l.makeState()
	if err != nil {
		return run.Submission{}, &run.RefusedError{Reason: err.Error()}
	}
	local := localJob{Dir: r.Dir, Script: r.Script, Name: r.Name, Hosts: l.hosts(u.Job().Nodes), State: temp,
		Leased: leased, From: ourselves(), Attached: l.Attached, Allocation: l.Allocation}
	if u.Kind() == plan.Array {
		local.Tasks = len(u.Runs())
	}
	job, err := json.Marshal(local)
	if err != nil {
		return run.Submission{}, err
	}
	cmd := exec.Command(filepath.Join(bin, jobProgram), string(job))
	cmd.Env = append(r.Export.From(l.environ), devices...)
	if l.Allocation == "" {
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+lookup(l.environ, "PATH"))
	}
	cmd.Dir = r.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := os.Create(filepath.Join(temp, "stderr")) // a pipe would end it with this process
	if err != nil {
		return run.Submission{}, &run.RefusedError{Reason: err.Error()}
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return run.Submission{}, &run.RefusedError{Reason: err.Error()}
	}
	id, err := awaitStart(cmd, temp, said.Name())
	if err != nil {
		return run.Submission{}, err
	}
	return run.Submission{JobID: id, Allocation: l.Allocation}, nil
}

// makeState makes the folder of a job's state, with the programs that the job finds first on PATH.
func (l *Local) makeState() (dir, bin string, err error) {
	jobs, err := regular.OwnDir(l.shared, base())
	if err != nil {
		return "", "", err
	}
	if dir, err = os.MkdirTemp(jobs, "new-"); err != nil {
		return "", "", err
	}
	bin = filepath.Join(dir, "bin")
	for _, d := range []string{bin, filepath.Join(dir, "steps")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", "", err
		}
	}
	programs := []string{jobProgram, keeperProgram}
	if l.Allocation == "" {
		programs = append(programs, Programs...)
	}
	for _, name := range programs {
		if err := os.Symlink(l.binary, filepath.Join(bin, name)); err != nil {
			return "", "", err
		}
	}
	return dir, bin, nil
}

// awaitStart waits until the process that watches over a job says the job's id, in the job's state.
// What the process prints is in the file said.
func awaitStart(cmd *exec.Cmd, state, said string) (id string, err error) {
	over := make(chan struct{})
	go func() {
		cmd.Wait() // reap it, should it end while we live
		close(over)
	}()
	started := filepath.Join(state, startedFile)
	for {
		var rec record
		if run.ReadJSON(started, &rec) == nil {
			return rec.ID, nil
		}
		select {
		case <-over:
			if run.ReadJSON(started, &rec) == nil {
				return rec.ID, nil
			}
			return "", &run.RefusedError{Reason: "the process that supervises the job ended at once: " +
				cmp.Or(lastWords(said), cmd.ProcessState.String())}
		case <-time.After(time.Millisecond):
		}
	}
}

// lastWords is the last line of what a process said, "" for none.
func lastWords(file string) string {
	lines, _ := tail.Last(file, 1)
	return strings.Join(lines, "")
}

// devices are the variables that tell a job which GPUs it has. Those of this machine are
// leased by this process, and the one that watches over the job takes the leases over.
func (l *Local) devices(ctx context.Context, job *plan.Job) (environ, leased []string, err error) {
	if l.GPUs == nil || job.GPUsPerNode == 0 {
		return []string{gpusVar + "=" + plan.FormatGPUs(plan.CountGPUs(job.GPUsPerNode))}, nil, nil
	}
	got, err := l.GPUs.take(ctx, request{job.GPUsPerNode, job.GPUIDs})
	for _, d := range got {
		leased = append(leased, gpuName(d.UUID))
	}
	return variables(got, len(job.GPUIDs) > 0), leased, err
}

const (
	startedFile = "started.json"
	stderrFile  = "stderr.txt"
)

// newID names the job that a process of this machine watches over, so that no
// scheduler has the like, and so that the process can be told from a later one
// with its PID, after a reboot too: the host, the PID, and a digest of the boot
// and of the start in it.
func newID(pid int, start string) string {
	digest := fnv.New32a()
	digest.Write([]byte(start))
	return fmt.Sprintf("%s%s-%d-%08x", run.LocalPrefix, host(), pid, digest.Sum32())
}

// host is the machine's name, of which only what an id may hold is kept.
func host() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, name)
}

// watcher is the PID in an id of this machine, and whether it still is the one
// that watches over the job.
func watcher(id string) (pid int, ours, runs bool) {
	rest, ours := strings.CutPrefix(id, run.LocalPrefix+host()+"-")
	number, digest, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(number)
	if !ours || err != nil || strings.Contains(digest, "-") { // of a host whose name begins like ours
		return 0, false, false
	}
	start := process.Start(pid)
	return pid, true, start != "" && newID(pid, start) == id
}

// register makes a job known, by the process that watches over it.
func (j localJob) register() (record, error) {
	pid := os.Getpid()
	rec := record{Name: j.Name, State: run.Running, PID: pid, Age: process.Start(pid), Start: time.Now().UTC()}
	rec.ID = newID(pid, rec.Age)
	if err := os.Symlink(j.State, filepath.Join(filepath.Dir(j.State), rec.ID)); err != nil {
		return rec, err
	}
	if err := (holder{rec.ID, j.State}).takeOver(j.From, j.Leased); err != nil {
		return rec, err
	}
	return rec, run.WriteJSON(filepath.Join(j.State, startedFile), rec)
}

// States implements run.Scheduler. The tasks of an array run one after the other.
func (l *Local) States(_ context.Context, ids []string) (map[string]run.State, error) {
	at, list := l.now().UTC(), make([]run.State, len(ids))
	if len(ids) == 0 {
		return map[string]run.State{}, nil
	}
	jobs, err := regular.FindOwnDir(l.shared, base())
	if err != nil {
		return nil, err
	}
	run.AtOnce(len(ids), run.SmallFiles, func(i int) { list[i] = stateOf(jobs, ids[i], at) })
	out := map[string]run.State{}
	for _, st := range list {
		out[st.JobID] = st
	}
	return out, nil
}

// stateOf is the state of a job. jobs is the folder with the state of all.
func stateOf(jobs, id string, at time.Time) run.State {
	st := run.State{Schema: "profllm.state/1", JobID: id, State: run.Unknown, Source: "local", At: at}
	// Whether it runs comes first: a job writes its end and only then ends.
	job := run.BaseID(id)
	_, ours, runs := watcher(job)
	_, err := os.Stat(filepath.Join(jobs, job))
	var ended record
	switch {
	case run.ReadJSON(filepath.Join(jobs, job, endedFile(id)), &ended) == nil:
		st.State, st.ExitCode, st.Elapsed = ended.State, fmt.Sprintf("%d:0", ended.Code), max(0,
			ended.End.Sub(ended.Start).Seconds())
		st.Start, st.End = ended.Start.Format(time.RFC3339), ended.End.Format(time.RFC3339)
	case !ours:
		st.Reason = "not a job of this machine"
	case job != id && !begun(filepath.Join(jobs, job), id) && runs && !hasEnded(filepath.Join(jobs, job)):
		st.State = run.Queued
	case job != id && !begun(filepath.Join(jobs, job), id) && err == nil:
		st.State, st.Note = run.Cancelled, run.NeverRan
	case runs:
		st.State = run.Running
	default:
		st.State, st.Note = run.Failed, run.Killed
	}
	return st
}

// hasEnded reports whether a job has written its end: its process ends a little later.
func hasEnded(state string) bool {
	var end record
	return run.ReadJSON(filepath.Join(state, endedFile("")), &end) == nil
}

// endedFile is where the end of a job is written, or that of a task of an array.
func endedFile(id string) string {
	if _, task, ok := strings.Cut(id, "_"); ok {
		return "ended-" + task + ".json"
	}
	return "ended.json"
}

// begun reports whether a task was started.
func begun(state, id string) bool {
	_, task, _ := strings.Cut(id, "_")
	_, err := os.Stat(filepath.Join(state, "begun-"+task))
	return err == nil
}

// FindJob implements run.Finder.
func (l *Local) FindJob(_ context.Context, name string, _ time.Time, besides ...string) (string, bool, error) {
	jobs, err := regular.FindOwnDir(l.shared, base())
	if err != nil {
		return "", false, err
	}
	files, err := filepath.Glob(filepath.Join(jobs, run.LocalPrefix+"*", startedFile))
	if err != nil {
		return "", false, err
	}
	for _, file := range files {
		var rec record
		if run.ReadJSON(file, &rec) == nil && rec.Name == name && !slices.Contains(besides, rec.ID) {
			return rec.ID, true, nil
		}
	}
	return "", false, nil
}

// Cancel implements run.Scheduler: TERM, as Slurm sends it to everything. A job
// that is over stays as it is; its PID may be another process by now.
func (l *Local) Cancel(_ context.Context, id string) error {
	pid, ours, runs := watcher(run.BaseID(id))
	switch {
	case !ours:
		return fmt.Errorf("cancel %q: not a job of this machine", id)
	case !runs:
		return nil
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}

// localJob is what the watching process is told.
type localJob struct {
	Dir, Script, Name, State string
	Hosts                    []string
	Tasks                    int      // of an array
	Leased                   []string // what the job takes over
	From                     holder   // and from whom
	Attached                 bool     // the job ends when that process does
	Allocation               string   // of Slurm, whose steps are the job's; "" for stand-ins

	id string // once it is registered
}

// hosts are the names of a job's nodes: of one that uses this machine's GPUs, the machine's own,
// which Slurm may know by another.
func (l *Local) hosts(n int) []string {
	if l.GPUs != nil && n == 1 {
		node, _ := l.GPUs.Environ("SLURMD_NODENAME")
		if name := cmp.Or(node, host()); name != "" {
			return []string{name}
		}
	}
	list := make([]string, n)
	for i := range list {
		list[i] = nodeName(i)
	}
	return list
}

// nodeName is the name, and the address, of simulated node i.
func nodeName(i int) string { return fmt.Sprintf("127.0.1.%d", i+1) }

// address is that of a node.
func address(host string) string {
	if net.ParseIP(host) != nil {
		return host
	}
	return "127.0.0.1"
}

// watch runs the script to its end and records it. TERM is passed to the script
// and to every step; what is left after the kill wait gets KILL.
func watch(ctx context.Context, arg string, environ []string, stderr io.Writer) int {
	var j localJob
	if err := json.Unmarshal([]byte(arg), &j); err != nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
		return 1
	}
	rec, err := j.register()
	if err != nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
		return 1
	}
	j.id = rec.ID
	stop, err := j.keep(environ)
	if err != nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
		return 1
	}
	defer stop()
	if j.Attached {
		var detach func()
		ctx, detach = j.attached(ctx)
		defer detach()
	}
	code := 0
	if j.Tasks == 0 {
		code = runScript(ctx, j, environ)
	}
	for i := 0; i < j.Tasks && ctx.Err() == nil; i++ {
		code = max(code, j.task(ctx, i, environ, stderr))
	}
	j.ended(ctx, rec, code, "ended.json", stderr)
	return code
}

// task runs one task of an array.
func (j localJob) task(ctx context.Context, i int, environ []string, stderr io.Writer) int {
	rec := record{ID: fmt.Sprintf("%s_%d", j.id, i), Name: j.Name, PID: os.Getpid(), Start: time.Now().UTC()}
	if err := os.WriteFile(filepath.Join(j.State, fmt.Sprintf("begun-%d", i)), nil, 0o644); err != nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
		return 1
	}
	code := runScript(ctx, j, append(environ[:len(environ):len(environ)],
		"SLURM_ARRAY_JOB_ID="+j.id, fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", i)))
	j.ended(ctx, rec, code, fmt.Sprintf("ended-%d.json", i), stderr)
	return code
}

// ended kills what is left of the job and writes how it ended.
func (j localJob) ended(ctx context.Context, rec record, code int, file string, stderr io.Writer) {
	end(j.mark(), 0, killWait, everyone)
	if file == endedFile(j.id) { // who learns of the end finds the leases free
		h := holder{j.id, j.State}
		if err := h.release(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(stderr, "profllm local job:", err)
		}
	}
	rec.End, rec.Code, rec.State = time.Now().UTC(), code, run.Succeeded
	switch {
	case ctx.Err() != nil:
		rec.State = run.Cancelled
	case code != 0:
		rec.State = run.Failed
	}
	if err := run.WriteJSON(filepath.Join(j.State, file), rec); err != nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
	}
}

// killWait is Slurm's KillWait in small: between TERM and KILL of a cancelled job.
const killWait = 10 * time.Second

// heldWait is the same in an allocation that somebody holds: the script stops real steps by itself, in
// the time that Slurm gives a job at its limit (plan.grace).
const heldWait = 90 * time.Second

// killWait is longer for a job whose profilers write what they have.
func (j *localJob) killWait() time.Duration {
	wait := killWait
	if j.Allocation != "" {
		wait = heldWait
	}
	if j.profiles() {
		wait += 2 * plan.ReportWait
	}
	return wait
}

// profiles reports whether profilers run in a run of the job.
func (j *localJob) profiles() bool {
	u, err := run.ReadUnit(j.Dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(u.Runs(), func(dir string) bool {
		p, err := run.ReadPlan(dir)
		return err == nil && p.Profiles()
	})
}

func runScript(ctx context.Context, j localJob, environ []string) int {
	stdout, err := run.Append(filepath.Join(j.Dir, "stdout.txt"))
	if err != nil {
		return 1
	}
	defer stdout.Close()
	stderr, err := run.Append(filepath.Join(j.Dir, stderrFile))
	if err != nil {
		return 1
	}
	defer stderr.Close()
	cmd := exec.CommandContext(ctx, "bash", j.Script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.Dir, stdout, stderr
	cmd.Env = append(environ, j.variables()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		for _, s := range steps(j.State) {
			s.signal(syscall.SIGTERM)
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = j.killWait()
	err = cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(stderr, "profllm local job:", err)
		return 1
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // helpers that the script left in its group
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1
}

// variables are what tells the script which job it is.
func (j localJob) variables() []string {
	if j.Allocation != "" {
		return []string{j.mark()}
	}
	return []string{"SLURM_JOB_ID=" + j.id, "SLURM_JOB_NAME=" + j.Name,
		"SLURM_JOB_NODELIST=" + strings.Join(j.Hosts, ","), fmt.Sprintf("SLURM_JOB_NUM_NODES=%d", len(j.Hosts)), j.mark()}
}

// mark is the variable, with its value, by which the processes of the job are known.
func (j localJob) mark() string {
	if j.Allocation != "" {
		return run.HeldVar + "=" + j.id
	}
	return jobState + "=" + j.State
}

// without is an environment without one of its variables.
func without(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// Wait returns the state of a job once it has ended. When ctx ends first, the
// job is cancelled and waited for.
func (l *Local) Wait(ctx context.Context, id string) (run.State, error) {
	cancelled := false
	for {
		states, err := l.States(ctx, []string{id})
		if err != nil || states[id].Final() {
			return states[id], err
		}
		if ctx.Err() != nil && !cancelled {
			cancelled = true
			if err := l.Cancel(ctx, id); err != nil {
				return states[id], err
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
