package program

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A Program runs a command line to its end and returns its exit code.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// A Client is a Program that reads the time from a clock.
type Client func(ctx context.Context, args []string, now func() time.Time, stdout, stderr io.Writer) int

// A Process is what one simulated command is given.
type Process struct {
	Args           []string            // Args[0] is "vllm", "ray", "python3", "nsys", "viztracer" or "nvidia-smi"
	Env            func(string) string // looks up one variable
	Environ        []string            // the whole environment, for the daemon that `ray start` leaves behind
	Stdout, Stderr io.Writer
	// profllm's load client, run for `vllm bench serve` with the arguments after it, and for
	// SGLang's
	Bench Client
	// profllm's prefill/decode proxy, run for toy_proxy_server.py with its arguments, and for
	// SGLang's router
	Proxy      Program
	Executable string // started again, with argv[0] "ray", by `ray start` without --block
}

// Exit codes; those of the engine are the programs' own.
const (
	OK      = 0
	Failed  = 1
	Usage   = 2
	Missing = 127
)

// Version is what the simulated engine says it is.
const Version = "profllm-sim"

// Owns reports whether a server is the simulated engine, by the owner of its models.
func Owns(owner string) bool { return owner == Version }

// Notice is the line that a load client prints above the numbers of simulated servers;
// readers of console text know it by "profllm sim".
const Notice = "profllm sim: the engine is simulated, no number below is a measurement"

func (p Process) Fail(code int, err error) int {
	fmt.Fprintf(p.Stderr, "profllm sim: error: %v\n", err)
	return code
}

// Wait returns after d or when ctx ends, and says whether d passed.
func Wait(ctx context.Context, d time.Duration) bool {
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
