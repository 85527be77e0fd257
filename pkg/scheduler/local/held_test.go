package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/run"
)

// The script gets what Slurm says of the allocation, and nothing of the task that its shell may be.
//
// covers: SRV-18
func TestHold(t *testing.T) {
	l := New(t.TempDir(), "profllm", nil, time.Now)
	l.Hold("7", []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_STEP_ID=0",
		"SLURM_PROCID=0", "SLURMD_NODENAME=n1", "SLURM_LAUNCH_NODE_IPADDR=10.0.0.1"})
	require.Equal(t, []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf"}, l.environ)
	require.Equal(t, []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n1"}, l.held)
	j := localJob{Allocation: "7", id: "local-h-1-00000000"}
	require.Equal(t, []string{"PROFLLM_HELD_JOB=local-h-1-00000000"}, j.variables(), "the job of Slurm stays the allocation's")
}

// An allocation is in use while the script stops its steps, also if nobody watches over it any more.
func TestLeaseOfAHeldAllocation(t *testing.T) {
	base := leasesIn(t)
	dead := holder{newID(os.Getpid(), "an earlier start"), filepath.Join(base, "dead")}
	require.False(t, dead.lives())
	script := exec.Command("sleep", "600")
	script.Env = []string{run.HeldVar + "=" + dead.Job}
	require.NoError(t, script.Start())
	await.True(t, func() bool { return dead.lives() }, "its script runs")
	require.NoError(t, script.Process.Kill())
	script.Wait()
	require.False(t, dead.lives())
}

// The keeper of a script that stops real steps waits as long as whoever watches over it would.
func TestKeeperOfAHeldAllocation(t *testing.T) {
	state := t.TempDir()
	program := filepath.Join(state, "bin", keeperProgram)
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	for allocation, patience := range map[string]string{"": "5s", "7": heldWait.String()} {
		told := filepath.Join(state, "told"+allocation)
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho $$ \"$@\" >"+told+".new\nmv "+told+".new "+told+"\nexec sleep 600\n"), 0o755))
		j := localJob{State: state, Allocation: allocation, id: "x"}
		stop, err := j.keep(os.Environ())
		require.NoError(t, err)
		await.File(t, told)
		stop()
		text, err := os.ReadFile(told)
		require.NoError(t, err)
		said := strings.Fields(string(text))
		pid, err := strconv.Atoi(said[0])
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.Equal(t, []string{"x", j.mark(), patience}, said[1:])
	}
}
