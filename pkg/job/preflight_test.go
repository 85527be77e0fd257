package job

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// looked makes the lines of a node whose clock is ahead by that much.
func (j *testJob) looked(t *testing.T, host string, ahead time.Duration, devices ...gpu.Device) string {
	t.Helper()
	var out bytes.Buffer
	n := *j.Job
	n.Stdout = &out
	n.Env = func(name string) string {
		if name == "SLURMD_NODENAME" {
			return host
		}
		return j.env[name]
	}
	n.Now = func() time.Time { return time.Now().Add(ahead) }
	n.gpus = func(context.Context) (gpu.Listing, error) {
		if devices == nil {
			return gpu.Listing{}, gpu.ErrNoDriver
		}
		return gpu.Listing{Devices: devices}, nil
	}
	require.NoError(t, n.Node(t.Context()))
	return out.String()
}

func device(name, driver string, used int64) gpu.Device {
	return gpu.Device{Name: name, Driver: driver, Total: 80 << 30, Used: used << 30}
}

// place puts the lines of two nodes to Place, the verdict of one check on n2 aside.
func (j *testJob) place(t *testing.T, began time.Time, lines ...string) (Preflight, error) {
	t.Helper()
	err := j.Place(t.Context(), strings.NewReader(strings.Join(lines, "")), began)
	var p Preflight
	require.NoError(t, run.ReadJSON(j.path(run.PreflightFile), &p))
	require.Len(t, p.Nodes, 2)
	return p, err
}

func check(t *testing.T, r node.Report, name string) node.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q of %s", name, r.Host)
	return node.Check{}
}

// covers: PL-G13, PL-F1
func TestPreflightFails(t *testing.T) {
	j := newJob(t)
	j.plan.Roles[1].GPUs = []int{0}
	j.save(t)
	p, err := j.place(t, time.Time{}, j.looked(t, "n1", 0), j.looked(t, "n2", 0, device("H100", "570", 70)))
	require.ErrorContains(t, err, "the nodes are not fit for this run:\n\tn2: gpu-memory: GPU 0 holds 70 GiB of 80 GiB")
	require.Equal(t, node.Fail, p.Verdict)
	require.Equal(t, node.NotPossible, check(t, p.Nodes[0], "gpu-memory").Verdict, "none is planned on the first node")
	require.NoFileExists(t, j.path(run.PlacementFile), "no server is started")
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	failed := 0
	for _, e := range events {
		if e.Event == PreflightFailed {
			failed++
			require.Equal(t, []string{"n2", "gpu-memory"}, []string{e.Node, e.Check})
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, "fail", events[len(events)-1].Text)
}

// covers: PL-G11, SRV-11
func TestPreflightPorts(t *testing.T) {
	j := newJob(t)
	taken := strings.TrimSpace(strings.Split(j.looked(t, "n2", 0), "node n2 ")[1]) + numbers(0, plan.Slots) + "\n"
	p, err := j.place(t, time.Time{}, j.looked(t, "n1", 0), "node n2 "+taken)
	require.ErrorContains(t, err, "n2: ports: none of the 16 port slots")
	require.Equal(t, node.Fail, check(t, p.Nodes[1], "ports").Verdict)
	require.Equal(t, node.OK, check(t, p.Nodes[0], "ports").Verdict)
}

// What the network takes is no difference between clocks.
func TestPreflightClock(t *testing.T) {
	limit := 0.2
	for name, c := range map[string]struct {
		ahead, latency time.Duration
		settings       *config.Preflight
		verdict        node.Verdict
		seen           string
	}{
		"alike":           {seen: "no difference above 1s detected", verdict: node.OK},
		"a slow network":  {latency: time.Minute, verdict: node.OK, seen: "no difference"},
		"ahead":           {ahead: 5 * time.Second, verdict: node.Warn, seen: "s ahead of the job's first node"},
		"behind":          {ahead: -time.Minute, latency: 10 * time.Second, verdict: node.Warn, seen: "s behind the job's first node"},
		"another limit":   {ahead: 500 * time.Millisecond, settings: &config.Preflight{Clock: &limit}, verdict: node.Warn, seen: "s ahead of"},
		"ends the job":    {ahead: 5 * time.Second, settings: &config.Preflight{Fail: []string{"clock"}}, verdict: node.Fail, seen: "s ahead of"},
		"behind, in time": {ahead: -500 * time.Millisecond, verdict: node.OK, seen: "no difference"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			j.plan.Preflight = c.settings
			j.save(t)
			began := time.Now()
			p, err := j.place(t, began.Add(-c.latency), j.looked(t, "n1", 0), j.looked(t, "n2", c.ahead))
			require.Equal(t, c.verdict == node.Fail, err != nil, "%v", err)
			got := check(t, p.Nodes[1], "clock")
			require.Equal(t, c.verdict, got.Verdict, got.Seen)
			require.Contains(t, got.Seen, c.seen)
			require.Equal(t, node.OK, check(t, p.Nodes[0], "clock").Verdict)
		})
	}
}

