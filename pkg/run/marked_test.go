package run_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/run"
)

// A process is known by a whole variable, wherever it stands in the environment.
func TestMarked(t *testing.T) {
	mark := "PROFLLM_TEST_MARK=" + t.TempDir()
	var want []int
	for _, env := range [][]string{{mark}, {mark, "B=2"}, {"A=1", mark}, {mark + "2"}, {"X" + mark}, {"A=" + mark}} {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Env = env
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		if len(want) < 3 {
			want = append(want, cmd.Process.Pid)
		}
	}
	require.ElementsMatch(t, want, run.Marked(mark))
}
