package job

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// serve makes the placement: each role's port is that of a server.
func (j *testJob) serve(t *testing.T, handlers map[string]http.HandlerFunc) {
	t.Helper()
	place := run.Placement{JobID: "60",
		Nodes: []run.Node{{Host: "n1", Addr: "127.0.0.1"}, {Host: "n2", Addr: "127.0.0.1"}},
		Ports: map[string]int{"serve": 1, "proxy": 1}}
	for role, h := range handlers {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		place.Ports[role], err = strconv.Atoi(u.Port())
		require.NoError(t, err)
	}
	require.NoError(t, run.WriteJSON(j.path(run.PlacementFile), place))
}

func answer(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "up 1\n") }

// covers: PL-D25
func TestWaitReady(t *testing.T) {
	j := newJob(t)
	var asked atomic.Int32
	j.serve(t, map[string]http.HandlerFunc{
		"serve": func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/metrics":
				fmt.Fprintf(w, "vllm:x_total 1\n")
			case r.URL.Path != "/health", asked.Add(1) < 3:
				http.Error(w, "loading", http.StatusServiceUnavailable)
			}
		},
		"proxy": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthcheck" {
				t.Errorf("the proxy is asked for %s", r.URL.Path)
			}
		},
	})
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	proxy, _ := startProcess(t, "proxy", "sleep", "7200")
	other, _ := startProcess(t, "not-in-the-plan", "sleep", "7200")
	require.NoError(t, j.Wait(t.Context(), []Process{serve, proxy, other}))
	require.GreaterOrEqual(t, asked.Load(), int32(3))
	require.ElementsMatch(t, []string{"role-ready serve", "role-ready proxy", "all-ready"}, j.events(t))
	require.Equal(t, "all-ready", j.events(t)[2])
	require.Equal(t, "vllm:x_total 1\n", readFile(t, j.path("raw", MetricsFile("serve", "before"))))
	require.NoFileExists(t, j.path("raw", MetricsFile("proxy", "before")), "no engine")
}

// A role is asked no more often than its test says, and for no longer than that.
//
// covers: HLT-2
func TestWaitPolls(t *testing.T) {
	j := newJob(t)
	j.plan.Roles = j.plan.Roles[:1]
	j.plan.Roles[0].Timeout, j.plan.Roles[0].Poll = plan.Seconds(3*poll), plan.Seconds(time.Hour)
	j.save(t)
	var asked atomic.Int32
	j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "loading", http.StatusServiceUnavailable)
	}})
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	require.ErrorContains(t, j.Wait(t.Context(), []Process{serve}), "serve did not answer")
	require.LessOrEqual(t, asked.Load(), int32(1))
	require.Equal(t, []string{"not-ready serve"}, j.events(t))
}

// A dead role is seen although another one's server accepts and says nothing.
//
// covers: PL-D8, PL-D26
func TestWaitDeadRole(t *testing.T) {
	j := newJob(t)
	var answeredFirst atomic.Bool
	hanging := make(chan struct{})
	j.serve(t, map[string]http.HandlerFunc{"serve": func(w http.ResponseWriter, r *http.Request) {
		select {
		case hanging <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done() // the client gave up
		if events, _ := ReadEvents(j.Dir); len(events) == 0 {
			answeredFirst.Store(true)
		}
	}})
	var log strings.Builder
	for i := range tailLines + 5 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	require.NoError(t, os.WriteFile(j.path("logs/proxy-0.log"), []byte(log.String()), 0o644))
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	proxy, cmd := startProcess(t, "proxy", "sleep", "7200")
	go func() {
		<-hanging
		cmd.Process.Kill()
	}()
	require.ErrorContains(t, j.Wait(t.Context(), []Process{serve, proxy}), "proxy ended before it was ready")
	require.False(t, answeredFirst.Load(), "the silent server was waited for first")
	require.Equal(t, []string{"role-died proxy"}, j.events(t))
	require.Contains(t, j.stderr.String(), "line 5\n")
	require.Contains(t, j.stderr.String(), fmt.Sprintf("line %d\n", tailLines+4))
	require.NotContains(t, j.stderr.String(), "line 4\n", "the end of the log, not all of it")
}

func TestWaitDeadline(t *testing.T) {
	j := newJob(t)
	var clock atomic.Int64 // each look is half an hour later
	j.Now = func() time.Time { return time.Unix(clock.Add(1800), 0) }
	j.serve(t, map[string]http.HandlerFunc{
		"serve": answer,
		"proxy": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
	})
	require.NoError(t, os.WriteFile(j.path("logs/proxy-0.log"), []byte("still starting"), 0o644))
	proxy, _ := startProcess(t, "proxy", "sleep", "7200")
	require.ErrorContains(t, j.Wait(t.Context(), []Process{proxy}), "within 1h0m0s")
	require.Equal(t, []string{"not-ready proxy"}, j.events(t))
	require.Contains(t, j.stderr.String(), "still starting")
}

func TestWaitStops(t *testing.T) {
	j := newJob(t)
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	require.Error(t, j.Wait(t.Context(), []Process{serve}), "no placement")
	j.serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, j.Wait(ctx, []Process{serve}), context.Canceled)
}

