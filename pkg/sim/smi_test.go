package sim

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/sim/program"
)

func runSMI(t *testing.T, ctx context.Context, vars map[string]string, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(ctx, program.Process{Args: append([]string{"nvidia-smi"}, args...), Env: env(vars), Stdout: &stdout,
		Stderr: &stderr})
	return code, stdout.String() + stderr.String()
}

const csvOnly = "--format=csv,noheader,nounits"

func TestSMI(t *testing.T) {
	vars := map[string]string{"PROFLLM_SIM_GPUS": "2", "SLURMD_NODENAME": "n1",
		"PROFLLM_SIM_FAULTS": "serve:hang;gpu:use=1/0,driver=n1/580.1"}
	code, out := runSMI(t, t.Context(), vars, "--query-gpu=index,uuid,name,driver_version,memory.total,memory.used",
		csvOnly)
	require.Zero(t, code)
	require.Equal(t, "0, GPU-sim-n1-0, profllm sim GPU, 580.1, 81559, 1024\n1, GPU-sim-n1-1, profllm sim GPU, 580.1, 81559, 1024\n", out)
	code, out = runSMI(t, t.Context(), vars,
		"--query-gpu=index,utilization.gpu,power.draw,clocks.sm,clocks_event_reasons.active", csvOnly)
	require.Zero(t, code)
	require.Equal(t, "0, 95, 400, 1980, 0x0000000000000000\n1, 0, 70, 345, 0x0000000000000001\n", out)
	code, out = runSMI(t, t.Context(), vars, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", csvOnly)
	require.Zero(t, code)
	require.Empty(t, out)
	code, out = runSMI(t, t.Context(), vars, "--query-gpu=index,power.drow", csvOnly)
	require.Equal(t, 2, code)
	require.Equal(t, "Field \"power.drow\" is not a valid field to query.\n", out)
	code, out = runSMI(t, t.Context(), nil, "--query-gpu=index", csvOnly)
	require.Equal(t, 6, code)
	require.Equal(t, "No devices were found\n", out)
}

// lines is what a program prints until there are n lines of it.
type lines struct {
	bytes.Buffer
	n    int
	full func()
}

func (l *lines) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	if bytes.Count(l.Bytes(), []byte("\n")) >= l.n {
		l.full()
	}
	return n, err
}

func TestSMIAgainAndAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	enough := &lines{n: 6, full: cancel}
	Main(ctx, program.Process{
		Args: []string{"nvidia-smi", "--query-gpu=clocks_event_reasons.active", csvOnly, "-lms", "10"}, Stdout: enough,
		Stderr: enough,
		Env:    env(map[string]string{"PROFLLM_SIM_GPUS": "1", "PROFLLM_SIM_FAULTS": "gpu:skip=0.25,heat=0/0.5"}),
	})
	looks := strings.Fields(enough.String())
	require.Equal(t, []string{"0x0000000000000000", "0x0000000000000040", "0x0000000000000000", "0x0000000000000000",
		"0x0000000000000040", "0x0000000000000000"}, looks[:6],
		"every second one is hot, every fourth one is left out")
}

func TestSMIMistakes(t *testing.T) {
	for _, c := range []struct{ gpus, faults, arg, want string }{
		{"2", "", "-q", "nvidia-smi -q is not simulated"},
		{"2", "", csvOnly, "is simulated with --query-gpu"},
		{"two", "", "--query-gpu=index", `PROFLLM_SIM_GPUS="two": want a whole number from 1 to 64`},
		{"2", "gpu:use=1", "--query-gpu=index", `use="1": want GPU/NUMBER, such as 0/50, the number from 0 to 100`},
		{"2", "gpu:heat=1/2", "--query-gpu=index", "the number from 0 to 1"},
		{"2", "gpu:clock=-1/2", "--query-gpu=index", "want GPU/NUMBER"},
		{"2", "gpu:skip=2", "--query-gpu=index", "want a number from 0 to 1"},
		{"2", "gpu:driver=580", "--query-gpu=index", "want HOST/VERSION"},
	} {
		code, out := runSMI(t, t.Context(),
			map[string]string{"PROFLLM_SIM_GPUS": c.gpus, "PROFLLM_SIM_FAULTS": c.faults}, c.arg)
		require.Equal(t, 2, code)
		require.Contains(t, out, c.want)
	}
}
