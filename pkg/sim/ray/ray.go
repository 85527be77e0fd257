// Package ray stands in for `ray start`, `ray status` and `ray stop`.
package ray

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Ray's defaults (2.56).
const (
	rayPort        = 6379
	rayWorkerFirst = 10002 // first and last port that Ray keeps for its workers
	rayWorkerLast  = 19999
	rayPatience    = 60 * time.Second // how long a worker looks for its head
)

// rayOptions are the flags of `ray start` that matter here.
type rayOptions struct {
	head, block bool
	address     string // of the head, for a worker
	port        int
	node        rayNode
}

// A rayNode is one node of the simulated cluster, as the head knows it.
type rayNode struct {
	ID   string  `json:"id"` // 56 hexadecimal digits
	IP   string  `json:"ip"`
	CPUs float64 `json:"cpus"`
	GPUs float64 `json:"gpus"`
}

// Real names a knob: the path of a real ray, which is then run in place of
// the simulated one. The engine on top stays simulated.
const Real = "PROFLLM_SIM_RAY"

func Run(ctx context.Context, p program.Process, args []string) int {
	if len(args) == 0 {
		return p.Fail(program.Usage, errors.New("ray without a command: want start, status or stop"))
	}
	if real := p.Env(Real); real != "" {
		return p.Fail(program.Failed, syscall.Exec(real, append([]string{real}, args...), p.Environ))
	}
	switch args[0] {
	case "start":
		return rayStart(ctx, p, args[1:])
	case "status":
		return rayStatus(ctx, p, args[1:])
	case "stop":
		return rayStop(ctx, p)
	case "--version":
		fmt.Fprintln(p.Stdout, "ray, version "+program.Version)
		return program.OK
	}
	return p.Fail(program.Usage, fmt.Errorf("ray %s is not simulated: want start, status or stop", args[0]))
}

func rayStart(ctx context.Context, p program.Process, args []string) int {
	o, err := readOptions(p, args)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("ray start: %w", err))
	}
	raySay(p, "Local node IP: %s", o.node.IP)
	if o.head && o.port >= rayWorkerFirst && o.port <= rayWorkerLast {
		fmt.Fprintf(p.Stderr, "ValueError: Ray component worker_ports is trying to use a port number %d that is used by other components.\n"+
			"(profllm sim) Ray keeps ports %d to %d for its workers.\n", o.port, rayWorkerFirst, rayWorkerLast)
		return program.Failed
	}
	if !o.block {
		return rayDaemon(ctx, p, args, o)
	}
	d, err := rayJoin(ctx, p, o)
	if err != nil {
		fmt.Fprintln(p.Stderr, err)
		return program.Failed
	}
	defer d.close()
	raySay(p, "Ray runtime started (profllm sim).")
	raySay(p, "--block: This command will now block forever until terminated by a signal.")
	select {
	case <-ctx.Done():
		return program.OK
	case <-d.stopped:
		return program.OK
	case <-d.lost:
		fmt.Fprintln(p.Stderr,
			"Some Ray subprocesses exited unexpectedly:\n  raylet [exit code=1] (profllm sim: the head is gone)")
		return program.Failed
	}
}

func raySay(p program.Process, format string, args ...any) {
	fmt.Fprintf(p.Stdout, "%s\tINFO [profllm sim] -- %s\n", time.Now().Format("2006-01-02 15:04:05,000"),
		fmt.Sprintf(format, args...))
}

func readOptions(p program.Process, args []string) (rayOptions, error) {
	f := program.ParseFlags(args)
	o := rayOptions{
		head:    f.Bool("head", false),
		block:   f.Bool("block", false),
		address: f.Text("address", ""),
	}
	o.node = rayNode{ID: program.HexText(28), IP: f.Text("node-ip-address", nodeIP(p))}
	var errs []error
	number := func(name string, fallback int) int {
		n, err := f.Size(name, fallback, 0)
		if err != nil {
			errs = append(errs, err)
		}
		return n
	}
	o.port = number("port", rayPort)
	o.node.CPUs = float64(number("num-cpus", runtime.NumCPU()))
	o.node.GPUs = float64(number("num-gpus", visibleGPUs(p.Env("CUDA_VISIBLE_DEVICES"))))
	switch {
	case o.head == (o.address != ""):
		errs = append(errs, errors.New("want either --head or --address=HOST:PORT"))
	case !o.head:
		if _, _, err := net.SplitHostPort(o.address); err != nil {
			errs = append(errs, fmt.Errorf("--address=%q: want HOST:PORT", o.address))
		}
	}
	return o, errors.Join(errs...)
}

// nodeIP is where this node listens.
func nodeIP(p program.Process) string {
	if a := p.Env("PROFLLM_NODE_ADDR"); a != "" {
		return a
	}
	return "127.0.0.1"
}

func visibleGPUs(list string) int {
	if list == "" {
		return 0
	}
	return strings.Count(list, ",") + 1
}