func TestPreflightAlike(t *testing.T) {
	for name, c := range map[string]struct {
		first, second []gpu.Device
		verdict       node.Verdict
		seen          string
	}{
		"alike":          {[]gpu.Device{device("H100", "570", 0)}, []gpu.Device{device("H100", "570", 1)}, node.OK, "H100, 81920 MiB, driver 570"},
		"another GPU":    {[]gpu.Device{device("H100", "570", 0)}, []gpu.Device{device("A100", "570", 0)}, node.Warn, "A100, 81920 MiB, driver 570; n1 has H100"},
		"another driver": {[]gpu.Device{device("H100", "570", 0)}, []gpu.Device{device("H100", "550", 0)}, node.Warn, "driver 550; n1 has H100, 81920 MiB, driver 570"},
		"on one node":    {[]gpu.Device{device("H100", "570", 0)}, []gpu.Device{device("H100", "570", 0), device("T4", "570", 0)}, node.Warn, "on one node: H100, 81920 MiB, driver 570 and T4"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			j.plan.Roles[0].GPUs, j.plan.Roles[1].GPUs = []int{0}, []int{0}
			j.save(t)
			p, err := j.place(t, time.Time{}, j.looked(t, "n1", 0, c.first...), j.looked(t, "n2", 0, c.second...))
			require.NoError(t, err)
			got := check(t, p.Nodes[1], "gpus-alike")
			require.Equal(t, c.verdict, got.Verdict)
			require.Contains(t, got.Seen, c.seen)
		})
	}
}

// Slurm is asked once which jobs are over, and only of processes that have no step.
//
// covers: PL-G14
func TestPreflightStrays(t *testing.T) {
	stray := func(host, job string) string {
		return fmt.Sprintf("look {\"host\":%q,\"stray\":{\"pid\":7,\"job\":%q,\"command\":\"sleep 9\"}}\n", host, job)
	}
	for name, c := range map[string]struct {
		knobs   slurmtest.Knobs
		job     string
		verdict node.Verdict
		seen    string
	}{
		"the job is over":         {job: "59", verdict: node.Warn, seen: "left by finished jobs: process 7 of job 59 (sleep 9)"},
		"the job runs":            {job: "58", verdict: node.OK, seen: "none left by finished jobs"},
		"Slurm does not answer":   {job: "59", knobs: slurmtest.Knobs{Fail: "Unable to contact slurm controller"}, verdict: node.NotPossible, seen: "cannot tell which jobs are finished"},
		"Slurm has forgotten all": {job: "59", knobs: slurmtest.Knobs{Fail: "slurm_load_jobs error: Invalid job id specified"}, verdict: node.Warn, seen: "process 7 of job 59"},
	} {
		t.Run(name, func(t *testing.T) {
			slurm := slurmtest.New(t)
			slurm.Use(t, os.Environ())
			slurm.Put(slurmtest.Job{ID: "58", Queue: "RUNNING"})
			slurm.Set(c.knobs)
			j := newJob(t)
			p, err := j.place(t, time.Time{}, j.looked(t, "n1", 0), stray("n2", c.job), j.looked(t, "n2", 0))
			require.NoError(t, err)
			got := check(t, p.Nodes[1], "processes")
			require.Equal(t, c.verdict, got.Verdict, got.Seen)
			require.Contains(t, got.Seen, c.seen)
		})
	}
}

