package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
)

// busy is a script with two steps, of which each leaves a helper in a session of
// its own, as engines do.
const busy = `trap '' TERM
srun --job-name=one bash -c 'setsid sleep 600 & trap "" TERM; echo > one; sleep 600; sleep 600' &
srun --job-name=two bash -c 'setsid sleep 600 & echo > two; exec sleep 600' &
setsid sleep 600 &
wait; sleep 600
`

// running waits until both tasks of busy run, with a keeper, and returns the kinds of
// processes that can be killed, by what they are called.
func (j *job) running(t *testing.T) map[string][]int {
	t.Helper()
	await.True(t, func() bool {
		_, one := os.Stat(filepath.Join(j.dir, "one"))
		_, two := os.Stat(filepath.Join(j.dir, "two"))
		return one == nil && two == nil && len(keepers(t, j.id)) == 1
	}, "both tasks run, with a keeper")
	pid, ours, runs := watcher(j.id)
	require.True(t, ours && runs)
	of := map[string][]int{"watch": {pid}}
	for _, p := range j.processes(t) {
		text, err := os.ReadFile(filepath.Join("/proc", p, "cmdline"))
		require.NoError(t, err)
		n, err := strconv.Atoi(p)
		require.NoError(t, err)
		switch words := strings.Split(string(text), "\x00"); {
		case words[0] == "srun":
			of["srun"] = append(of["srun"], n)
		case len(words) > 1 && filepath.Base(words[1]) == "job.sh":
			of["script"] = append(of["script"], n)
		default:
			of["tasks"] = append(of["tasks"], n)
		}
	}
	of["keeper"] = append(of["keeper"], keepers(t, j.id)...)
	return of
}

func keepers(t *testing.T, id string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		words := strings.Split(string(text), "\x00")
		if filepath.Base(words[0]) == keeperProgram && len(words) > 1 && words[1] == id {
			n, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(t, err)
			pids = append(pids, n)
		}
	}
	return pids
}

// Whoever is killed together with whom, no process of the job is left.
func TestKilledTogether(t *testing.T) {
	for _, kinds := range [][]string{
		{"watch"}, {"watch", "script"}, {"watch", "srun"}, {"watch", "script", "srun"}, {"watch", "keeper"}, {"watch", "keeper", "script"},
		{"keeper", "script"}, {"script"}, {"script", "srun"}, {"watch", "script", "srun", "tasks"},
	} {
		t.Run(strings.Join(kinds, " "), func(t *testing.T) {
			t.Parallel()
			j := submit(t, busy)
			of := j.running(t)
			var pids []int
			for _, kind := range kinds {
				require.NotEmpty(t, of[kind], kind)
				pids = append(pids, of[kind]...)
			}
			// A process that is stopped sees no other one die, as if all died at once.
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != syscall.ESRCH { // ended by a keeper meanwhile
					require.NoError(t, err)
				}
			}
			await.True(t, func() bool { return len(j.processes(t))+len(keepers(t, j.id)) == 0 },
				"no process of the job is left")
		})
	}
}

// When the process that watches dies while the script is stopped, the kernel sends
// SIGHUP to the script and to every srun. No process of the job is left then either.
func TestKilledWhileStopped(t *testing.T) {
	for name, script := range map[string]string{
		"busy":     busy,
		"obedient": strings.ReplaceAll(busy, `trap "" TERM; `, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := submit(t, script)
			of := j.running(t)
			for _, pid := range slices.Concat(of["script"], of["watch"], of["keeper"]) {
				require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			for _, pid := range slices.Concat(of["watch"], of["keeper"]) {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			await.True(t, func() bool { return len(j.processes(t))+len(keepers(t, j.id)) == 0 },
				"no process of the job is left")
		})
	}
}

// A keeper that is killed is replaced.
func TestKeeperIsReplaced(t *testing.T) {
	j := submit(t, "exec sleep 7200\n")
	await.True(t, func() bool { return len(keepers(t, j.id)) == 1 }, "a keeper runs")
	first := keepers(t, j.id)[0]
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	await.True(t, func() bool {
		now := keepers(t, j.id)
		return len(now) == 1 && now[0] != first
	}, "another keeper runs")
}

// A process that does not die holds nobody up for longer than the limit: here each one that
// gets KILL has a successor.
func TestEndGivesUp(t *testing.T) {
	state := t.TempDir()
	var started []*exec.Cmd
	begin := func() {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Env = []string{jobState + "=" + state}
		require.NoError(t, cmd.Start())
		started = append(started, cmd)
	}
	begin()
	const patience, limit = 100 * time.Millisecond, 200 * time.Millisecond
	begun := time.Now()
	end(jobState+"="+state, patience, limit, func(pid int) bool {
		if pid == started[len(started)-1].Process.Pid {
			begin()
		}
		return true
	})
	require.GreaterOrEqual(t, time.Since(begun), patience+limit)
	for _, cmd := range started {
		cmd.Process.Kill()
		cmd.Wait()
	}
	end(jobState+"="+state, 0, killWait, everyone)
	require.Empty(t, run.Marked(jobState+"="+state))
}

// A keeper that cannot be started again is nobody's race: what keep returned is not touched any
// more.
func TestKeeperThatIsGone(t *testing.T) {
	state := t.TempDir()
	program := filepath.Join(state, "bin", keeperProgram)
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nrm \"$0\"\n"), 0o755))
	stop, err := localJob{State: state, id: "x"}.keep(os.Environ())
	require.NoError(t, err)
	defer stop()
	await.True(t, func() bool { _, err := os.Stat(program); return err != nil }, "the keeper has run")
}
