package main

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/result"
)

// eventNames lists the events of a run, in order.
func eventNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	events, err := job.ReadEvents(dir)
	require.NoError(t, err)
	for _, e := range events {
		names = append(names, e.Event)
	}
	return names
}

// A run that is interrupted during a profiled load has its traces: the profilers are stopped before
// any server is.
//
// covers: SIG-5
func TestInterruptedLoadIsTraced(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), machine(t, 2)
	here(t, dir, "cmd_args.decode.tensor_parallel_size = 2\ntorch_profiler = {}")
	cmd := command(dir, append(env, "PROFLLM_SIM_TTFT=1h"), "run", "--simulate", "s.toml")
	require.NoError(t, cmd.Start())
	begun := func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "results", "*", "*", "0", "events.jsonl"))
		return len(found) == 1 && slices.Contains(eventNames(t, filepath.Dir(found[0])), "load-begins")
	}
	await.True(t, begun, "the load begins")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	cmd.Wait()
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
	d := only(t, dir)
	events := eventNames(t, d)
	stopped, stopping := slices.Index(events, "trace-stopped"), slices.Index(events, "stopping")
	require.Positive(t, stopped, events)
	require.Less(t, stopped, stopping, events)
	r := readResult(t, d)
	require.Equal(t, result.Cancelled, r.Status)
	require.Len(t, r.Profiling.Traces, 3, "two workers and the front end")
	require.NotEmpty(t, traceEvents(t, filepath.Join(d, r.Profiling.Traces[0].Path)))
}

// What was measured is in the run before the servers are stopped, and what profilers write while
// they are stopped is in the record.
//
// covers: SIG-8
func TestResultsAroundTheTeardown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.toml"), []byte(`name = "around"
[[Tests]]
id = "a"
test_template_name = "vllm"
bench_cmd_args = { num_prompts = 4, random_output_len = 4 }
nsys = {}
`), 0o644))
	o := profllm(t, dir, []string{"PROFLLM_SIM_STARTUP=50ms"}, "rehearse", "s.toml")
	require.Equal(t, exitOK, o.code, o.stderr)
	d := only(t, dir)
	events, err := job.ReadEvents(d)
	require.NoError(t, err)
	at := slices.IndexFunc(events, func(e job.Event) bool { return e.Event == job.Stopping })
	require.Positive(t, at)
	changed := func(name string) time.Time {
		info, err := os.Stat(name)
		require.NoError(t, err)
		return info.ModTime()
	}
	for _, name := range []string{"vllm-bench.json", job.MetricsFile("serve", job.After)} {
		require.False(t, changed(filepath.Join(d, "raw", name)).After(events[at].Time), name)
	}
	const tick = 20 * time.Millisecond // of the clock of files
	report := nsysReports(t, d, "serve", 0)[0]
	require.True(t, changed(report).Add(tick).After(events[at].Time))
	r := readResult(t, d)
	require.True(t, r.Validity.Valid)
	require.Equal(t, "raw/"+filepath.Base(report), r.Profiling.Traces[0].Path)
}
