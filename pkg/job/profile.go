package job

import (
	"context"
	"os/exec"
	"syscall"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// RunProfiled runs a profiler with a server behind it and returns the profiler's exit
// code. When ctx ends, only the server gets TERM, and the profiler has plan.ReportWait to
// write its report: a profiler that is ended itself may leave no report. mark is the
// server's plan.ProfiledVar.
func (j *Job) RunProfiled(ctx context.Context, mark string, command, environ []string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, j.Stdout, j.Stderr
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		servers := profiled(mark)
		for _, pid := range servers {
			syscall.Kill(pid, syscall.SIGTERM)
		}
		if len(servers) == 0 { // it never began, or has ended
			cmd.Process.Signal(syscall.SIGTERM)
		}
		j.logf("sent TERM to %d processes under the profiler; the profiler has %s to write its report", len(servers),
			plan.ReportWait)
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), plan.ReportWait)
		defer cancel()
		select {
		case <-done:
		case <-wait.Done():
			cmd.Process.Kill()
			<-done
		}
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return run.Terminated, nil
}

// profiled lists the marked processes whose parent is not marked: the servers
// themselves, not the workers that they end on their own.
func profiled(mark string) []int {
	parents := map[int]int{}
	for _, pid := range run.Marked(plan.ProfiledVar + "=" + mark) {
		if parent, ok := process.Parent(pid); ok {
			parents[pid] = parent
		}
	}
	var list []int
	for pid, parent := range parents {
		if _, marked := parents[parent]; !marked {
			list = append(list, pid)
		}
	}
	return list
}