// covers: PL-D8
func TestWatch(t *testing.T) {
	t.Run("the client ends", func(t *testing.T) {
		j := newJob(t)
		serve, _ := startProcess(t, "serve", "sleep", "7200")
		client, _ := startProcess(t, "bench", "sleep", "0.1")
		require.NoError(t, j.Watch(t.Context(), "bench", client.PID, []Process{serve}))
		require.Equal(t, []string{"client-begins", "client-ended"}, j.events(t))
	})
	t.Run("a role ends", func(t *testing.T) {
		j := newJob(t)
		serve, cmd := startProcess(t, "serve", "sleep", "7200")
		client, _ := startProcess(t, "bench", "sleep", "7200")
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, j.Watch(t.Context(), "bench", client.PID, []Process{serve}),
			"serve ended while a client ran")
		require.Equal(t, []string{"client-begins", "role-died serve"}, j.events(t))
	})
	t.Run("a role ends, with 0, and the client after it", func(t *testing.T) {
		j := newJob(t)
		serve, cmd := startProcess(t, "serve", "true")
		await.True(t, func() bool { return !alive(cmd.Process.Pid) }, "process %d ends", cmd.Process.Pid)
		client, _ := startProcess(t, "bench", "true")
		require.Error(t, j.Watch(t.Context(), "bench", client.PID, []Process{serve}))
	})
	t.Run("interrupted", func(t *testing.T) {
		j := newJob(t)
		client, _ := startProcess(t, "bench", "sleep", "7200")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, j.Watch(ctx, "bench", client.PID, nil), context.Canceled)
	})
}

// engine starts a role that notes a TERM in a file and then ends, or not.
func engine(t *testing.T, name, file string, ends bool) Process {
	t.Helper()
	last := ""
	if ends {
		last = "; exit 0"
	}
	p, _ := startProcess(t, name, "sh", "-c",
		fmt.Sprintf("trap 'echo %s >>%s%s' TERM; echo up >%s.up; while :; do sleep 0.1; done", name, file, last,
			file+name))
	await.File(t, file+name+".up")
	return p
}

// Steps are ended by their ids, all in one call, with TERM; what is not the
// script's own is left alone.
//
// covers: PL-S34, PL-D9, PL-G14, CD-36, SIG-2
func TestStop(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := newJob(t)
	j.grace = time.Hour // 32 of them need a while on a slow machine
	j.serve(t, map[string]http.HandlerFunc{"serve": answer})
	file := j.path("terms")
	var procs []Process
	var ids []string
	for i := range 32 {
		p := engine(t, fmt.Sprintf("r%d", i), file, true)
		procs = append(procs, p)
		id := fmt.Sprintf("60.%d", i)
		ids = append(ids, id)
		slurm.PutStep(slurmtest.Step{ID: id, Name: p.Name, PID: p.PID})
	}
	stranger, _ := startProcess(t, "x", "sleep", "7200")
	for _, id := range []string{"60.batch", "60.extern", "60.interactive", "600.0", "6.0"} {
		slurm.PutStep(slurmtest.Step{ID: id, Name: "x", PID: stranger.PID})
	}
	j.Stop(t.Context(), procs)
	for _, p := range procs {
		require.False(t, alive(p.PID), p.Name)
	}
	require.True(t, alive(stranger.PID))
	require.Len(t, strings.Fields(readFile(t, file)), 32, "each could flush")
	calls := slurm.Calls("scancel")
	require.Len(t, calls, 1, "one call for all, no KILL")
	require.Equal(t, "--signal=TERM", calls[0][0])
	require.ElementsMatch(t, ids, calls[0][1:])
	require.Equal(t, []string{"stopping"}, j.events(t))
	require.Equal(t, "up 1\n", readFile(t, j.path("raw", MetricsFile("serve", "after"))),
		"the counters were kept before")

	j.Stop(t.Context(), procs)
	require.Equal(t, []string{"stopping", "stopping"}, j.events(t), "a second time does no harm")
}

