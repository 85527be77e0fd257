package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// Main acts as one of Programs, or as the process that watches over a job. ok is
// false when name is none of them.
func Main(ctx context.Context, name string, args, environ []string, stdout, stderr io.Writer) (code int, ok bool) {
	if name == jobProgram && len(args) == 1 {
		return watch(ctx, args[0], environ, stderr), true
	}
	if name == keeperProgram && len(args) == 3 {
		return keeper(ctx, args[0], args[1], args[2]), true
	}
	state := lookup(environ, jobState)
	var err error
	switch {
	case !slices.Contains(Programs, name):
		return 0, false
	case state == "":
		err = errors.New("this stand-in works only inside a local job")
	case name == "srun":
		code, err = srun(ctx, state, args, environ, stdout, stderr)
	case name == "squeue":
		err = squeue(state, lookup(environ, "SLURM_JOB_ID"), stdout)
	case name == "scancel":
		err = scancel(state, args)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %v\n", name, err)
		return 1, true
	}
	return code, true
}

// step is steps/<id>.json: a running srun and the process groups of its tasks.
type step struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	PIDs  []int  `json:"pids"`
	Ended bool   `json:"ended"`
	path  string
}

func (s step) signal(sig syscall.Signal) {
	for _, pid := range s.PIDs {
		syscall.Kill(-pid, sig)
	}
}

// steps lists the running steps of a job.
func steps(state string) []step {
	files, _ := filepath.Glob(filepath.Join(state, "steps", "*.json"))
	var list []step
	for _, f := range files {
		var s step
		if run.ReadJSON(f, &s) == nil && !s.Ended {
			list = append(list, s)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list
}

func newStep(state, name string) (step, error) {
	for id := 0; ; id++ {
		path := filepath.Join(state, "steps", fmt.Sprintf("%d.json", id))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return step{}, err
		}
		f.Close()
		return step{ID: id, Name: name, path: path}, nil
	}
}

func squeue(state, job string, out io.Writer) error {
	for _, s := range steps(state) {
		fmt.Fprintf(out, "%s.%d|%s\n", job, s.ID, s.Name)
	}
	return nil
}

func scancel(state string, args []string) error {
	sig := syscall.SIGTERM
	for _, a := range args {
		switch {
		case a == "--signal=KILL":
			sig = syscall.SIGKILL
		case strings.HasPrefix(a, "-"):
		default:
			_, id, ok := strings.Cut(a, ".")
			if !ok {
				return fmt.Errorf("only steps can be cancelled here, not %q", a)
			}
			for _, s := range steps(state) {
				if strconv.Itoa(s.ID) == id {
					s.signal(sig)
				}
			}
		}
	}
	return nil
}

// srunOptions are the options of our scripts that matter here; the others are
// about Slurm's own resources.
type srunOptions struct {
	name, output             string
	relative, tasks, perNode int
	argv                     []string
}

func parseSrun(args []string) (srunOptions, error) {
	o := srunOptions{tasks: 1, perNode: 1}
	for i, a := range args {
		if !strings.HasPrefix(a, "--") {
			o.argv = args[i:]
			break
		}
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "--job-name":
			o.name = value
		case "--output":
			o.output = value
		case "--relative":
			o.relative, err = strconv.Atoi(value)
		case "--ntasks":
			o.tasks, err = strconv.Atoi(value)
		case "--ntasks-per-node":
			o.perNode, err = strconv.Atoi(value)
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", a, err)
		}
	}
	if len(o.argv) == 0 {
		return o, errors.New("no command")
	}
	return o, nil
}

