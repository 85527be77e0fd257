// Command profllm plans, runs, collects and judges LLM serving benchmarks on
// Slurm clusters.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), endSignals()...)
	context.AfterFunc(ctx, func() { endSoon(os.Args, os.Getenv("SLURM_JOB_ID")) })
	os.Exit(execute(ctx, os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
