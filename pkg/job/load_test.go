package job

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// threeLoads gives the job loads 1 (its own directory), 2 and 3; 3 begins with
// empty caches. The engine counts how often it was asked for /metrics.
func threeLoads(t *testing.T, reset int) *testJob {
	t.Helper()
	j := newJob(t)
	for _, name := range []string{"1", "2", "3"} {
		l := plan.Load{Name: name, RunID: "R." + name, Dir: j.Dir}
		if name != "1" {
			l.Dir = filepath.Join(j.Dir, "at", name)
		}
		j.plan.Loads = append(j.plan.Loads, l)
	}
	j.plan.Loads[2].Cache, j.plan.CachePath = plan.CacheReset, "/reset_prefix_cache"
	j.save(t)
	var count, resets atomic.Int32
	j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			fmt.Fprintf(w, "n %d resets %d", count.Add(1), resets.Load())
		case r.URL.Path == "/reset_prefix_cache" && r.Method == http.MethodPost:
			resets.Add(1)
			w.WriteHeader(reset)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}})
	return j
}

// Each load has counters of its own: what ends one is kept in its directory.
func TestLoads(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := threeLoads(t, http.StatusOK)
	j.grace = 100 * time.Millisecond
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	for _, name := range []string{"1", "2", "3"} {
		require.NoError(t, j.BeginLoad(t.Context(), name))
	}
	j.Stop(t.Context(), []Process{serve})
	page := func(rel, when string) string { return readFile(t, j.path(rel, "raw", MetricsFile("serve", when))) }
	require.Equal(t, []string{"n 1 resets 0", "n 2 resets 0"}, []string{page(".", "before"), page(".", "after")})
	require.Equal(t, []string{"n 3 resets 0", "n 4 resets 0"}, []string{page("at/2", "before"), page("at/2", "after")})
	require.Equal(t, []string{"n 5 resets 1", "n 6 resets 1"}, []string{page("at/3", "before"), page("at/3", "after")},
		"reset between the two")
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	var loads []string
	for _, e := range events {
		loads = append(loads, e.Event+" "+e.Load)
	}
	require.Equal(t, []string{"load-begins 1", "load-begins 2", "load-begins 3", "stopping "}, loads)
	require.ErrorContains(t, j.BeginLoad(t.Context(), "4"), `no load "4"`)
}

// Further caches are emptied where the release has them; one that fails would make a cold load warm.
func TestFurtherCaches(t *testing.T) {
	for status, ok := range map[int]bool{http.StatusOK: true, http.StatusNotFound: true, http.StatusInternalServerError: false} {
		j := threeLoads(t, http.StatusOK)
		j.plan.CacheMore = []string{"/images", "/encoded"}
		j.save(t)
		var asked []string
		j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				asked = append(asked, r.URL.Path)
			}
			if r.URL.Path == "/images" {
				w.WriteHeader(status)
			}
		}})
		err := j.BeginLoad(t.Context(), "3")
		if ok {
			require.NoError(t, err)
			require.Equal(t, []string{"/reset_prefix_cache", "/images", "/encoded"}, asked)
			continue
		}
		require.ErrorContains(t, err, "reset the other caches of serve")
		require.Equal(t, []string{"cache-kept serve"}, j.events(t))
	}
}

// A cache that is not reset would make a cold load warm.
func TestCacheIsNotReset(t *testing.T) {
	j := threeLoads(t, http.StatusNotFound)
	require.ErrorContains(t, j.BeginLoad(t.Context(), "3"), "reset the prefix cache of serve")
	require.Equal(t, []string{"cache-kept serve"}, j.events(t))
	require.NoFileExists(t, j.path("at/3/raw", MetricsFile("serve", "before")))
}

// An engine that answers 200 may not have done it.
func TestCacheResetRefused(t *testing.T) {
	for answer, reset := range map[string]bool{`{"success": false}`: false, `{"success": true}`: true, ``: true,
		"Cache flushed.\n": true} {
		j := threeLoads(t, http.StatusOK)
		j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w,
				answer)
		}})
		err := j.BeginLoad(t.Context(), "3")
		if reset {
			require.NoError(t, err, answer)
			continue
		}
		require.ErrorContains(t, err, `"success": false`)
		require.Equal(t, []string{"cache-kept serve"}, j.events(t))
	}
}

// After a requeue nothing of the earlier attempt is left, in the directories of
// loads and hooks neither; the hook can be claimed anew.
//
// covers: PL-S12
func TestSetAsideEverywhere(t *testing.T) {
	j := threeLoads(t, http.StatusOK)
	hook := &plan.Plan{Schema: plan.Schema, RunID: "H", Dir: j.path(run.PreTestDir, "h"), Job: plan.Job{Nodes: 1}}
	j.plan.PreTest = []plan.Hook{{Name: "h", Dir: hook.Dir, Plan: hook}}
	require.NoError(t, run.Fill(j.Dir, j.plan, nil, nil))
	require.NoError(t, j.Start())
	inner := &Job{Dir: hook.Dir, Env: j.Env, Stdout: &j.stdout, Stderr: &j.stderr, Now: time.Now}
	require.NoError(t, inner.Start())
	require.NoError(t, inner.Finish(0, nil, nil))
	require.NoError(t, os.WriteFile(j.path("at/2/raw/x.json"), nil, 0o644))
	require.NoError(t, os.WriteFile(j.path(run.NodesFile), []byte(j.looked(t, "n1", 0)), 0o644))

	require.NoError(t, j.Start())
	require.FileExists(t, j.path("at/2/attempts/1/raw/x.json"))
	require.NoFileExists(t, filepath.Join(hook.Dir, run.SentinelFile))
	require.FileExists(t, filepath.Join(hook.Dir, "attempts/1/finish.json"))
	require.DirExists(t, j.path("at/3/raw"))
	require.NoFileExists(t, j.path(run.NodesFile), "what other nodes said is no answer")
	require.FileExists(t, j.path("attempts/1", run.NodesFile))
	require.NoError(t, inner.Start())
	dirs, err := run.Find(j.Dir)
	require.NoError(t, err)
	require.Equal(t, []string{j.Dir}, dirs, "neither a hook nor a load is a run")
}

