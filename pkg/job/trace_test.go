package job

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
)

// tracedJob has two engines that write a trace each time their profiler stops, and one whose
// server has no profiler.
func tracedJob(t *testing.T) *testJob {
	t.Helper()
	j := newJob(t)
	engine := func(name string) plan.Role {
		r := *j.plan.Role("serve")
		r.Name, r.Health.Port, r.TraceDir = name, name, "raw/torch/"+name
		return r
	}
	j.plan.Roles = []plan.Role{engine("a"), engine("b"), engine("none")}
	for _, name := range []string{"1", "2"} {
		j.plan.Loads = append(j.plan.Loads, plan.Load{Name: name, RunID: "R." + name, Dir: j.path("at", name),
			Clients: []plan.Step{{Name: "bench"}, {Name: "eval"}}})
	}
	j.plan.Tracing = &plan.Tracing{Start: "/start", Stop: "/stop", Limit: plan.Seconds(time.Minute)}
	j.save(t)
	handlers := map[string]http.HandlerFunc{"none": http.NotFound}
	for _, name := range []string{"a", "b"} {
		started := 0
		handlers[name] = func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodPost:
				w.WriteHeader(http.StatusMethodNotAllowed)
			case r.URL.Path == "/start":
				started++
			case r.URL.Path == "/stop":
				file := j.path("raw/torch", name, "rank0."+string(rune('0'+started))+".pt.trace.json.gz")
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte("x"), 0o644))
			}
		}
	}
	j.serve(t, handlers)
	return j
}

// The profiler of every engine runs for as long as the client that measures, and each trace
// belongs to the load that left it.
//
// covers: PRF-6, LBEN-4
func TestTraces(t *testing.T) {
	j := tracedJob(t)
	for _, name := range []string{"1", "2"} {
		require.NoError(t, j.startTraces(t.Context(), j.plan, name))
		w := watch{job: j.Job, plan: j.plan, lost: map[string]bool{}}
		require.NoError(t, w.stopTraces(t.Context(), name+"/eval"))
		require.NoError(t, w.stopTraces(t.Context(), name+"/bench"))
	}
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	var written, others []string
	for _, e := range events {
		if e.Event == TraceWritten {
			written = append(written, e.Load+" "+e.Role+" "+e.File)
			continue
		}
		others = append(others, e.Load+" "+e.Event+" "+e.Role)
	}
	require.Equal(t, []string{"1 a raw/torch/a/rank0.1.pt.trace.json.gz", "1 b raw/torch/b/rank0.1.pt.trace.json.gz",
		"2 a raw/torch/a/rank0.2.pt.trace.json.gz", "2 b raw/torch/b/rank0.2.pt.trace.json.gz"}, written)
	require.Equal(t, []string{"1 trace-failed none", "1 trace-started ", "1 trace-stopping ", "1 trace-failed none",
		"1 trace-stopped "}, others[:5])
}

// A job that ends during a load has the profilers write their traces before any server is told to
// end, and once only: the client that ends with the job does not stop them again. A stop that has
// begun is waited for.
//
// covers: SIG-5
func TestStopDuringTraces(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := tracedJob(t)
	j.grace = time.Hour
	require.NoError(t, j.startTraces(t.Context(), j.plan, "1"))
	var procs []Process
	for i, name := range []string{"a", "b"} {
		procs = append(procs, engine(t, name, j.path("terms"), true))
		slurm.PutStep(slurmtest.Step{ID: fmt.Sprintf("60.%d", i), Name: name, PID: procs[i].PID})
	}
	j.Stop(t.Context(), procs)
	w := watch{job: j.Job, plan: j.plan, lost: map[string]bool{}}
	require.NoError(t, w.stopTraces(t.Context(), "1/bench"))
	require.Equal(t, []string{"trace-failed none", "trace-started", "trace-stopping", "trace-failed none",
		"trace-written a", "trace-written b", "trace-stopped", "stopping"}, j.events(t))
	require.Len(t, slurm.Calls("scancel"), 1)

	require.NoError(t, j.event(Event{Event: TraceStarted, Load: "2"}))
	require.NoError(t, j.event(Event{Event: TraceStopping, Load: "2"}))
	ended := make(chan struct{})
	go func() { j.endTraces(t.Context()); close(ended) }()
	require.NoError(t, j.event(Event{Event: TraceStopped, Load: "2"}))
	<-ended
	require.Len(t, j.events(t), 11, "nothing was stopped again")
}

// A server that is told to end while its profiler runs waits until the job has stopped the
// profiler, and no longer than its limit.
//
// covers: SIG-5
func TestServerAwaitsTraceEnd(t *testing.T) {
	j := newJob(t)
	j.awaitTraceEnd(time.Hour) // no profiler was started
	require.NoError(t, j.event(Event{Event: TraceStarted}))
	j.awaitTraceEnd(10 * time.Millisecond)
	for _, last := range []string{TraceStopped, Stopping} {
		require.NoError(t, j.event(Event{Event: TraceStarted}))
		waited := make(chan bool, 1)
		go func() {
			j.awaitTraceEnd(time.Hour)
			_, at := j.tracing()
			waited <- at == TraceStopped || last == Stopping
		}()
		require.NoError(t, j.event(Event{Event: last}))
		require.True(t, <-waited, last)
	}
}

// A load without a profiler asks nobody.
func TestNoTraces(t *testing.T) {
	j := tracedJob(t)
	j.plan.Tracing = nil
	w := watch{job: j.Job, plan: j.plan}
	require.NoError(t, j.startTraces(t.Context(), j.plan, "1"))
	require.NoError(t, w.stopTraces(t.Context(), "1/bench"))
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	require.Empty(t, events)
}
