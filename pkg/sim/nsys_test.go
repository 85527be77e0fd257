package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

func TestNsys(t *testing.T) {
	dir := t.TempDir()
	profile := func(ctx context.Context, args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Main(ctx, program.Process{Args: append([]string{"nsys"}, args...),
			Env: env(map[string]string{"RANK": "1"}), Environ: os.Environ(), Stdout: &out, Stderr: &errs})
		return code, out.String() + errs.String()
	}
	report := func(name string) (r nsysWritten) {
		data, err := os.ReadFile(filepath.Join(dir, name+".nsys-rep"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r))
		require.True(t, r.Simulated)
		require.Equal(t, program.Version, r.By)
		return r
	}
	code, out := profile(t.Context(), "profile", "-s", "none", "-o", filepath.Join(dir, "a-%q{RANK}"), "-t", "cuda",
		"--force-overwrite=true", "--flag", "sh", "-c", "echo said; exit 4", "-x")
	require.Equal(t, 4, code)
	require.Contains(t, out, "said\n")
	require.Contains(t, out, "no trace")
	require.Equal(t, []string{"sh", "-c", "echo said; exit 4", "-x"}, report("a-1").Command)
	require.Equal(t, 4, report("a-1").Exit)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	up := filepath.Join(dir, "up")
	go func() {
		code, _ := profile(ctx, "profile", "--output="+filepath.Join(dir, "b"), "sh", "-c",
			`trap "exit 7" TERM; echo >"$0"; while :; do sleep 0.02; done`, up)
		done <- code
	}()
	await.File(t, up)
	cancel()
	require.Equal(t, 7, <-done)
	require.Equal(t, 7, report("b").Exit, "TERM is passed on, and the report is written")

	for want, args := range map[string][]string{
		"want profile": {"stats", "x"}, "no command": {"profile", "-o", "x"}, "not found": {"profile", "-o", filepath.Join(dir, "c"), "no-such-program"},
	} {
		code, out := profile(t.Context(), args...)
		require.NotZero(t, code)
		require.Contains(t, out, want)
	}
}

// With a capture range by the CUDA profiler, a report is there only if a server opened the range:
// one for each range, if the option says so.
func TestNsysCaptureRange(t *testing.T) {
	for name, c := range map[string]struct {
		options, command string
		want             []string
	}{
		"never opened": {"", "true", nil},
		"opened twice": {"", `for i in 1 2; do echo range >>"$` + engine.RangesVar + `"; done`, []string{"a.nsys-rep"}},
		"repeated": {"--capture-range-end=repeat:9", `for i in 1 2; do echo range >>"$` + engine.RangesVar + `"; done`,
			[]string{"a.1.nsys-rep", "a.2.nsys-rep"}},
	} {
		dir := t.TempDir()
		var out, errs bytes.Buffer
		args := []string{"nsys", "profile", "-o", filepath.Join(dir, "a"), "--capture-range=cudaProfilerApi"}
		if c.options != "" {
			args = append(args, c.options)
		}
		code := Main(t.Context(), program.Process{Args: append(args, "sh", "-c", c.command), Env: env(nil),
			Environ: os.Environ(), Stdout: &out, Stderr: &errs})
		require.Zero(t, code, errs.String())
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		var names []string
		for _, f := range files {
			names = append(names, filepath.Base(f))
		}
		require.Equal(t, c.want, names, name)
		require.Equal(t, c.want == nil, strings.Contains(out.String(), "no report"), out.String())
	}
}

// nsysWritten is what of a report is looked at.
type nsysWritten struct {
	Simulated bool
	By        string
	Command   []string
	Exit      int
}

func TestVizTracer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.json")
	var out, errs bytes.Buffer
	p := program.Process{Args: []string{"viztracer", "--quiet", "-o", file, "--", "sh", "-c", "echo said; exit 4"},
		Env: env(nil), Environ: os.Environ(), Stdout: &out, Stderr: &errs}
	require.Equal(t, 4, Main(t.Context(), p), errs.String())
	require.Equal(t, "said\n", out.String())
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var trace struct {
		Simulated bool
		Command   []string
		Events    []any `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(data, &trace))
	require.True(t, trace.Simulated)
	require.Equal(t, []string{"sh", "-c", "echo said; exit 4"}, trace.Command)
	require.Len(t, trace.Events, 1)
	p.Args = []string{"viztracer", "vllm", "serve"}
	require.Equal(t, program.Usage, Main(t.Context(), p))
}
