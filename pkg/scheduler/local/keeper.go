package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The process that watches over a job can be killed like every other, and what it
// watched would go on for good: engines, clients, their helpers. So a second process
// in a session of its own, the keeper, and each srun as well, look whether it is
// alive, and end what carries the job's state in its environment when it is not.
// Whoever kills the watching process, the keeper and every srun at once leaves
// engines behind; nobody would be left who could know.

// keeperProgram is the name under which profllm is a keeper.
const keeperProgram = ProgramPrefix + "keeper"

// pulse is how often it is looked whether the watching process is alive.
const pulse = 200 * time.Millisecond

// jobState is the variable by which the processes of a local job are known.
const jobState = "PROFLLM_LOCAL_JOB"

// keep runs a keeper beside the job, and another one if it is killed, until stop
// is called.
func (j localJob) keep(environ []string) (stop func(), err error) {
	start := func() (*exec.Cmd, error) {
		cmd := exec.Command(filepath.Join(j.State, "bin", keeperProgram), j.id, j.State)
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
		for ; err == nil; cmd, err = start() {
			cmd.Wait()
			if ctx.Err() != nil {
				return
			}
			time.Sleep(pulse)
		}
	}()
	return cancel, nil
}

// keeper waits for the end of the watching process, and ends what is left of its job.
func keeper(ctx context.Context, id, state string) int {
	if waitForEnd(ctx, id) {
		end(state, killWait/2, everyone)
	}
	return 0
}

// waitForEnd waits until nobody watches over a job any more; false if ctx ended first.
func waitForEnd(ctx context.Context, id string) bool {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		if _, ours, runs := process(id); !ours || !runs {
			return ours
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// end ends the processes of a job that match: TERM, so that the script can say how
// it ended, and after that much patience KILL, until none is left.
func end(state string, patience time.Duration, match func(pid int) bool) {
	begun, sig := time.Now(), syscall.SIGTERM
	for {
		if time.Since(begun) >= patience {
			sig = syscall.SIGKILL
		}
		left := 0
		for _, pid := range members(state) {
			if pid != os.Getpid() && match(pid) {
				left++
				syscall.Kill(pid, sig)
			}
		}
		if left == 0 {
			return
		}
		if sig == syscall.SIGTERM {
			sig = 0 // once
		}
		time.Sleep(pulse / 4)
	}
}

func everyone(int) bool { return true }

// members are the processes that carry a job's state in their environment.
func members(state string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	mark := []byte("\x00" + jobState + "=" + state + "\x00")
	var pids []int
	for _, f := range files {
		env, err := os.ReadFile(f) // of another user: refused
		if err == nil && bytes.Contains(append([]byte{0}, env...), mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// outlive is a keeper inside of srun. It leaves other sruns alone, which do the
// same. stop returns when what it had begun is done.
func outlive(id, state string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if waitForEnd(ctx, id) {
			end(state, killWait/2, func(pid int) bool { return !isClient(pid) })
		}
	}()
	return func() { cancel(); <-done }
}

// isClient reports whether a process is the stand-in for srun.
func isClient(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(name) == "srun\n"
}
