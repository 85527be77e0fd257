package local

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/usertest"
)

// leasesIn keeps the leases of a test apart.
func leasesIn(t *testing.T) string {
	t.Helper()
	was := leasesDir
	leasesDir = t.TempDir()
	if err := os.Chmod(leasesDir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
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
	release, err := regular.Lock(t.Context(), leasesIn(t), leasesBase(os.Getuid()))
	require.NoError(t, err)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, changeLeases(ctx, func(leases) bool { return true }), "another process holds ")
}

func leasesFile(uid int) string { return filepath.Join(leasesDir, leasesBase(uid)+leasesExt) }

// another is the job of another user, of which a process lives.
func another(t *testing.T) holder {
	t.Helper()
	pid := usertest.Start(t)
	return holder{Job: newID(pid, process.Start(pid))}
}

// plant writes a file as another user would.
func plant(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o666))
	usertest.Give(t, path)
}

func marshal(t *testing.T, of leases) []byte {
	t.Helper()
	data, err := json.Marshal(of)
	require.NoError(t, err)
	return data
}

// Leases of other users count while their jobs live, and stay in their files.
func TestLeasesOfOthers(t *testing.T) {
	leasesIn(t)
	theirs := another(t)
	plant(t, leasesFile(usertest.Other), marshal(t, leases{gpuName("a"): theirs, gpuName("c"): {Job: newID(1, "gone")}}))
	ours := holder{ourselves().Job, t.TempDir()}
	require.ErrorContains(t, ours.takeOver(holder{}, []string{gpuName("a")}), "is now used")
	require.NoError(t, ours.takeOver(holder{}, []string{gpuName("b"), gpuName("c")}))
	require.Empty(t, Ignored())
	var of leases
	require.NoError(t, run.ReadJSON(leasesFile(os.Getuid()), &of))
	require.Equal(t, leases{gpuName("b"): ours, gpuName("c"): ours}, of)
}

// Another user who writes at the same time is seen by one of the two at least.
func TestLeasesWrittenMeanwhile(t *testing.T) {
	leasesIn(t)
	theirs := another(t)
	ours, tries := ourselves(), 0
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		if tries++; tries == 1 {
			plant(t, leasesFile(usertest.Other), marshal(t, leases{gpuName("a"): theirs}))
		} else if of[gpuName("a")] == theirs {
			return false
		}
		of[gpuName("a")], of[gpuName("b")] = ours, ours
		return true
	}))
	require.Equal(t, 2, tries)
	require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
		require.Equal(t, leases{gpuName("a"): theirs}, of)
		return false
	}))
}

// Whatever another user puts into the shared folder, this user gets the leases, and is told of it. The
// other user can make this one wait only by jobs of their own.
func TestLeasesPlanted(t *testing.T) {
	want := []string{gpuName("a"), gpuName("b")}
	first := newID(1, process.Start(1))
	for what, attack := range map[string]struct {
		plant func(t *testing.T, dir string)
		note  string
	}{
		"the file of this user": {func(t *testing.T, dir string) {
			plant(t, leasesFile(os.Getuid()), []byte("{}"))
		}, ""},
		"a link in its place": {func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc/passwd", leasesFile(os.Getuid())))
			usertest.Give(t, leasesFile(os.Getuid()))
		}, ""},
		"the lock": {func(t *testing.T, dir string) {
			plant(t, filepath.Join(dir, leasesBase(os.Getuid())+".lock"), nil)
		}, ""},
		"leases of process 1": {func(t *testing.T, dir string) {
			plant(t, leasesFile(usertest.Other), marshal(t, leases{want[0]: {Job: first}, want[1]: {Job: first}}))
		}, "1 of its jobs are processes of other users"},
		"leases in the name of a third user": {func(t *testing.T, dir string) {
			plant(t, leasesFile(777), marshal(t, leases{want[0]: another(t)}))
		}, "belongs to user 12345, not to user 777"},
		"53 MB": {func(t *testing.T, dir string) {
			plant(t, leasesFile(usertest.Other), bytes.Repeat([]byte(" "), 53<<20))
		}, "too large"},
		"no JSON":      {func(t *testing.T, dir string) { plant(t, leasesFile(usertest.Other), []byte("x")) }, "invalid character"},
		"not a number": {func(t *testing.T, dir string) { plant(t, filepath.Join(dir, "profllm-leases-x.json"), nil) }, "names no user"},
		"a pipe": {func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(leasesFile(usertest.Other), 0o666))
			usertest.Give(t, leasesFile(usertest.Other))
		}, "not a regular file"},
		"a folder": {func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(leasesFile(usertest.Other), 0o755)) }, "not a regular file"},
		"a turn without an end": {func(t *testing.T, dir string) {
			name := turn{math.MaxInt, 1, []string{"a"}}.name()
			plant(t, leasesFile(usertest.Other), marshal(t, leases{name: another(t)}))
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			dir := leasesIn(t)
			usertest.Need(t)
			attack.plant(t, dir)
			ours := holder{ourselves().Job, t.TempDir()}
			require.NoError(t, ours.takeOver(holder{}, want))
			require.NoError(t, changeLeases(t.Context(), func(of leases) bool {
				require.Equal(t, ours, of[want[0]])
				require.Equal(t, 1, of.nextTurn(request{count: 1}, machineOf(1)).number)
				return false
			}))
			var notes []string
			for _, err := range Ignored() {
				notes = append(notes, err.Error())
			}
			require.Contains(t, strings.Join(notes, "\n"), attack.note)
			require.Equal(t, attack.note != "", len(notes) > 0, notes)
		})
	}
}