// srun runs the tasks on the nodes of the slice, node by node, as srun does: the
// first that fails ends the others, and nothing of a step outlives it. A hangup ends
// them too: the kernel sends one to every srun when the watching process dies while
// the script is stopped.
func srun(ctx context.Context, state string, args, environ []string, stdout, stderr io.Writer) (int, error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	o, err := parseSrun(args)
	if err != nil {
		return 1, err
	}
	hosts := strings.Split(lookup(environ, "SLURM_JOB_NODELIST"), ",")
	nodes := o.tasks / max(o.perNode, 1)
	if o.relative < 0 || nodes < 1 || nodes*o.perNode != o.tasks || o.relative+nodes > len(hosts) {
		return 1, fmt.Errorf("relative %d with %d nodes is beyond the allocation of %d (%d tasks, %d on each node)",
			o.relative, nodes, len(hosts), o.tasks, o.perNode)
	}
	hosts = hosts[o.relative : o.relative+nodes]
	st, err := newStep(state, o.name)
	if err != nil {
		return 1, err
	}
	defer outlive(lookup(environ, "SLURM_JOB_ID"), state)()
	tasks := make([]*exec.Cmd, o.tasks)
	var started error
	for i := range tasks {
		cmd, closeOutput, err := o.task(i, hosts, st.ID, environ, stdout, stderr)
		if err == nil {
			defer closeOutput()
			err = cmd.Start()
		}
		if err != nil {
			started = fmt.Errorf("execve(): %s: %w", o.argv[0], err)
			break
		}
		tasks[i] = cmd
		st.PIDs = append(st.PIDs, cmd.Process.Pid)
	}
	if err := run.WriteJSON(st.path, st); err != nil {
		started = err
	}
	if started != nil {
		st.signal(syscall.SIGKILL)
	}
	code := st.wait(ctx, tasks)
	st.signal(syscall.SIGKILL)
	st.Ended = true
	return code, errors.Join(started, run.WriteJSON(st.path, st))
}

func (o srunOptions) task(rank int, hosts []string, id int, environ []string,
	stdout, stderr io.Writer) (*exec.Cmd, func() error, error) {
	node := rank / o.perNode
	host := hosts[node]
	view := View(func(name string) string { return lookup(environ, name) })
	argv := renumbered(o.argv, view, lookup(environ, gpusVar))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append([]string(nil), environ...),
		"SLURM_JOB_NAME="+o.name, fmt.Sprintf("SLURM_STEP_ID=%d", id), fmt.Sprintf("SLURM_PROCID=%d", rank),
		fmt.Sprintf("SLURM_NODEID=%d", node),
		fmt.Sprintf("SLURM_LOCALID=%d", rank%o.perNode), fmt.Sprintf("SLURM_NTASKS=%d", o.tasks),
		"SLURMD_NODENAME="+host, "SLURM_STEP_NODELIST="+strings.Join(hosts, ","), "PROFLLM_NODE_ADDR="+address(host),
		"CUDA_VISIBLE_DEVICES="+lookup(environ, gpusVar))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	done := func() error { return nil }
	if o.output != "" {
		f, err := run.Append(strings.ReplaceAll(o.output, "%t", strconv.Itoa(rank)))
		if err != nil {
			return nil, nil, err
		}
		cmd.Stdout, cmd.Stderr, done = f, f, f.Close
	}
	return cmd, done, nil
}

// wait waits for every task and returns the highest exit code. A cancelled
// context, or a task that fails, ends the others: TERM, then KILL.
func (s step) wait(ctx context.Context, tasks []*exec.Cmd) int {
	var once sync.Once
	var mu sync.Mutex
	end := func() {
		once.Do(func() {
			s.signal(syscall.SIGTERM)
			time.AfterFunc(killWait/2, func() { s.signal(syscall.SIGKILL) })
		})
	}
	defer context.AfterFunc(ctx, end)()
	code := 0
	var wg sync.WaitGroup
	for _, t := range tasks {
		if t == nil {
			continue
		}
		wg.Go(func() {
			t.Wait()
			c := t.ProcessState.ExitCode()
			if c < 0 {
				c = 128 + int(t.ProcessState.Sys().(syscall.WaitStatus).Signal())
			}
			mu.Lock()
			code = max(code, c)
			mu.Unlock()
			if c != 0 {
				end()
			}
		})
	}
	wg.Wait()
	return code
}
