package job

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// replicated makes two instances of the serving role, with counters.
func replicated(t *testing.T) *testJob {
	t.Helper()
	j := newJob(t)
	serve := j.plan.Roles[0]
	for i := range 2 {
		name := "serve_" + strconv.Itoa(i)
		r := serve
		r.Name, r.Kind, r.Replica, r.Health.Port = name, "serve", i, name
		j.plan.Roles = append(j.plan.Roles, r)
	}
	j.plan.Roles = j.plan.Roles[1:]
	j.save(t)
	j.serve(t, map[string]http.HandlerFunc{"serve_0": answer, "serve_1": answer, "proxy": answer})
	return j
}

// One of two instances may end: the client goes on, and so does the next one.
//
// covers: PL-D8
func TestWatchReplicas(t *testing.T) {
	j := replicated(t)
	one, cmd := startProcess(t, "serve_0", "sleep", "7200")
	two, other := startProcess(t, "serve_1", "sleep", "7200")
	proxy, _ := startProcess(t, "proxy", "sleep", "7200")
	procs := []Process{one, two, proxy}
	client, bench := startProcess(t, "bench", "sleep", "7200")
	watched := make(chan error, 1)
	go func() { watched <- j.Watch(t.Context(), "bench", client.PID, procs) }()
	require.NoError(t, cmd.Process.Kill())
	await.File(t, j.path("raw", MetricsFile("serve_1", Died)))
	require.NoError(t, bench.Process.Kill())
	require.NoError(t, <-watched)
	require.Equal(t, []string{"client-begins", "role-died serve_0", "client-ended"}, j.events(t))
	require.Equal(t, "up 1\n", readFile(t, j.path("raw", MetricsFile("serve_1", Ended))))
	require.NoFileExists(t, j.path("raw", MetricsFile("serve_0", Died)), "nobody asks the dead")

	eval, _ := startProcess(t, "eval", "true")
	require.NoError(t, j.Watch(t.Context(), "eval", eval.PID, procs))
	require.Equal(t, []string{"client-begins", "client-ended"}, j.events(t)[3:], "it is recorded once")

	require.NoError(t, other.Process.Kill())
	client, _ = startProcess(t, "again", "sleep", "7200")
	require.ErrorContains(t, j.Watch(t.Context(), "again", client.PID, procs), "serve_1 ended while a client ran",
		"the last of its kind")
}

// covers: PL-D8
func TestWatchTheOnlyProxy(t *testing.T) {
	j := replicated(t)
	one, _ := startProcess(t, "serve_0", "sleep", "7200")
	two, _ := startProcess(t, "serve_1", "sleep", "7200")
	proxy, cmd := startProcess(t, "proxy", "sleep", "7200")
	require.NoError(t, cmd.Process.Kill())
	client, _ := startProcess(t, "bench", "sleep", "0.3")
	require.ErrorContains(t, j.Watch(t.Context(), "bench", client.PID, []Process{one, two, proxy}),
		"proxy ended while a client ran")
}

// A stand-in profiler that is ended by TERM leaves no report; told through
// RunProfiled, its server ends first and the report is there.
func TestRunProfiled(t *testing.T) {
	j := newJob(t)
	log, err := os.Create(j.path("log")) // a file, as the step's: the profiler writes to it too
	require.NoError(t, err)
	defer log.Close()
	j.Stdout, j.Stderr = log, log
	report := j.path("report")
	profiler := `trap 'exit 9' TERM; env ` + plan.ProfiledVar +
		`=R/serve sh -c 'trap "exit 0" TERM; sleep 0.01 & echo up >"$0.up"; while :; do sleep 0.02; done' "$0"; echo whole >"$0"; exit 3`
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		code int
		err  error
	}
	done := make(chan end, 1)
	go func() {
		code, err := j.RunProfiled(ctx, "R/serve", []string{"sh", "-c", profiler, report}, os.Environ())
		done <- end{code, err}
	}()
	await.File(t, report+".up")
	require.Empty(t, profiled("R/other"))
	require.Len(t, profiled("R/serve"), 1, "the server, not what it started")
	cancel()
	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, 3, got.code)
	require.Equal(t, "whole\n", readFile(t, report))

	code, err := j.RunProfiled(t.Context(), "R/x", []string{"/no/such/nsys"}, os.Environ())
	require.Error(t, err)
	require.Equal(t, 127, code)
	code, err = j.RunProfiled(t.Context(), "R/x", []string{"sh", "-c", "exit 5"}, os.Environ())
	require.NoError(t, err)
	require.Equal(t, 5, code)
	code, err = j.RunProfiled(t.Context(), "R/x", []string{"sh", "-c", "kill -SEGV $$"}, os.Environ())
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGSEGV), code)

	ended, stop := context.WithCancel(t.Context())
	stop()
	code, err = j.RunProfiled(ended, "R/never", []string{"sleep", "7200"}, os.Environ())
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGTERM), code, "without a server the profiler itself is ended")
	require.Contains(t, readFile(t, log.Name()), "sent TERM to 1 processes")
	require.Contains(t, readFile(t, log.Name()), "sent TERM to 0 processes")
}

