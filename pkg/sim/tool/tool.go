// Package tool stands in for programs that serve nothing: nvidia-smi, nsys, viztracer,
// bash, and benchmarks of networks and disks.
package tool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/sim/program"
)

// shell is the bash of job scripts, which a stand-in must not look up: it may
// have that name itself.
const shell = "/bin/bash"

// Named is the stand-in of that name for a program that serves nothing, or nil.
// None runs anything: the lines that mean success are there, and every number in
// them is 0.
func Named(p program.Process, name string) func(context.Context, []string) int {
	switch {
	case name == "bash":
		return func(ctx context.Context, args []string) int { return shellText(ctx, p, args) }
	case name == "ucc_perftest":
		return said(p, "no collective ran")
	case strings.HasPrefix(name, "fio"):
		return said(p, "no file was touched", "  write: IOPS=0, BW=0B/s (0B/s)(0B/0msec)")
	case strings.HasSuffix(strings.TrimSuffix(name, "_mpi"), "_perf"):
		return said(p, "no collective ran", "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0")
	}
	return nil
}

// said prints that nothing was done, and then the lines: as in MPI programs on
// the first rank only, which for fio is enough.
func said(p program.Process, what string, lines ...string) func(context.Context, []string) int {
	return func(_ context.Context, args []string) int {
		if rank := p.Env("SLURM_PROCID"); rank != "" && rank != "0" {
			return program.OK
		}
		fmt.Fprintf(p.Stdout, "profllm sim: %s, every number below is made up: %s %s\n", what, filepath.Base(p.Args[0]),
			strings.Join(args, " "))
		for _, line := range lines {
			fmt.Fprintln(p.Stdout, line)
		}
		return program.OK
	}
}

// shellText parses the text of `bash -c TEXT` and runs none of it: it was written
// for an image that a simulated run does not have.
func shellText(ctx context.Context, p program.Process, args []string) int {
	if len(args) < 2 || args[0] != "-c" {
		return p.Fail(program.Usage, errors.New("bash is simulated as bash -c TEXT only"))
	}
	cmd := exec.CommandContext(ctx, shell, "-n", "-c", args[1])
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return p.Fail(program.Usage, fmt.Errorf("bash cannot parse the text: %s", args[1]))
	}
	if err != nil {
		return p.Fail(program.Failed, err)
	}
	fmt.Fprintf(p.Stdout, "profllm sim: parsed by bash, not run: %s\n", args[1])
	return program.OK
}
