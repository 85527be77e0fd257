package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// Ray is one rank of a role that spans several nodes on a Ray cluster.
type Ray struct {
	Nodes      int
	Head       string // address of the first node
	Port       int    // of the head's GCS
	Timeout    time.Duration
	HeadArgs   []string // options of `ray start` on the head
	WorkerArgs []string // and on the workers
	Command    []string // the server, on the head, once all nodes joined
}

// rayAuth says whether Ray demands a token; since 2.59 it does if it finds one.
const rayAuth = "RAY_AUTH_MODE"

// RunRay forms the cluster. Rank 0 becomes the head and starts the server once Nodes nodes
// are alive; the other ranks join and stay until Ray ends. Each rank ends what Ray leaves
// behind: Ray's daemons detach themselves, and only some of Slurm's process trackers find
// them again.
func (j *Job) RunRay(ctx context.Context, r Ray, environ []string) (int, error) {
	rank, err := strconv.Atoi(j.Env("SLURM_PROCID"))
	if err != nil {
		return 1, fmt.Errorf("SLURM_PROCID: %w", err)
	}
	hosts, err := hostlist.Expand(j.Env("SLURM_STEP_NODELIST"))
	if err != nil {
		return 1, err
	}
	address := net.JoinHostPort(r.Head, strconv.Itoa(r.Port))
	own := r.Head
	if rank > 0 {
		if own = j.Env("PROFLLM_NODE_ADDR"); own == "" {
			own = ownAddress(j.Env("SLURMD_NODENAME"), hosts)
		}
	}
	j.logf("Ray rank %d of %d on %s (%s), CUDA_VISIBLE_DEVICES=%s", rank, r.Nodes, j.Env("SLURMD_NODENAME"), own,
		j.Env("CUDA_VISIBLE_DEVICES"))
	if err := adoptOrphans(); err != nil {
		return 1, err
	}
	defer killDescendants()
	// Ray's gRPC would go through an HTTP proxy.
	environ = append(withoutVariables(environ, "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "RAY_ADDRESS"),
		"VLLM_HOST_IP="+own, "RAY_USAGE_STATS_ENABLED=0")
	if j.Env(rayAuth) == "" {
		// A token that someone once left in ~/.ray would be demanded by the head
		// alone, of ranks whose home or container does not have it.
		environ = append(environ, rayAuth+"=disabled")
	}
	if rank > 0 {
		return j.rayWorker(ctx, r, own, address, environ)
	}
	return j.rayHead(ctx, r, own, address, environ)
}

// rayHead runs the head and then the server beside it; the end of either ends
// the other, and the server's exit code is the answer.
func (j *Job) rayHead(ctx context.Context, r Ray, own, address string, environ []string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defaults := []string{"--head", "--port=" + strconv.Itoa(r.Port), "--node-ip-address=" + own, "--block"}
	if !slices.ContainsFunc(r.HeadArgs, asksForDashboard) {
		defaults = append(defaults, "--include-dashboard=false")
	}
	args := append([]string{"start"}, options(r.HeadArgs, defaults...)...)
	head := make(chan error, 1)
	go func() { head <- j.ray(ctx, environ, args...) }()
	for end := j.Now().Add(r.Timeout); ; {
		out, err := j.rayOutput(ctx, environ, "status", "--address="+address)
		n := activeNodes(out)
		if err == nil && n >= r.Nodes {
			j.logf("Ray has %d of %d nodes:\n%s", n, r.Nodes, strings.TrimSpace(out))
			break
		}
		if j.Now().After(end) {
			return 1, fmt.Errorf("Ray has %d of %d nodes after %s", n, r.Nodes, r.Timeout)
		}
		select {
		case err := <-head:
			return 1, fmt.Errorf("the Ray head ended: %w", cmp.Or(err, errors.New("exit status 0")))
		case <-ctx.Done():
			return run.Terminated, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	server := j.command(ctx, append(environ, "RAY_ADDRESS="+address), r.Command[0], r.Command[1:]...)
	if err := server.Start(); err != nil {
		return 127, err
	}
	done := make(chan error, 1)
	go func() { done <- server.Wait() }()
	select {
	case <-done:
	case err := <-head:
		j.logf("the Ray head ended: %v", err)
		cancel()
		<-done
		return 1, errors.New("the Ray head ended before the server")
	}
	if code := server.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return run.Terminated, nil
}

func (j *Job) rayWorker(ctx context.Context, r Ray, own, address string, environ []string) (int, error) {
	args := append([]string{"start"},
		options(r.WorkerArgs, "--address="+address, "--node-ip-address="+own, "--block")...)
	end := j.Now().Add(r.Timeout)
	for {
		// `ray start` waits long for a head that is not there, so look first.
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			err = j.ray(ctx, environ, args...)
			if err == nil || ctx.Err() != nil {
				return 0, nil
			}
			j.logf("join %s: %v", address, err)
		}
		if j.Now().After(end) {
			return 1, fmt.Errorf("no Ray head at %s after %s: %w", address, r.Timeout, err)
		}
		if !sleep(ctx, 500*time.Millisecond) {
			return run.Terminated, ctx.Err()
		}
	}
}

// adoptOrphans makes this process the parent of descendants whose own parent
// ends, so that they stay in the tree of the step.
func adoptOrphans() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, linux/prctl.h
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("adopt orphans: %w", errno)
	}
	return nil
}

// killDescendants ends every process below this one.
func killDescendants() {
	for range 10 {
		pids := descendants(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// descendants lists the living processes below pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if parent, ok := process.Parent(child); ok {
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		all = append(all, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

// asksForDashboard reports whether an option of `ray start` says where the dashboard is.
func asksForDashboard(option string) bool {
	return strings.HasPrefix(option, "--dashboard-host") || strings.HasPrefix(option, "--dashboard-port")
}

// options puts the user's options behind the defaults that he did not set.
func options(user []string, defaults ...string) []string {
	set := map[string]bool{}
	for _, u := range user {
		name, _, _ := strings.Cut(u, "=")
		set[name] = true
	}
	var out []string
	for _, d := range defaults {
		if name, _, _ := strings.Cut(d, "="); !set[name] {
			out = append(out, d)
		}
	}
	return append(out, user...)
}

// activeNodes counts the nodes below "Active:" in the output of `ray status`:
// lines of a count and a node name.
func activeNodes(status string) int {
	n, in := 0, false
	for _, line := range strings.Split(status, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && f[0] == "Active:":
			in = true
		case len(f) > 0 && strings.HasSuffix(f[0], ":"):
			in = false
		case in && len(f) == 2:
			if c, err := strconv.Atoi(f[0]); err == nil && c > 0 && c < 1<<16 {
				n += c
			}
		}
	}
	return n
}

func (j *Job) ray(ctx context.Context, environ []string, args ...string) error {
	if err := j.command(ctx, environ, "ray", args...).Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("ray %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// command is a child that gets TERM when ctx ends, and KILL a while later.
func (j *Job) command(ctx context.Context, environ []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, j.Stdout, j.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = termWait
	return cmd
}

func (j *Job) rayOutput(ctx context.Context, environ []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ray", args...)
	cmd.Env = environ
	out, err := capture.Run(cmd)
	return string(out), err
}

// withoutVariables is an environment without some variables.
func withoutVariables(environ []string, names ...string) []string {
	var out []string
next:
	for _, kv := range environ {
		for _, n := range names {
			if strings.HasPrefix(kv, n+"=") {
				continue next
			}
		}
		out = append(out, kv)
	}
	return out
}