// covers: PL-S34, SIG-4
func TestStopStubborn(t *testing.T) {
	t.Run("outlives TERM", func(t *testing.T) {
		slurm := slurmtest.New(t)
		slurm.Use(t, os.Environ())
		j := newJob(t)
		j.grace = 300 * time.Millisecond
		p := engine(t, "serve", j.path("terms"), false)
		slurm.PutStep(slurmtest.Step{ID: "60.0", Name: "serve", PID: p.PID})
		j.Stop(t.Context(), []Process{p})
		require.False(t, alive(p.PID))
		require.Equal(t, [][]string{{"--signal=TERM", "60.0"}, {"--signal=KILL", "60.0"}}, slurm.Calls("scancel"))
		require.Equal(t, "serve\n", readFile(t, j.path("terms")), "TERM came first")
	})
	t.Run("Slurm does not answer", func(t *testing.T) {
		slurm := slurmtest.New(t)
		slurm.Use(t, os.Environ())
		slurm.Set(slurmtest.Knobs{Fail: "Unable to contact slurm controller"})
		j := newJob(t)
		j.grace = 100 * time.Millisecond
		p := engine(t, "serve", j.path("terms"), false)
		j.Stop(t.Context(), []Process{p})
		await.True(t, func() bool { return !alive(p.PID) }, "process %d ends", p.PID)
		require.Empty(t, slurm.Calls("scancel"))
		require.Contains(t, j.stdout.String(), "list steps")
	})
	t.Run("nothing runs", func(t *testing.T) {
		slurm := slurmtest.New(t)
		slurm.Use(t, os.Environ())
		j := newJob(t)
		j.serve(t, map[string]http.HandlerFunc{"serve": answer})
		j.Stop(t.Context(), nil)
		require.Empty(t, slurm.Calls("scancel"))
		require.NoFileExists(t, j.path("raw", MetricsFile("serve", "after")))
	})
}

func TestIsStep(t *testing.T) {
	for step, want := range map[string]bool{
		"60.0": true, "60.12": true, "60+1.0": true,
		"60.batch": false, "60.extern": false, "60.interactive": false, "60": false, "600.0": false, "6.0": false, "": false, ".0": false,
		"60.": false, "60.-1": false, "notice 60.0": false, "60.0.1": false,
	} {
		require.Equal(t, want, isStep(step, "60"), step)
	}
}

// Whoever watches the roles while they are stopped sees no failure: TERM may
// have reached the script alone.
//
// covers: PL-S34
func TestStoppedIsNotDead(t *testing.T) {
	j := newJob(t)
	client, _ := startProcess(t, "bench", "sleep", "7200")
	serve, cmd := startProcess(t, "serve", "sleep", "7200")
	require.NoError(t, j.event(Event{Event: Stopping}))
	require.NoError(t, cmd.Process.Kill())
	await.True(t, func() bool { return !alive(serve.PID) }, "process %d ends", serve.PID)
	time.AfterFunc(50*time.Millisecond, func() { syscall.Kill(client.PID, syscall.SIGKILL) })
	require.ErrorContains(t, j.Watch(t.Context(), "bench", client.PID, []Process{serve}), "serve was stopped")
	require.Equal(t, []string{"stopping", "client-begins"}, j.events(t))
}

