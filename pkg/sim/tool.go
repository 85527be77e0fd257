package sim

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// shell is the bash of job scripts, which a stand-in must not look up: it may
// have that name itself.
const shell = "/bin/bash"

// tool is the stand-in of that name for a program that serves nothing, or nil.
// None runs anything: the lines that mean success are there, and every number in
// them is 0.
func (p Process) tool(name string) func(context.Context, []string) int {
	switch {
	case name == "bash":
		return p.shellText
	case name == "ucc_perftest":
		return p.said("no collective ran")
	case strings.HasPrefix(name, "fio"):
		return p.said("no file was touched", "  write: IOPS=0, BW=0B/s (0B/s)(0B/0msec)")
	case strings.HasSuffix(strings.TrimSuffix(name, "_mpi"), "_perf"):
		return p.said("no collective ran", "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0")
	}
	return nil
}

// said prints that nothing was done, and then the lines: as in MPI programs on
// the first rank only, which for fio is enough.
func (p Process) said(what string, lines ...string) func(context.Context, []string) int {
	return func(_ context.Context, args []string) int {
		if rank := p.Env("SLURM_PROCID"); rank != "" && rank != "0" {
			return exitOK
		}
		fmt.Fprintf(p.Stdout, "profllm sim: %s, every number below is made up: %s %s\n", what, filepath.Base(p.Args[0]), strings.Join(args, " "))
		for _, line := range lines {
			fmt.Fprintln(p.Stdout, line)
		}
		return exitOK
	}
}

// shellText parses the text of `bash -c TEXT` and runs none of it: it was written
// for an image that a simulated run does not have.
func (p Process) shellText(ctx context.Context, args []string) int {
	if len(args) < 2 || args[0] != "-c" {
		return p.fail(exitUsage, errors.New("bash is simulated as bash -c TEXT only"))
	}
	cmd := exec.CommandContext(ctx, shell, "-n", "-c", args[1])
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return p.fail(exitUsage, fmt.Errorf("bash cannot parse the text: %s", args[1]))
	}
	if err != nil {
		return p.fail(exitFailed, err)
	}
	fmt.Fprintf(p.Stdout, "profllm sim: parsed by bash, not run: %s\n", args[1])
	return exitOK
}
