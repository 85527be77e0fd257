package job

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