// The nodes' step stays: its output is read while it grows, and no longer than
// until every node has answered, or the step has ended.
func TestFollow(t *testing.T) {
	j := newJob(t)
	p, cmd := startProcess(t, "nodes", "sleep", "7200")
	lines := j.Follow(t.Context(), p.PID)
	defer lines.Close()
	done := make(chan error, 1)
	go func() { done <- j.Place(t.Context(), lines, Began(p.PID, time.Now())) }()
	file, err := os.Create(j.path(run.NodesFile))
	require.NoError(t, err)
	defer file.Close()
	for _, host := range []string{"n1", "n2"} {
		text := j.looked(t, host, 0)
		_, err := io.WriteString(file, text[:len(text)/2])
		require.NoError(t, err)
		select {
		case err := <-done:
			t.Fatalf("it did not wait for %s: %v", host, err)
		case <-time.After(50 * time.Millisecond):
		}
		_, err = io.WriteString(file, text[len(text)/2:])
		require.NoError(t, err)
	}
	require.NoError(t, <-done)

	j = newJob(t)
	lines = j.Follow(t.Context(), p.PID)
	require.NoError(t, os.WriteFile(j.path(run.NodesFile), []byte(j.looked(t, "n1", 0)), 0o644))
	go func() { done <- j.Place(t.Context(), lines, time.Time{}) }()
	require.NoError(t, cmd.Process.Kill())
	require.ErrorContains(t, <-done, "node n2 did not answer")
	require.NoError(t, lines.Close())
}

func TestBegan(t *testing.T) {
	before := time.Now()
	p, _ := startProcess(t, "x", "sleep", "7200")
	require.WithinRange(t, Began(p.PID, time.Now()), before.Add(-100*time.Millisecond), time.Now().
		Add(100*time.Millisecond))
	require.Zero(t, Began(1<<22+1, time.Now()))
}

// guarded is a job whose guard runs on both nodes, ended by end or by force.
func guarded(t *testing.T, force bool) *testJob {
	t.Helper()
	j := newJob(t)
	file, err := os.Create(j.path(run.NodesFile))
	require.NoError(t, err)
	defer file.Close()
	for _, host := range []string{"n1", "n2"} {
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan struct{})
		if force {
			cancel()
		} else {
			close(end)
		}
		n := *j.Job
		n.Stdout = file
		n.Env = func(name string) string {
			switch name {
			case "SLURMD_NODENAME":
				return host
			case "PROFLLM_LOCAL_JOB": // nothing in this machine's /dev/shm is ours
				return "x"
			}
			return j.env[name]
		}
		require.NoError(t, n.Guard(ctx, end))
		cancel()
	}
	return j
}

// covers: PL-G13
func TestGuard(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force %t", force), func(t *testing.T) {
			slurm := slurmtest.New(t)
			slurm.Use(t, os.Environ())
			j := guarded(t, force)
			p, _ := startProcess(t, guardStep, "true")
			await.True(t, func() bool { return !alive(p.PID) }, "process %d ends", p.PID)
			j.EndGuard(t.Context(), p.PID)
			require.Empty(t, j.events(t), "nothing was left")
			if force {
				require.FileExists(t, j.path(run.LeftDir, "n2.json"))
				return
			}
			require.NoDirExists(t, j.path(run.LeftDir))
		})
	}
}

// onWrite is called with what is printed.
type onWrite func(text []byte) (int, error)

func (f onWrite) Write(text []byte) (int, error) { return f(text) }

// In an allocation that somebody holds, shared memory that appears may be that of other steps.
func TestGuardOfAHeldAllocation(t *testing.T) {
	wasShm, wasProc := shm, proc
	shm, proc = t.TempDir(), t.TempDir() // no process has the segment
	t.Cleanup(func() { shm, proc = wasShm, wasProc })
	j := newJob(t)
	j.env[run.HeldVar] = run.LocalPrefix + "host-1-00000000"
	segment := filepath.Join(shm, "psm_other")
	appear := sync.OnceValue(func() error { return os.WriteFile(segment, nil, 0o644) })
	j.Stdout = onWrite(func(text []byte) (int, error) { return len(text), appear() })
	end := make(chan struct{})
	close(end)
	require.NoError(t, j.Guard(t.Context(), end))
	require.FileExists(t, segment)
}

