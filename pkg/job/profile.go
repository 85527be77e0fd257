package job

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// RunProfiled runs a profiler with a server behind it and returns the profiler's exit
// code. When ctx ends, only the server gets TERM, and the profiler has plan.ReportWait to
// write its report: a profiler that is ended itself may leave no report. A server that does not
// end, because it hangs or still loads its weights, must not cost the report: after a third of
// that time, the profiler gets INT, on which nsys ends the recording. mark is the server's
// plan.ProfiledVar.
func (j *Job) RunProfiled(ctx context.Context, mark string, command, environ []string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, j.Stdout, j.Stderr
	// A group of its own, since some schedulers signal that of the task. It ends with this process,
	// which for the kernel is this thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		j.endProfiled(mark, cmd.Process, done)
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ctx.Err() == nil {
		return 128 + int(status.Signal()), nil // such as a segmentation fault: the cause of the run's failure
	}
	return run.Terminated, nil
}

// endProfiled ends a server, and then the profiler around it.
func (j *Job) endProfiled(mark string, profiler *os.Process, done <-chan struct{}) {
	limit := cmp.Or(j.grace, plan.ReportWait)
	j.awaitTraceEnd(limit)
	servers := profiled(mark)
	for _, pid := range servers {
		syscall.Kill(pid, syscall.SIGTERM)
	}
	if len(servers) == 0 { // it never began, or has ended
		profiler.Signal(syscall.SIGINT)
	}
	j.logf("sent TERM to %d processes under the profiler; the profiler has %s to write its report", len(servers), limit)
	interrupt, over := time.After(limit/3), time.After(limit)
	for {
		select {
		case <-done:
			return
		case <-interrupt:
			j.logf("the profiler has not ended %s after that; sending INT", limit/3)
			profiler.Signal(syscall.SIGINT)
		case <-over:
			profiler.Kill()
			<-done
			return
		}
	}
}

// awaitTraceEnd waits until the job has stopped the profilers inside of the engines, if it started
// any: a server that ends before leaves no trace. Once the job stops its steps, it has.
func (j *Job) awaitTraceEnd(limit time.Duration) {
	if j.Dir == "" { // there are none
		return
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(poll) {
		events, err := ReadEvents(j.Dir)
		if err != nil || slices.ContainsFunc(events, func(e Event) bool { return e.Event == Stopping }) {
			return
		}
		if _, at := lastTracing(events); at != TraceStarted && at != TraceStopping {
			return
		}
	}
}

// Unprofiled returns the server's own command behind that of its profiler, if this task is not
// among the ranks that are profiled; nil if it is.
func (j *Job) Unprofiled(ranks []int, mark string, command []string) []string {
	rank, err := strconv.Atoi(j.Env("SLURM_PROCID"))
	i := slices.Index(command, plan.ProfiledVar+"="+mark)
	if len(ranks) == 0 || i < 0 || i+1 == len(command) || err == nil && slices.Contains(ranks, rank) {
		return nil
	}
	return command[i+1:]
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
