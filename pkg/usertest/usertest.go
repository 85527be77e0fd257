// Package usertest acts as another user of the machine, as tests of shared folders need.
package usertest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other is the number of that user. No machine has an account of it.
const Other = 12345

// Need skips a test that acts as another user where this one cannot. CI runs as root, which can.
func Need(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("it acts as another user, which only root can: .ci/run does")
	}
}

// Give gives a file to the other user.
func Give(t *testing.T, path string) {
	t.Helper()
	Need(t)
	require.NoError(t, os.Lchown(path, Other, Other))
}

// Start starts a process of the other user, which ends with the test, and returns its PID.
func Start(t *testing.T) int {
	t.Helper()
	Need(t)
	cmd := exec.Command("sleep", "600")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Other, Gid: Other}}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() //nolint:errcheck // it was killed
	})
	return cmd.Process.Pid
}
