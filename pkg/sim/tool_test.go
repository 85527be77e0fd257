package sim

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

func runTool(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), program.Process{Args: args, Env: func(name string) string { return env[name] },
		Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// Every stand-in says that it is one, and gives no number that could be taken
// for a measurement.
func TestToolsSayThatTheyAreSimulated(t *testing.T) {
	for _, c := range []struct {
		args    []string
		success string
	}{
		{[]string{"all_reduce_perf_mpi", "--ngpus", "1"}, `^# Avg bus bandwidth +: +0$`},
		{[]string{"/usr/local/bin/scatter_perf", "--ngpus", "1"}, `^# Avg bus bandwidth +: +0$`},
		{[]string{"fio", "--name=x"}, `IOPS=0,.*BW=0`},
		{[]string{"/opt/fio-patched/fio-3.99", "job.fio"}, `IOPS=0,.*BW=0`},
		{[]string{"/opt/hpcx/ucc/bin/ucc_perftest", "-c", "alltoall"}, `no collective ran`},
	} {
		code, out, stderr := runTool(t, nil, c.args...)
		require.Zero(t, code, stderr)
		require.True(t, strings.HasPrefix(out, "profllm sim: "), out)
		require.Contains(t, out, "every number below is made up")
		require.Contains(t, out, strings.Join(c.args[1:], " "), "the arguments are shown")
		matched := false
		for _, line := range strings.Split(out, "\n") {
			matched = matched || regexp.MustCompile(c.success).MatchString(line)
		}
		require.True(t, matched, out)

		code, out, _ = runTool(t, map[string]string{"SLURM_PROCID": "1"}, c.args...)
		require.Zero(t, code)
		require.Empty(t, out, "the first rank speaks")
	}
	code, _, stderr := runTool(t, nil, "nccl")
	require.Equal(t, program.Missing, code)
	require.Contains(t, stderr, `"nccl" is not simulated`)
}

// Text for an image is parsed on a machine that is not that image, and never run.
func TestShellTextIsNotRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	code, out, _ := runTool(t, nil, "bash", "-c", "touch "+file+`; f() { echo "$@"; }; f`, "bash", "--a", "b")
	require.Zero(t, code)
	require.Contains(t, out, "profllm sim: parsed by bash, not run: touch "+file)
	_, err := os.Stat(file)
	require.ErrorIs(t, err, os.ErrNotExist)

	code, _, stderr := runTool(t, nil, "bash", "-c", "if true; then echo")
	require.Equal(t, program.Usage, code)
	require.Contains(t, stderr, "syntax error")

	for _, args := range [][]string{{"bash"}, {"bash", "-c"}, {"bash", "script.sh"}} {
		code, _, stderr = runTool(t, nil, args...)
		require.Equal(t, program.Usage, code)
		require.Contains(t, stderr, "bash -c TEXT only")
	}
}