// A server that does not end costs no report: the profiler is told to end the recording by INT.
// A profiler that does not end either is killed.
//
// covers: SIG-5
func TestRunProfiledHung(t *testing.T) {
	j := newJob(t)
	j.grace = 300 * time.Millisecond
	const server = `env ` + plan.ProfiledVar + `=R/serve sh -c 'trap "" TERM; echo up >"$0.up"; exec sleep 7200' "$0" & `
	for name, c := range map[string]struct {
		profiler string
		written  bool
	}{
		"INT":  {`trap 'echo whole >"$0"; kill -KILL $!; exit 3' INT; ` + server + `wait; wait`, true},
		"KILL": {`trap 'kill -KILL $!' EXIT; trap "" INT; ` + server + `wait; wait`, false},
	} {
		report := j.path(name)
		log, err := os.Create(report + ".log")
		require.NoError(t, err)
		defer log.Close()
		j.Stdout, j.Stderr = log, log
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		go func() {
			code, err := j.RunProfiled(ctx, "R/serve", []string{"bash", "-c", c.profiler, report}, os.Environ())
			require.NoError(t, err)
			done <- code
		}()
		await.File(t, report+".up")
		cancel()
		code := <-done
		_, err = os.Stat(report)
		require.Equal(t, c.written, err == nil, name)
		require.Equal(t, map[bool]int{true: 3, false: run.Terminated}[c.written], code)
		for _, pid := range profiled("R/serve") {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
}

// A task that is not among the profiled ranks becomes the server itself.
//
// covers: PRF-10
func TestUnprofiled(t *testing.T) {
	j := newJob(t)
	command := []string{"nsys", "profile", "-o", "x", "env", plan.ProfiledVar + "=R/serve", "vllm", "serve"}
	j.env["SLURM_PROCID"] = "1"
	require.Equal(t, []string{"vllm", "serve"}, j.Unprofiled([]int{0, 2}, "R/serve", command))
	require.Nil(t, j.Unprofiled([]int{1}, "R/serve", command))
	require.Nil(t, j.Unprofiled(nil, "R/serve", command), "all are profiled")
}

func TestTermWait(t *testing.T) {
	j := newJob(t)
	require.Equal(t, termWait, j.termWait())
	j.plan.Roles[0].Report = "raw/x"
	data, err := j.plan.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(j.path("plan.json"), data, 0o644))
	require.Equal(t, plan.ReportWait, j.termWait())
	require.True(t, strings.HasPrefix(MetricsFile("a", Before), "metrics-a-before"))
}

// A role whose srun does not know yet that it is gone is seen by its port when the
// client has ended.
//
// covers: PL-D8
func TestWatchFindsWhatNobodyServes(t *testing.T) {
	j := newJob(t)
	j.serve(t, map[string]http.HandlerFunc{"proxy": answer}) // nobody at serve's port
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	proxy, _ := startProcess(t, "proxy", "sleep", "7200")
	client, _ := startProcess(t, "bench", "true")
	require.ErrorContains(t, j.Watch(t.Context(), "bench", client.PID, []Process{serve, proxy}),
		"serve ended while a client ran")
	require.Equal(t, []string{"client-begins", "role-died serve"}, j.events(t))
}