// TERM reaches a run inside this job before anything else does.
func TestStopEndsHooks(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := newJob(t)
	j.grace = 10 * time.Second
	p, _ := startProcess(t, "pre_test/h", "bash", "-c",
		"trap 'echo told >"+j.path("told")+"; exit 143' TERM; echo up >"+j.path("up")+"; while :; do sleep 0.02; done")
	await.File(t, j.path("up"))
	j.Stop(t.Context(), []Process{p})
	require.FileExists(t, j.path("told"))
	require.False(t, alive(p.PID))
	require.Empty(t, slurm.Calls("scancel"))
}

// A controller that lost its last seconds starts a job a second time, elsewhere,
// while the first script goes on. That one writes nothing any more, and stops
// nothing but its own srun: the steps that Slurm lists are the second's.
//
// covers: PL-D2
func TestLostRun(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	slurm.PutStep(slurmtest.Step{ID: "60.0", Name: "serve"})
	first := newJob(t)
	require.NoError(t, first.Start())
	require.NoError(t, first.event(Event{Event: AllReady}))
	second := *first.Job
	second.Env = func(name string) string {
		if name == "SLURMD_NODENAME" {
			return "n2"
		}
		return first.env[name]
	}
	require.NoError(t, second.Start())
	require.NoError(t, second.event(Event{Event: AllReady}))

	own, _ := startProcess(t, "serve", "sleep", "100")
	first.Stop(t.Context(), []Process{own})
	require.False(t, alive(own.PID))
	require.Empty(t, slurm.Calls("scancel"))
	require.ErrorContains(t, first.event(Event{Event: RoleDied}),
		"job 60 restarted this run on n2; this script, on n1, no longer owns the run")
	require.ErrorContains(t, first.Finish(143, nil, nil), "no longer owns the run")
	require.NoFileExists(t, first.path(run.SentinelFile))
	require.Equal(t, []string{AllReady}, first.events(t))
	require.NoError(t, second.Finish(0, nil, nil))

	require.NoError(t, first.Start(), "the newest has it")
	require.ErrorContains(t, second.owns(), "no longer owns the run")
}

// A task's steps are signalled by the number that scancel takes without a word.
func TestStopTask(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	slurm.PutStep(slurmtest.Step{ID: "60.0", Name: "serve", Shown: "55_3.0"})
	slurm.PutStep(slurmtest.Step{ID: "60.batch", Name: "batch", Shown: "55_3.batch"})
	// of another job, which has the id by now
	slurm.PutStep(slurmtest.Step{ID: "60.1", Name: "serve", Shown: "55_3.1", Nodes: "n[2-3]"})
	j := newJob(t)
	j.env["SLURM_ARRAY_JOB_ID"], j.env["SLURM_ARRAY_TASK_ID"] = "55", "3"
	j.grace = 10 * time.Millisecond
	j.Stop(t.Context(), nil)
	require.Equal(t, [][]string{{"--signal=TERM", "60.0"}}, slurm.Calls("scancel"))
}

// covers: CD-28
func TestUntil(t *testing.T) {
	begin := func(t *testing.T) (*testJob, Process, *exec.Cmd, []string) {
		j := newJob(t)
		p, cmd := startProcess(t, "script", "sleep", "7200")
		return j, p, cmd, []string{t.TempDir(), t.TempDir()}
	}
	end := func(t *testing.T, dir, job string) {
		require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SubmitFile), run.Submission{JobID: "7"}))
		require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), run.Sentinel{JobID: job}))
	}
	nobody := func([]string) []string { return nil }
	t.Run("all have ended", func(t *testing.T) {
		j, dirs, script := newJob(t), []string{t.TempDir(), t.TempDir()}, exec.Command("sleep", "7200")
		require.NoError(t, script.Start())
		end(t, dirs[0], "7")
		time.AfterFunc(50*time.Millisecond, func() { end(t, dirs[1], "7") })
		require.NoError(t, j.Until(t.Context(), script.Process.Pid, dirs, nobody))
		require.EqualError(t, script.Wait(), "signal: terminated")
		events, err := ReadEvents(j.Dir)
		require.NoError(t, err)
		require.True(t, EndedWithOthers(events))
		require.Contains(t, events[0].Text, dirs[1])
	})
	t.Run("a job has ended without a word", func(t *testing.T) {
		j, p, _, dirs := begin(t)
		end(t, dirs[0], "6") // an earlier job's
		var clock, asked atomic.Int64
		j.Now = func() time.Time { return time.Unix(clock.Add(31), 0) }
		require.NoError(t, j.Until(t.Context(), p.PID, dirs, func(left []string) []string {
			require.Equal(t, dirs, left)
			if asked.Add(1) < 2 {
				return nil
			}
			return left
		}))
		require.Equal(t, int64(2), asked.Load())
		await.True(t, func() bool { return !alive(p.PID) }, "process %d ends", p.PID)
	})
	t.Run("the script ends first", func(t *testing.T) {
		j, p, cmd, dirs := begin(t)
		require.NoError(t, cmd.Process.Kill())
		require.NoError(t, j.Until(t.Context(), p.PID, dirs, nobody))
		require.Empty(t, j.events(t))
	})
}
