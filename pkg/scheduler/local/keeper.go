package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// The process that watches over a job can be killed, and its engines, clients and
// helpers would run on for ever. So a keeper, which is a second process in a session
// of its own, and each srun check that the watching process is alive. If it is not,
// they end every process that has the job's state in its environment. Engines are
// left behind only if the watching process, the keeper and every srun are killed at
// once.

// keeperProgram is the name under which profllm is a keeper.
const keeperProgram = ProgramPrefix + "keeper"

// pulse is how often the keeper checks that the watching process is alive.
const pulse = 200 * time.Millisecond

// jobState is the variable by which the processes of a local job are known.
const jobState = "PROFLLM_LOCAL_JOB"

// keep runs a keeper beside the job, and another one if it is killed, until stop
// is called: the function that it returns.
func (j localJob) keep(environ []string) (func(), error) {
	start := func() (*exec.Cmd, error) {
		cmd := exec.Command(filepath.Join(j.State, "bin", keeperProgram), j.id, j.mark(), j.patience().String())
		cmd.Env = without(environ, jobState)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd, cmd.Start()
	}
	cmd, err := start()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			cmd.Wait()
			if ctx.Err() != nil {
				return
			}
			time.Sleep(pulse)
			next, err := start()
			if err != nil {
				return
			}
			cmd = next
		}
	}()
	return cancel, nil
}

// patience is from TERM to KILL when nobody watches over the job any more. Real steps take as long
// to stop as ever.
func (j *localJob) patience() time.Duration {
	if j.Allocation != "" {
		return j.killWait()
	}
	return killWait / 2
}

// keeper waits for the end of the watching process, and ends what is left of its job.
func keeper(ctx context.Context, id, mark, patience string) int {
	limit, err := time.ParseDuration(patience)
	if err != nil {
		limit = killWait / 2
	}
	if waitForEnd(ctx, id) {
		end(mark, limit, killWait, everyone)
	}
	return 0
}

// waitForEnd waits until nobody watches over a job any more; false if somebody still
// does when ctx ends.
func waitForEnd(ctx context.Context, id string) bool {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		over := ctx.Err() != nil
		if _, ours, runs := watcher(id); !ours || !runs || over {
			return ours && !runs
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// attached is the context of a job that also ends when the process that submitted it does, until
// detach is called.
func (j localJob) attached(ctx context.Context) (_ context.Context, detach func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		if waitForEnd(ctx, j.From.Job) {
			j.complain("the command that started this job has ended, so the job ends")
			cancel()
		}
	}()
	return ctx, cancel
}

// complain writes a line to what the job's script writes.
func (j localJob) complain(text string) {
	f, err := run.Append(filepath.Join(j.Dir, stderrFile))
	if err == nil {
		fmt.Fprintln(f, "profllm local job:", text)
		f.Close()
	}
}

// end ends the processes of a job that match: TERM, so that the script can say how
// it ended, and after that much patience KILL, until none is left. It gives up a limit
// later: a process that waits for a disk or a driver (state D) may never take its KILL.
func end(mark string, patience, limit time.Duration, match func(pid int) bool) {
	begun, sig := time.Now(), syscall.SIGTERM
	for {
		waited := time.Since(begun)
		if waited >= patience {
			sig = syscall.SIGKILL
		}
		left := 0
		for _, pid := range run.Marked(mark) {
			if pid != os.Getpid() && match(pid) {
				left++
				syscall.Kill(pid, sig)
			}
		}
		if left == 0 || waited >= patience+limit {
			return
		}
		if sig == syscall.SIGTERM {
			sig = 0 // once
		}
		time.Sleep(pulse / 4)
	}
}

func everyone(int) bool { return true }

// outlive is a keeper inside of srun. It leaves other sruns alone, which do the
// same. stop returns when what it had begun is done.
func outlive(id, state string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if waitForEnd(ctx, id) {
			end(jobState+"="+state, killWait/2, killWait, func(pid int) bool { return !isClient(pid) })
		}
	}()
	return func() { cancel(); <-done }
}

// isClient reports whether a process is the stand-in for srun.
func isClient(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(name) == "srun\n"
}
