package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/process"
)

// covers: PL-G14
func TestStart(t *testing.T) {
	self := process.Start(os.Getpid())
	require.NotEmpty(t, self)
	require.True(t, process.Runs(os.Getpid(), self))
	require.False(t, process.Runs(os.Getpid(), "another boot/1"))
	require.False(t, process.Runs(dead(t), ""), "no start is no process")
	require.Equal(t, self, process.Start(os.Getpid()), "it does not change")
	require.Empty(t, process.Start(dead(t)))
	require.Empty(t, process.Start(-1))

	// A name may hold spaces and brackets, which stand unquoted in stat.
	odd := filepath.Join(t.TempDir(), ") R 1 (")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sleep, odd))
	cmd := exec.Command(odd, "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	child := process.Start(cmd.Process.Pid)
	require.NotEmpty(t, child)
	require.Equal(t, strings.Split(self, "/")[0], strings.Split(child, "/")[0], "the same boot")
	require.NoError(t, cmd.Process.Kill())
	await.True(t, func() bool { return process.Start(cmd.Process.Pid) == "" }, "a zombie does not run")
}

// dead is the PID of a process that has ended.
func dead(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	return cmd.Process.Pid
}

// The end of a process is seen at once, also by who did not start it and while nobody has waited
// for it.
func TestEnds(t *testing.T) {
	cmd := exec.Command("sleep", "7200")
	require.NoError(t, cmd.Start())
	seen := make(chan struct{})
	go func() {
		process.Ends(time.Hour, os.Getpid(), cmd.Process.Pid)
		close(seen)
	}()
	require.NoError(t, cmd.Process.Kill())
	<-seen // the deadline of the test is the limit
	process.Ends(time.Hour, cmd.Process.Pid)
	require.Error(t, cmd.Wait())
	process.Ends(time.Hour, cmd.Process.Pid)
	process.Ends(0, os.Getpid())
	process.Ends(time.Millisecond, os.Getpid())
}
