package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// leasesIn keeps the leases of a test apart.
func leasesIn(t *testing.T) string {
	t.Helper()
	was := leasesDir
	leasesDir = t.TempDir()
	t.Cleanup(func() { leasesDir = was })
	return leasesDir
}

// at is the environment of a job.
func (h holder) at(name string) string {
	return map[string]string{"SLURM_JOB_ID": h.Job, jobState: h.State}[name]
}

func (h holder) ports(t *testing.T, ports ...int) (taken int) {
	t.Helper()
	taken, err := LeasePorts(t.Context(), h.at, ports)
	require.NoError(t, err)
	return taken
}

// A lease counts while the process that watches over its job lives, or any other of the job.
func TestLeasesOfTheDead(t *testing.T) {
	base := leasesIn(t)
	ours := holder{newID(os.Getpid(), process.Start(os.Getpid())), filepath.Join(base, "ours")}
	require.Zero(t, ours.ports(t, 8300, 8301))
	require.Zero(t, ours.ports(t, 8301, 8302), "they are our own")

	dead := holder{newID(os.Getpid(), "an earlier start"), filepath.Join(base, "dead")}
	require.Equal(t, 8302, dead.ports(t, 8303, 8302))
	require.Zero(t, dead.ports(t, 8303))
	require.Zero(t, ours.ports(t, 8303), "nobody of the job lives")

	engine := exec.Command("sleep", "600")
	engine.Env = []string{jobState + "=" + dead.State}
	require.NoError(t, engine.Start())
	await.True(t, func() bool { return dead.lives() }, "its engine runs")
	require.Zero(t, dead.ports(t, 8304))
	require.Equal(t, 8304, ours.ports(t, 8304), "its engine lives")
	require.NoError(t, engine.Process.Kill())
	engine.Wait()
	require.Zero(t, ours.ports(t, 8304))

	require.NoError(t, ours.release(t.Context()))
	other := holder{newID(os.Getppid(), process.Start(os.Getppid())), filepath.Join(base, "other")}
	require.Zero(t, other.ports(t, 8300, 8301, 8302, 8303, 8304))
}

// What a crash left of the file does not stop anybody.
func TestLeasesCutShort(t *testing.T) {
	base := leasesIn(t)
	ours := holder{newID(os.Getpid(), process.Start(os.Getpid())), filepath.Join(base, "ours")}
	require.Zero(t, ours.ports(t, 8300))
	for _, text := range []string{"", "{", "[]", `{"port 8300": null}`, `{"port 8300": {"job": 1}}`, "\x00\x00"} {
		require.NoError(t, os.WriteFile(leasesFile(os.Getuid()), []byte(text), 0o644))
		require.Zero(t, ours.ports(t, 8300), text)
	}
}

// Of many that ask at once one gets it.
func TestLeasesAtOnce(t *testing.T) {
	base := leasesIn(t)
	var wg sync.WaitGroup
	got := make([]int, 8)
	for i := range got {
		wg.Go(func() {
			h := holder{newID(os.Getpid(), process.Start(os.Getpid())), filepath.Join(base, string(rune('a'+i)))}
			for port := range 20 {
				if taken, err := LeasePorts(t.Context(), h.at, []int{9000 + port}); err == nil && taken == 0 {
					got[i]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range got {
		sum += n
	}
	require.Equal(t, 20, sum)
}

// Who holds the leases up is named by the time it took.
func TestLeasesHeldUp(t *testing.T) {
	alone, err := exclude(t.Context())
	require.NoError(t, err)
	defer alone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = exclude(ctx)
	require.ErrorContains(t, err, "another process holds them")
	require.NotErrorIs(t, err, syscall.EADDRINUSE)
}

// writeLeases writes the file of another user; false if this user cannot give files away.
func writeLeases(t *testing.T, uid int, of leases) bool {
	t.Helper()
	require.NoError(t, run.WriteJSON(leasesFile(uid), of))
	return os.Chown(leasesFile(uid), uid, -1) == nil
}