// rayDaemon starts the same command again with --block, in this process group, and returns when
// it has joined.
func rayDaemon(ctx context.Context, p program.Process, args []string, o rayOptions) int {
	if p.Executable == "" {
		return p.Fail(program.Failed, errors.New("ray start without --block: this process cannot be started again"))
	}
	cmd := &exec.Cmd{
		Path: p.Executable,
		Args: append(append([]string{"ray", "start"}, args...), "--block"),
		Env:  p.Environ,
		// No output: a daemon that kept our stdout would keep whoever reads it waiting.
	}
	if err := cmd.Start(); err != nil {
		return p.Fail(program.Failed, fmt.Errorf("ray start: %w", err))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if s, err := ReadState(p, o.node.IP); err == nil && s.PID == cmd.Process.Pid {
			raySay(p, "Ray runtime started (profllm sim), pid %d.", s.PID)
			return program.OK
		}
		select {
		case err := <-ended:
			return p.Fail(program.Failed, fmt.Errorf("ray start %s --block: %w", strings.Join(args, " "), err))
		case <-ctx.Done():
			cmd.Process.Kill()
			return program.Failed
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rayState is what a node's daemon leaves for other commands on that node.
type rayState struct {
	PID     int    `json:"pid"`
	GCS     string `json:"gcs"`     // the head's address
	Control string `json:"control"` // where this daemon takes "stop"
}

// rayStateFile is one file per user and simulated node, as Ray keeps /tmp/ray.
func rayStateFile(p program.Process, ip string) (path string, exists bool, err error) {
	base := fmt.Sprintf("profllm-sim-ray-%d-%s", os.Getuid(), strings.ReplaceAll(ip, ":", "_"))
	return regular.OwnFile(cmp.Or(p.Env("TMPDIR"), "/tmp"), base, ".json")
}

func ReadState(p program.Process, ip string) (rayState, error) {
	var s rayState
	path, exists, err := rayStateFile(p, ip)
	if err == nil && !exists {
		err = fs.ErrNotExist
	}
	if err != nil {
		return s, err
	}
	text, err := regular.ReadFile(path)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// rayAddress finds the cluster: the flag, RAY_ADDRESS, or the daemon of this node.
func rayAddress(p program.Process, flag string) (string, error) {
	for _, a := range []string{flag, p.Env("RAY_ADDRESS")} {
		if a != "" && a != "auto" {
			return a, nil
		}
	}
	s, err := ReadState(p, nodeIP(p))
	if err != nil {
		return "", errNoRay
	}
	return s.GCS, nil
}

//lint:ignore ST1005 these are Ray's own words
var errNoRay = errors.New("Could not find any running Ray instance. Please specify the one to connect to by setting the " +
	"`--address` flag or `RAY_ADDRESS` environment variable.")

func rayStatus(ctx context.Context, p program.Process, args []string) int {
	f := program.ParseFlags(args)
	address, err := rayAddress(p, f.Text("address", ""))
	if err == nil {
		var nodes []rayNode
		if nodes, err = askNodes(ctx, address); err == nil {
			fmt.Fprint(p.Stdout, statusText(nodes, time.Now()))
			return program.OK
		}
	}
	fmt.Fprintf(p.Stderr, "Traceback (most recent call last):\n  profllm sim, ray status\nConnectionError: %v\n", err)
	return program.Failed
}

// statusText has the layout of `ray status` (2.56) for an idle cluster. Memory is not simulated.
func statusText(nodes []rayNode, now time.Time) string {
	const rule = "---------------------------------------------------------------\n"
	var b strings.Builder
	fmt.Fprintf(&b, "======== Autoscaler status: %s ======== (profllm sim)\n", now.Format("2006-01-02 15:04:05.000000"))
	b.WriteString("Node status\n" + rule + "Active:\n")
	var cpus, gpus float64
	for _, n := range nodes {
		fmt.Fprintf(&b, " 1 node_%s\n", n.ID)
		cpus += n.CPUs
		gpus += n.GPUs
	}
	b.WriteString("Pending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\nResources\n" + rule +
		"Total Usage:\n")
	fmt.Fprintf(&b, " 0.0/%.1f CPU\n", cpus)
	if gpus > 0 {
		fmt.Fprintf(&b, " 0.0/%.1f GPU\n", gpus)
	}
	b.WriteString(" 0B/0B memory\n 0B/0B object_store_memory\n\n")
	b.WriteString("From request_resources:\n (none)\nPending Demands:\n (no resource demands)\n")
	return b.String()
}

func rayStop(ctx context.Context, p program.Process) int {
	ip := nodeIP(p)
	s, err := ReadState(p, ip)
	if err != nil {
		fmt.Fprintln(p.Stdout, "Did not find any active Ray processes. (profllm sim)")
		return program.OK
	}
	if err := tellStop(ctx, s.Control); err == nil {
		fmt.Fprintln(p.Stdout, "Stopped all 1 Ray processes. (profllm sim)")
	} else {
		fmt.Fprintln(p.Stdout, "Did not find any active Ray processes. (profllm sim)")
	}
	if path, exists, err := rayStateFile(p, ip); err == nil && exists {
		os.Remove(path)
	}
	return program.OK
}

// Nodes is how the engine joins the cluster; a real one does the same by ray.init.
func Nodes(ctx context.Context, p program.Process) ([]rayNode, error) {
	address, err := rayAddress(p, "")
	if err != nil {
		return nil, err
	}
	nodes, err := askNodes(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("ray at %s: %w", address, err)
	}
	return nodes, nil
}

// gcsTimeout reads Ray's own setting of how many seconds a worker looks for its head.
func gcsTimeout(p program.Process) time.Duration {
	if n, err := strconv.Atoi(p.Env("RAY_gcs_rpc_server_reconnect_timeout_s")); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	return rayPatience
}
