package capture

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutput(t *testing.T) {
	o := Output{Most: 4}
	for _, part := range []string{"ab", "", "cd"} {
		n, err := o.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.NoError(t, o.Err())
	n, err := o.Write([]byte("efg"))
	require.NoError(t, err)
	require.Equal(t, 3, n, "the program goes on")
	require.Equal(t, "abcd", o.String())
	require.Error(t, o.Err())
}

func TestTail(t *testing.T) {
	tail := Tail{Most: 4}
	all := ""
	for _, part := range []string{"ab", "", "c", "defghijklmnop", "q", "rs", "t", "u", "v"} {
		n, err := tail.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
		all += part
		require.Equal(t, all[max(0, len(all)-4):], tail.String())
		require.LessOrEqual(t, len(tail.kept), 12)
	}
}

// A program that prints for ever is bounded by its time, not by this machine's memory.
func TestRun(t *testing.T) {
	out, err := Run(exec.Command("echo", "a"))
	require.NoError(t, err)
	require.Equal(t, "a\n", string(out))
	_, err = Run(exec.Command("sh", "-c", "echo no >&2; exit 3"))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, "no\n", string(exit.Stderr))
	out, err = Run(exec.Command("sh", "-c", "yes | head -c 70000000"))
	require.ErrorContains(t, err, "longer than 64 MiB")
	require.Len(t, out, Answer)
	_, err = Run(exec.Command("sh", "-c", "yes | head -c 70000 >&2; exit 1"))
	require.ErrorAs(t, err, &exit)
	require.Len(t, exit.Stderr, Complaint)
	require.True(t, strings.HasPrefix(string(exit.Stderr), "y\n"))
}
