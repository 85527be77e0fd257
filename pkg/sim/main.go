package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// A Program runs a command line to its end and returns its exit code.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// A Client is a Program that reads the time from a clock.
type Client func(ctx context.Context, args []string, now func() time.Time, stdout, stderr io.Writer) int

// A Process is what one simulated command is given.
type Process struct {
	Args           []string            // Args[0] is "vllm", "ray", "python3", "nsys" or "nvidia-smi"
	Env            func(string) string // looks up one variable
	Environ        []string            // the whole environment, for the daemon that `ray start` leaves behind
	Stdout, Stderr io.Writer
	Bench          Client  // profllm's load client, run for `vllm bench serve` with the arguments after it, and for SGLang's
	Proxy          Program // profllm's prefill/decode proxy, run for toy_proxy_server.py with its arguments, and for SGLang's router
	Executable     string  // started again, with argv[0] "ray", by `ray start` without --block
}

// Exit codes; those of the engine are the programs' own.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitMissing = 127
)

// Version is what the simulated engine says it is.
const Version = "profllm-sim"

// Notice is the line that a load client prints above the numbers of simulated servers;
// readers of console text know it by "profllm sim".
const Notice = "profllm sim: the engine is simulated, no number below is a measurement"

// Main runs the simulated command and returns its exit code. Cancelling ctx is its SIGTERM.
func Main(ctx context.Context, p Process) int {
	if len(p.Args) == 0 {
		return p.fail(exitUsage, errors.New("no command: want vllm, ray, python3, nsys or nvidia-smi"))
	}
	switch name := filepath.Base(p.Args[0]); {
	case name == "vllm":
		return p.vllm(ctx, p.Args[1:])
	case name == "ray":
		return p.ray(ctx, p.Args[1:])
	case name == "nsys":
		return p.nsys(ctx, p.Args[1:])
	case name == "nvidia-smi":
		return p.smi(ctx, p.Args[1:])
	case strings.HasPrefix(name, "python"):
		return p.python(ctx, p.Args[1:])
	case p.tool(name) != nil:
		return p.tool(name)(ctx, p.Args[1:])
	default:
		return p.fail(exitMissing, fmt.Errorf("%q is not simulated: want vllm, ray, python3, nsys or nvidia-smi", name))
	}
}

func (p Process) vllm(ctx context.Context, args []string) int {
	switch {
	case len(args) >= 1 && (args[0] == "--version" || args[0] == "-v"):
		fmt.Fprintln(p.Stdout, Version)
		return exitOK
	case len(args) >= 1 && args[0] == "serve":
		return p.serve(ctx, args[1:])
	case len(args) >= 2 && args[0] == "bench" && args[1] == "serve":
		return p.bench(ctx, args[2:])
	default:
		return p.fail(exitUsage, fmt.Errorf("vllm %s is not simulated: want serve or bench serve", strings.Join(args, " ")))
	}
}

func (p Process) python(ctx context.Context, args []string) int {
	for len(args) > 0 && args[0] == "-u" {
		args = args[1:]
	}
	if len(args) == 0 {
		return p.fail(exitMissing, errors.New("python3 without a script is not simulated"))
	}
	if args[0] == "-m" && len(args) > 1 {
		return p.sglang(ctx, args[1], args[2:])
	}
	switch script := filepath.Base(args[0]); {
	case script == "gsm8k_eval.py":
		return p.gsm8k(ctx, args[1:])
	case script == "toy_proxy_server.py" && p.Proxy != nil:
		return p.Proxy(ctx, args[1:], p.Stdout, p.Stderr)
	default:
		return p.fail(exitMissing, fmt.Errorf("%q is not simulated: want gsm8k_eval.py, toy_proxy_server.py or -m and a module of SGLang", args[0]))
	}
}

// bench runs the load client under the client's faults.
func (p Process) bench(ctx context.Context, args []string) int {
	f, err := parseFaults(p.Env("PROFLLM_SIM_FAULTS"), "client", false)
	if err != nil {
		return p.fail(exitUsage, err)
	}
	n, err := Speed(p.Env)
	if err != nil {
		return p.fail(exitUsage, err)
	}
	f.faster(n)
	if p.Bench == nil {
		return p.fail(exitMissing, errors.New("this process has no load client"))
	}
	if f.dieAtStart {
		fmt.Fprintf(p.Stderr, "Traceback (most recent call last):\n  profllm sim, vllm bench serve\nRuntimeError: simulated death of the client\n")
		return f.exit
	}
	if f.hang {
		<-ctx.Done()
		return exitFailed
	}
	if args, err = f.paced(args); err != nil {
		return p.fail(exitUsage, err)
	}
	if f.dieAfter == 0 {
		return p.Bench(ctx, args, f.clock(), p.Stdout, p.Stderr)
	}
	mortal, cancel := context.WithTimeout(ctx, f.dieAfter)
	defer cancel()
	code := p.Bench(mortal, args, f.clock(), p.Stdout, p.Stderr)
	if ctx.Err() == nil && errors.Is(mortal.Err(), context.DeadlineExceeded) {
		fmt.Fprintf(p.Stderr, "profllm sim: simulated death of the client after %s\n", f.dieAfter)
		return f.exit
	}
	return code
}

func (p Process) fail(code int, err error) int {
	fmt.Fprintf(p.Stderr, "profllm sim: error: %v\n", err)
	return code
}

// wait returns after d or when ctx ends, and says whether d passed.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
