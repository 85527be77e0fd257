package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Bench runs the load client under the client's faults.
func Bench(ctx context.Context, p program.Process, args []string) int {
	f, err := knobs.ParseFaults(p.Env("PROFLLM_SIM_FAULTS"), "client", false)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	n, err := knobs.Speed(p.Env)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	f.Faster(n)
	c, err := newPooling(args)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	if c == nil && p.Bench == nil {
		return p.Fail(program.Missing, errors.New("this process has no load client"))
	}
	if f.DieAtStart {
		fmt.Fprintf(p.Stderr, "Traceback (most recent call last):\n  profllm sim, vllm bench serve\nRuntimeError: simulated death of the client\n")
		return f.Exit
	}
	if f.Hang {
		<-ctx.Done()
		return program.Failed
	}
	if c != nil {
		return c.pool(ctx, p, program.ParseFlags(args))
	}
	if args, err = f.Paced(random(args, p.Stdout)); err != nil {
		return p.Fail(program.Usage, err)
	}
	if f.DieAfter == 0 {
		return p.Bench(ctx, args, f.Clock(), p.Stdout, p.Stderr)
	}
	mortal, cancel := context.WithTimeout(ctx, f.DieAfter)
	defer cancel()
	code := p.Bench(mortal, args, f.Clock(), p.Stdout, p.Stderr)
	if ctx.Err() == nil && errors.Is(mortal.Err(), context.DeadlineExceeded) {
		fmt.Fprintf(p.Stderr, "profllm sim: simulated death of the client after %s\n", f.DieAfter)
		return f.Exit
	}
	return code
}