// A guard whose signals were lost goes once the script is over.
//
// covers: PL-G13
func TestGuardOutlivesItsScript(t *testing.T) {
	j := newJob(t)
	j.grace = 100 * time.Millisecond
	j.env["SLURMD_NODENAME"], j.env["PROFLLM_LOCAL_JOB"] = "n1", "x"
	done := make(chan error, 1)
	go func() { done <- j.Guard(t.Context(), nil) }()
	require.NoError(t, run.WriteJSON(j.path(run.SentinelFile), run.Sentinel{JobID: "59"}), "of another job")
	select {
	case err := <-done:
		require.Fail(t, "ended by itself", err)
	case <-time.After(500 * time.Millisecond):
	}
	require.NoError(t, run.WriteJSON(j.path(run.SentinelFile), run.Sentinel{JobID: j.id()}))
	require.NoError(t, <-done)
	require.FileExists(t, j.path(run.LeftDir, "n1.json"), "nobody may read what it prints")
}

// What a node wrote by itself counts, and is not told twice; a node that nobody
// looked at is named.
func TestLeftovers(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := newJob(t)
	j.grace = 50 * time.Millisecond
	require.NoError(t, j.writeLeft("n1", []string{"process 7"}, false))
	p, _ := startProcess(t, guardStep, "true")
	await.True(t, func() bool { return !alive(p.PID) }, "process %d ends", p.PID)
	j.EndGuard(t.Context(), p.PID)
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	want := []node.Left{{Host: "n1", Text: "process 7"}, {Host: "n2", Text: "the node was not checked for leftovers"}}
	require.Equal(t, want, Leftovers(j.Dir, events))

	require.NoError(t, j.writeLeft("n2", []string{"process 8"}, true)) // seen late, on a shared file system
	want[1].Text = "process 8"
	require.Equal(t, want, Leftovers(j.Dir, events))
	require.NoError(t, os.RemoveAll(filepath.Join(j.Dir, run.LeftDir)))
	require.Len(t, Leftovers(j.Dir, events), 2)
}

// A guard that does not end is told in another way, then killed.
func TestEndGuard(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := newJob(t)
	j.grace = 100 * time.Millisecond
	p, _ := startProcess(t, guardStep, "bash", "-c",
		"trap 'echo told >"+j.path("told")+"; ' USR1; echo >"+j.path("listens")+"; while :; do sleep 0.01; done")
	slurm.PutStep(slurmtest.Step{ID: "60.0", Name: guardStep, PID: p.PID})
	await.File(t, j.path("listens"))
	j.EndGuard(t.Context(), p.PID)
	await.True(t, func() bool { return !alive(p.PID) }, "process %d ends", p.PID)
	require.Equal(t, [][]string{{"--signal=KILL", "60.0"}}, slurm.Calls("scancel"))
}

// covers: PL-S34
func TestStopTellsTheGuard(t *testing.T) {
	slurm := slurmtest.New(t)
	slurm.Use(t, os.Environ())
	j := newJob(t)
	j.grace = 300 * time.Millisecond
	p := engine(t, "serve", j.path("terms"), false)
	guard, _ := startProcess(t, guardStep, "sleep", "7200")
	slurm.PutStep(slurmtest.Step{ID: "60.0", Name: guardStep, PID: guard.PID})
	slurm.PutStep(slurmtest.Step{ID: "60.1", Name: "serve", PID: p.PID})
	j.Stop(t.Context(), []Process{p})
	require.Equal(t, [][]string{{"--signal=TERM", "60.1"}, {"--signal=USR1", "60.0"}, {"--signal=KILL", "60.1"}},
		slurm.Calls("scancel"),
		"the guard outlives the roles")
}