// In an allocation that somebody holds, the run is that of the process that watches over it. Steps
// that are not the plan's are not the run's, nor are those from before it, whatever their names.
//
// covers: SRV-18
func TestHeldAllocation(t *testing.T) {
	bin, list := t.TempDir(), ""
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	squeue := func(text string) {
		list += text
		script := fmt.Sprintf("#!/bin/sh\n[ \"$6\" = %%i ] && cut='cut -d| -f1' || cut=cat\nprintf '%s' | $cut\n", list)
		require.NoError(t, os.WriteFile(filepath.Join(bin, "squeue"), []byte(script), 0o755))
	}
	squeue(`60.0|bash|n1\n60.1|nodes|n2\n60.2|serve|n1\n60.interactive|interactive|n1\n60.3|api_check|n2\n`)
	j := newJob(t)
	j.plan.Roles[0].Step.Name = "serve"
	j.plan.Loads = []plan.Load{{Clients: []plan.Step{{Name: "bench"}, {Name: "bash"}}}}
	j.plan.APICheck = &plan.Step{Name: "api_check"}
	hook := plan.Plan{Schema: plan.Schema, RunID: "H", Dir: j.path(run.PreTestDir, "h"), Loads: []plan.Load{{Clients: []plan.Step{{Name: "nccl"}}}}}
	j.plan.PreTest = []plan.Hook{{Name: "h", Dir: hook.Dir, Plan: &hook}}
	require.NoError(t, run.Fill(j.Dir, j.plan, []byte("#!/bin/bash\n"), []byte("#!/bin/bash\n")))
	require.Equal(t, steps{roles: []string{"60.0", "60.2", "60.3"}, guards: []string{"60.1"}}, j.steps(t.Context()), "all are the job's")
	j.env[run.HeldVar] = run.LocalPrefix + "host-1-00000000"
	require.Zero(t, j.steps(t.Context()), "nothing is known of what was there before")

	require.NoError(t, j.Start())
	require.Zero(t, j.steps(t.Context()))
	squeue(`60.4|nodes|n[1-2]\n60.5|serve|n1\n60.6|mine|n2\n60.7|bench|n1\n60.8|api_check|n1\n60.9|bash|n1\n60.10|nccl|n1\n`)
	require.Equal(t, steps{roles: []string{"60.5", "60.7", "60.8", "60.9", "60.10"}, guards: []string{"60.4"}}, j.steps(t.Context()))
	var claim run.Claim
	require.NoError(t, run.ReadJSON(j.path(run.ClaimFile), &claim))
	require.Equal(t, []string{j.env[run.HeldVar], "60"}, []string{claim.JobID, claim.Allocation})

	j.env["SLURMD_NODENAME"] = "n2" // of a step beside the script
	require.NoError(t, j.event(Event{Event: APIPassed}))
}

// A run does not begin if it cannot tell its steps from those of whoever holds the allocation.
func TestHeldAllocationOfUnknownSteps(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "squeue"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	j := newJob(t)
	j.env[run.HeldVar] = run.LocalPrefix + "host-1-00000000"
	require.ErrorContains(t, j.Start(), "list the steps of allocation 60")
	require.NoFileExists(t, j.path(run.ClaimFile))
}

// A step that ends between the list and its signal is no complaint; every other failure
// of scancel is one.
func TestStepsThatEndedAreNoComplaint(t *testing.T) {
	for code, complains := range map[int]bool{225: false, 229: false, 1: true, 0: false} {
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "scancel"), fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code),
			0o755))
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		j := newJob(t)
		j.signalSteps(t.Context(), "TERM", []string{"60.0"})
		require.Equal(t, complains, strings.Contains(j.stdout.String()+j.stderr.String(), "signal steps"),
			"exit status %d", code)
	}
}

// The servers start once the helpers listen; the helpers are not waited for again.
func TestWaitForHelpers(t *testing.T) {
	j := newJob(t)
	j.plan.Roles[1].Helper, j.plan.Roles[1].Health.Path = true, ""
	j.save(t)
	j.serve(t, map[string]http.HandlerFunc{"serve": answer, "proxy": func(http.ResponseWriter, *http.Request) {
		t.Error("a helper without a path is asked for nothing")
	}})
	serve, _ := startProcess(t, "serve", "sleep", "7200")
	proxy, _ := startProcess(t, "proxy", "sleep", "7200")
	require.NoError(t, j.WaitForHelpers(t.Context(), []Process{proxy}))
	require.Equal(t, []string{"role-ready proxy"}, j.events(t))
	require.NoError(t, j.Wait(t.Context(), []Process{proxy, serve}))
	require.Equal(t, []string{"role-ready proxy", "role-ready serve", "all-ready"}, j.events(t))
}

func TestWriteFiles(t *testing.T) {
	j := newJob(t)
	j.plan.Files = []plan.File{{Name: "a.yaml", Text: plan.Concat("at ", plan.Addr("proxy"), ":", plan.PortNumber("proxy"), "\n")}}
	place := &run.Placement{Nodes: []run.Node{{Addr: "10.0.0.1"}, {Addr: "10.0.0.2"}}, Ports: map[string]int{"proxy": 20013}}
	require.NoError(t, j.writeFiles(j.plan, place))
	require.Equal(t, "at 10.0.0.2:20013\n", readFile(t, j.path("files", "a.yaml")))
	place.Nodes = place.Nodes[:1]
	require.ErrorContains(t, j.writeFiles(j.plan, place), `file a.yaml: no node of "proxy"`)
}
