package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
