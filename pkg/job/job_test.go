package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

func TestMain(m *testing.M) {
	if code, ok := slurmtest.Main(os.Args, os.Environ(), os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	if os.Getenv(rayVar) != "" {
		os.Exit(rayRank(os.Getenv(rayVar)))
	}
	os.Exit(m.Run())
}

// testJob is job 60 on two nodes: serve on the first, with a port for Ray, and
// proxy on the second.
type testJob struct {
	*Job
	plan           *plan.Plan
	env            map[string]string
	stdout, stderr bytes.Buffer
}

func newJob(t *testing.T) *testJob {
	t.Helper()
	dir := t.TempDir()
	j := &testJob{env: map[string]string{"SLURM_JOB_ID": "60", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n1",
		"PROFLLM_NODE_ADDR": "127.0.0.1"}}
	j.Job = &Job{Dir: dir, Env: func(name string) string { return j.env[name] }, Stdout: &j.stdout, Stderr: &j.stderr,
		Now: time.Now}
	j.plan = &plan.Plan{
		Schema: plan.Schema, RunID: "R", Dir: dir, Job: plan.Job{Nodes: 2},
		Ports: []plan.Port{
			{Name: "serve", Base: 20000, Step: 10, Count: 1, Role: "serve"},
			{Name: "serve_ray", Base: 20001, Step: 10, Count: 2, Role: "serve"},
			{Name: "proxy", Base: 20003, Step: 10, Count: 1, Role: "proxy"},
		},
		Roles: []plan.Role{
			{Name: "serve", Nodes: plan.Slice{Offset: 0, Count: 1}, Health: plan.Endpoint{Port: "serve", Path: "/health"}, Timeout: plan.Seconds(time.Hour), Engine: true},
			{Name: "proxy", Nodes: plan.Slice{Offset: 1, Count: 1}, Health: plan.Endpoint{Port: "proxy", Path: "/healthcheck"}, Timeout: plan.Seconds(time.Hour)},
		},
	}
	j.save(t)
	return j
}

func (j *testJob) save(t *testing.T) {
	t.Helper()
	require.NoError(t, run.Fill(j.Dir, j.plan, []byte("#!/bin/bash\n")))
}

func (j *testJob) events(t *testing.T) []string {
	t.Helper()
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	var list []string
	for _, e := range events {
		require.False(t, e.Time.IsZero())
		list = append(list, strings.TrimSpace(e.Event+" "+e.Role))
	}
	return list
}

// startProcess starts a stand-in for a role's srun.
func startProcess(t *testing.T, name string, argv ...string) (Process, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	return Process{name, cmd.Process.Pid}, cmd
}

// covers: PL-S12, SIG-6
func TestStart(t *testing.T) {
	t.Run("one job per run", func(t *testing.T) {
		j := newJob(t)
		require.NoError(t, j.Start())
		var claim run.Claim
		require.NoError(t, run.ReadJSON(j.path(run.ClaimFile), &claim))
		require.Equal(t, "60", claim.JobID)
		require.Zero(t, claim.Restarts)
		j.env["SLURM_JOB_ID"] = "61"
		require.ErrorContains(t, j.Start(), "job 60 already executes or executed this run")
		require.NoError(t, run.ReadJSON(j.path(run.ClaimFile), &claim))
		require.Equal(t, "60", claim.JobID)
		require.NoDirExists(t, j.path(run.AttemptDir))
	})
	t.Run("two at once", func(t *testing.T) {
		j := newJob(t)
		errs := make(chan error)
		for id := range 8 {
			go func() {
				other := &Job{Dir: j.Dir, Stdout: io.Discard, Stderr: io.Discard, Now: time.Now,
					Env: func(name string) string { return map[string]string{"SLURM_JOB_ID": strconv.Itoa(60 + id)}[name] }}
				errs <- other.Start()
			}()
		}
		won := 0
		for range 8 {
			if <-errs == nil {
				won++
			}
		}
		require.Equal(t, 1, won)
	})
	t.Run("requeued", func(t *testing.T) {
		j := newJob(t)
		for attempt := 1; attempt <= 3; attempt++ {
			require.NoError(t, j.Start())
			for _, name := range []string{"raw/vllm-bench.json", "logs/serve-0.log", run.SentinelFile,
				run.PlacementFile, run.ResultFile, run.EventFile} {
				require.NoFileExists(t, j.path(name))
				require.NoError(t, os.WriteFile(j.path(name), []byte(strconv.Itoa(attempt)), 0o644))
			}
		}
		for attempt := 1; attempt <= 2; attempt++ {
			for _, name := range []string{"raw/vllm-bench.json", "logs/serve-0.log", run.SentinelFile,
				run.PlacementFile, run.ResultFile, run.EventFile} {
				data, err := os.ReadFile(j.path("attempts", strconv.Itoa(attempt), name))
				require.NoError(t, err)
				require.Equal(t, strconv.Itoa(attempt), string(data))
			}
		}
		var claim run.Claim
		require.NoError(t, run.ReadJSON(j.path(run.ClaimFile), &claim))
		require.Equal(t, 2, claim.Restarts)
		require.FileExists(t, j.path(run.PlanFile))
		dirs, err := run.Find(j.Dir)
		require.NoError(t, err)
		require.Equal(t, []string{j.Dir}, dirs)
	})
	t.Run("killed while it put an attempt aside", func(t *testing.T) {
		j := newJob(t)
		require.NoError(t, j.Start())
		require.NoError(t, os.MkdirAll(j.path("attempts/1/raw"), 0o755))
		require.NoError(t, os.WriteFile(j.path("attempts/1/raw/x"), nil, 0o644))
		require.NoError(t, os.WriteFile(j.path("raw/y"), nil, 0o644))
		require.NoError(t, j.Start())
		require.FileExists(t, j.path("attempts/1/raw/x"))
		require.FileExists(t, j.path("attempts/2/raw/y"))
	})
	t.Run("simulated", func(t *testing.T) {
		j := newJob(t)
		j.plan.Simulated, j.plan.Binary = true, "/opt/profllm"
		j.save(t)
		for range 2 { // a requeue finds the links
			require.NoError(t, j.Start())
		}
		for _, name := range []string{"vllm", "ray", "python3", "nsys", "viztracer", "nvidia-smi"} {
			to, err := os.Readlink(j.path("bin", name))
			require.NoError(t, err)
			require.Equal(t, "/opt/profllm", to)
		}
	})
	t.Run("outside a job", func(t *testing.T) {
		j := newJob(t)
		j.env["SLURM_JOB_ID"] = ""
		require.ErrorContains(t, j.Start(), "SLURM_JOB_ID is not set")
		require.NoFileExists(t, j.path(run.ClaimFile))
	})
	t.Run("no plan", func(t *testing.T) {
		j := newJob(t)
		require.NoError(t, os.Remove(j.path(run.PlanFile)))
		require.Error(t, j.Start())
	})
}

// covers: PL-D23, PL-G11, SRV-11
func TestPlace(t *testing.T) {
	first := plan.FirstSlot(60)
	for name, c := range map[string]struct {
		lines string
		slot  int
		err   string
	}{
		"all free":            {"node n1 10.0.0.1\nnode n2 10.0.0.2\n", first, ""},
		"any order, no \\n":   {"node n2 10.0.0.2\nnode n1 10.0.0.1", first, ""},
		"busy on one":         {fmt.Sprintf("node n1 10.0.0.1 %d:8300\nnode n2 10.0.0.2\n", first), first + 1, ""},
		"busy on each":        {fmt.Sprintf("node n1 10.0.0.1 %d:8300\nnode n2 10.0.0.2 %d:8300\n", first, first+1), first + 2, ""},
		"a hole":              {fmt.Sprintf("node n1 10.0.0.1 %d:8300\nnode n2 10.0.0.2 %d:8300\n", first, first+2), first + 1, ""},
		"outgoing on one":     {fmt.Sprintf("node n1 10.0.0.1 %d~8300\nnode n2 10.0.0.2\n", first), first + 1, ""},
		"outgoing, then busy": {fmt.Sprintf("node n1 10.0.0.1 %d~8300\nnode n2 10.0.0.2%s\n", first, numbers(first+1, 15)), first, ""},
		"outgoing everywhere": {"node n1 10.0.0.1" + strings.ReplaceAll(numbers(first, 16), ":", "~") + "\nnode n2 10.0.0.2\n", first, ""},
		"the prolog talks":    {"Welcome node 7!\n\nnode\nnode n1\nnode n1 up\nnode n1 10.0.0.1 x\nnode n2 10.0.0.2\nbye 1 2 3\n", first, ""},
		"IPv6":                {"node n1 fd00::1\nnode n2 10.0.0.2\n", first, ""},
		"one is silent":       {"node n1 10.0.0.1\n", 0, "node n2 did not answer"},
		"one has no address":  {"node n1 10.0.0.1\nnode n2 n2.cluster\n", 0, "node n2 did not answer"},
		"nothing":             {"", 0, "node n1 did not answer"},
		"every slot is taken": {"node n1 10.0.0.1" + numbers(first, 16) + "\nnode n2 10.0.0.2\n", 0, fmt.Sprintf("none of the 16 port slots from %d on is free on every node; in use here: 8300 8301", first)},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			err := j.Place(t.Context(), strings.NewReader(c.lines), time.Time{})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NoFileExists(t, j.path(run.PlacementFile))
				require.NoFileExists(t, j.path("job.env"))
				return
			}
			require.NoError(t, err)
			var place run.Placement
			require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
			addr := "10.0.0.1"
			if name == "IPv6" {
				addr = "fd00::1"
			}
			at := c.slot * 10
			require.Equal(t, run.Placement{
				Schema: "profllm.placement/1", JobID: "60", Slot: c.slot,
				Nodes: []run.Node{{Host: "n1", Addr: addr}, {Host: "n2", Addr: "10.0.0.2"}},
				Ports: map[string]int{"serve": 20000 + at, "serve_ray": 20001 + at, "proxy": 20003 + at},
			}, place)
			env, err := os.ReadFile(j.path("job.env"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("PROXY_ADDR=10.0.0.2\nPROXY_PORT=%d\nSERVE_ADDR=%s\nSERVE_PORT=%d\nSERVE_RAY_PORT=%d\n", 20003+at, addr, 20000+at, 20001+at), string(env))
		})
	}
	t.Run("what stands on every node", func(t *testing.T) {
		j := newJob(t)
		j.plan.Roles = append(j.plan.Roles, plan.Role{Name: "exporter", Helper: true, Nodes: plan.Slice{Count: 2}})
		j.save(t)
		require.NoError(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"), time.Time{}))
		require.Contains(t, readFile(t, j.path("job.env")), "EXPORTER_ADDR=10.0.0.1\nEXPORTER_NODE_1_ADDR=10.0.0.2\n")
	})
	t.Run("simulated", func(t *testing.T) {
		set := map[string]string{"PROFLLM_SIM_ITL": "9ms", "PROFLLM_SIM_TTFT": "9ms"}
		for _, simulated := range []bool{true, false} {
			j := newJob(t)
			j.plan.Simulated, j.Simulator = simulated, set
			j.plan.Env = []plan.Var{{Name: "PROFLLM_SIM_TTFT", Value: plan.Text("1ms")}}
			j.save(t)
			require.NoError(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"),
				time.Time{}))
			var place run.Placement
			require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
			if !simulated {
				require.Nil(t, place.Simulator)
				continue
			}
			require.Equal(t, map[string]string{"PROFLLM_SIM_ITL": "9ms"}, place.Simulator, "the test's own win")
		}
	})
	t.Run("too few nodes", func(t *testing.T) {
		j := newJob(t)
		j.env["SLURM_JOB_NODELIST"] = "n1"
		require.ErrorContains(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\n"), time.Time{}),
			"the allocation has 1 node (n1), the plan 2")
	})
	t.Run("the first of a larger allocation, in an array", func(t *testing.T) {
		j := newJob(t)
		j.env["SLURM_JOB_NODELIST"], j.env["SLURM_ARRAY_JOB_ID"], j.env["SLURM_ARRAY_TASK_ID"] = "n[1-4]", "55", "3"
		require.NoError(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"), time.Time{}))
		var place run.Placement
		require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
		require.Equal(t, []run.Node{{Host: "n1", Addr: "10.0.0.1"}, {Host: "n2", Addr: "10.0.0.2"}}, place.Nodes)
		require.Equal(t, "55_3", place.JobID)
		require.Equal(t, plan.FirstSlot(60), place.Slot, "by the number that no other task has")
	})
	t.Run("a rehearsal", func(t *testing.T) {
		j := newJob(t)
		j.env["SLURM_JOB_ID"] = run.LocalPrefix + "host-4711-0123abcd"
		var asked [][]int
		j.Lease = func(_ context.Context, ports []int) (int, error) {
			asked = append(asked, ports)
			return ports[0] * (2 - min(len(asked), 2)), nil // the first is another job's
		}
		require.NoError(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"), time.Time{}))
		var place run.Placement
		require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
		require.Len(t, asked, 2)
		require.Subset(t, asked[1], slices.Collect(maps.Values(place.Ports)))
		require.NotEqual(t, asked[0], asked[1])
		require.NotEqual(t, plan.FirstSlot(0), asked[0][0], "each begins elsewhere")

		j.Lease = func(_ context.Context, ports []int) (int, error) { return ports[0], nil }
		require.ErrorContains(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"), time.Time{}),
			"n1: ports: none of the 16 port slots from ", "other jobs have all of them")
	})
	t.Run("no node list", func(t *testing.T) {
		j := newJob(t)
		j.env["SLURM_JOB_NODELIST"] = "n[1-"
		require.Error(t, j.Place(t.Context(), strings.NewReader(""), time.Time{}))
	})
}

// numbers says of n slots from first on that a port is taken: " 40:8300 41:8301 …".
func numbers(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " %d:%d", (first+i)%plan.Slots, 8300+i)
	}
	return b.String()
}

// Looking for a free port is in no server's way, and sees every server.
//
// covers: U-20
func TestBindable(t *testing.T) {
	for _, addr := range []string{"", "127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
		if err != nil && addr == "::1" {
			continue // no IPv6 here
		}
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.ErrorIs(t, bindable(addr, port), syscall.EADDRINUSE, addr)
		require.ErrorIs(t, bindable("", port), syscall.EADDRINUSE, addr)
		require.NoError(t, l.Close())

		looking := make(chan error)
		go func() {
			var errs []error
			for range 2000 {
				errs = append(errs, bindable(addr, port))
			}
			looking <- errors.Join(errs...)
		}()
		for over := false; !over; {
			select {
			case err := <-looking:
				_ = err // now and then the server below is seen
				over = true
			default:
				l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
				require.NoError(t, err, "somebody who looks does not take a port")
				require.NoError(t, l.Close())
			}
		}
	}
	require.ErrorContains(t, bindable("n1", 80), "not an IP address")
}

// covers: PL-D23, PL-G11
func TestNode(t *testing.T) {
	l := listen(t)
	taken := l.Addr().(*net.TCPAddr).Port
	j := newJob(t)
	slot := plan.FirstSlot(60)
	// In the job's first slot, serve has the taken port.
	j.plan.Ports = []plan.Port{{Name: "serve", Base: taken - slot, Step: 1, Count: 1, Role: "serve"}}
	j.save(t)

	require.NoError(t, j.Node(t.Context()))
	f := strings.Fields(lastLine(j.stdout.String()))
	require.Equal(t, []string{"node", "n1", "127.0.0.1"}, f[:3])
	require.Contains(t, f[3:], fmt.Sprintf("%d:%d", slot, taken))
	require.Empty(t, j.stderr.String())

	j.stdout.Reset()
	j.env["SLURMD_NODENAME"] = "n2" // serve does not run here
	require.NoError(t, j.Node(t.Context()))
	require.Equal(t, "node n2 127.0.0.1", lastLine(j.stdout.String()))

	// What the nodes say is what Place reads: the next slot is taken.
	require.NoError(t, j.Place(t.Context(), strings.NewReader(strings.Join(f, " ")+"\n"+j.stdout.String()),
		time.Time{}))
	var place run.Placement
	require.NoError(t, run.ReadJSON(j.path(run.PlacementFile), &place))
	require.NotEqual(t, taken, place.Ports["serve"])

	j.env["SLURMD_NODENAME"] = "n3"
	require.ErrorContains(t, j.Node(t.Context()), `node "n3" is not among the first 2 of the allocation`)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// listen takes a port below the ephemeral ones.
func listen(t *testing.T) net.Listener {
	t.Helper()
	for port := 21000; port < 31000; port += 13 {
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			t.Cleanup(func() { l.Close() })
			return l
		}
	}
	t.Fatal("no free port")
	return nil
}

// A node whose range for outgoing connections has every port says so, and its job
// runs all the same.
func TestPortsOfOutgoingConnections(t *testing.T) {
	j := newJob(t)
	taken := listen(t).Addr().(*net.TCPAddr).Port
	every := plan.PortRange{Low: 1, High: 65535}
	for name, c := range map[string]struct {
		port         int
		outgoing     plan.PortRange
		taken, risky int
	}{
		"free":               {taken + 1, plan.PortRange{}, 0, 0},
		"free, in the range": {taken + 1, every, 0, taken + 1},
		"taken":              {taken, plan.PortRange{}, taken, 0},
		"both":               {taken, every, taken, 0},
	} {
		j.plan.Ports = []plan.Port{{Name: "serve", Base: c.port, Step: 1, Count: 1, Role: "serve"}}
		taken, risky, err := occupied(j.plan, 0, 0, "127.0.0.1", c.outgoing)
		require.NoError(t, err)
		require.Equal(t, [2]int{c.taken, c.risky}, [2]int{taken, risky}, name)
	}
	_, _, err := occupied(j.plan, 0, 0, "192.0.2.1", every) // an address of nobody's (RFC 5737)
	require.ErrorContains(t, err, "192.0.2.1")
	own := ephemeral()
	require.Less(t, own.Low, own.High)
}

func FuzzSlotWord(f *testing.F) {
	for _, s := range []string{"12:8300", "0~40000", "12", "a:b", ":", "~", "1:2~3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if w, ok := parseSlotWord(s); ok {
			again, ok := parseSlotWord(w.String())
			require.True(t, ok)
			require.Equal(t, w, again)
		}
	})
}

// A node's address is the one that it has towards another node of the job. An address that no other
// node can reach is taken only if there is none else.
//
// covers: SRV-10
func TestOwnAddress(t *testing.T) {
	require.NotNil(t, net.ParseIP(ownAddress("no-such-name.invalid", []string{"no-such-name.invalid"})))
	for want, addrs := range map[string][]string{
		"10.0.0.7":  {"127.0.1.1", "::1", "169.254.3.4", "fe80::1", "10.0.0.7", "10.0.0.8"},
		"127.0.0.1": {"127.0.1.1", "169.254.3.4", "no address"},
	} {
		require.Equal(t, want, reachable(addrs))
	}
	ifs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range ifs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			require.Equal(t, n.IP.String(), ownAddress("n1", []string{"n1", n.IP.String()}))
		}
	}
}

// The log of a job begins with what starts where, and how engines are divided.
//
// covers: SRV-13
func TestBanner(t *testing.T) {
	j := newJob(t)
	j.plan.Image, j.plan.Launcher = "vllm/vllm-openai:v0.32.0", "pyxis"
	serve := &j.plan.Roles[0]
	serve.Nodes.Count, serve.GPUs, serve.TP, serve.PP, serve.DP, serve.EP = 2, []int{0, 1, 2, 3}, 2, 1, 4, 8
	serve.Executor = "headless, because the role sets it"
	j.save(t)
	require.NoError(t, j.Place(t.Context(), strings.NewReader("node n1 10.0.0.1\nnode n2 10.0.0.2\n"), time.Time{}))
	at := plan.FirstSlot(60) * 10
	log := j.stdout.String()
	require.Contains(t, log, " vllm/vllm-openai:v0.32.0, launcher pyxis, 8 GPUs of 2 nodes\n")
	require.Contains(t, log, fmt.Sprintf(" serve on n[1-2], head n1, GPUs 0,1,2,3 on each, TP 2 x PP 1 x DP 4 (2 on each node), EP 8, headless, port %d\n", 20000+at))
	require.Contains(t, log, fmt.Sprintf(" proxy on n2, port %d\n", 20003+at))

	one := plan.Role{Name: "serve_1", Kind: "serve", Nodes: plan.Slice{Offset: 1, Count: 1}, Engine: true, DP: 2, Group: true}
	p := &plan.Plan{Roles: []plan.Role{{Name: "serve_0", Kind: "serve"}, one}}
	require.Equal(t, "serve_1 on n2, TP 1 x PP 1 x DP 4 (2 here)",
		describe(p, &p.Roles[1], &run.Placement{Nodes: []run.Node{{Host: "n1"}, {Host: "n2"}}}))
}

func TestFinish(t *testing.T) {
	j := newJob(t)
	require.NoError(t, os.WriteFile(j.path("raw/vllm-bench.json"), []byte("{}"), 0o644))
	require.NoError(t, os.WriteFile(j.path("logs/bench-0.log"), []byte("log"), 0o644))
	phases, err := ParsePhases([]string{"ready=0", "bench=lost"})
	require.NoError(t, err)
	for range 2 { // the second time with the judgement's code
		require.NoError(t, j.Finish(5, phases, []run.Phase{{Name: "serve", Code: 143}}))
	}
	var s run.Sentinel
	require.NoError(t, run.ReadJSON(j.path(run.SentinelFile), &s))
	require.Equal(t, "60", s.JobID)
	require.Equal(t, 5, s.Code)
	require.Equal(t, []run.Phase{{Name: "ready"}, {Name: "bench", Code: Lost}}, s.Phases)
	require.Equal(t, []run.Phase{{Name: "serve", Code: 143}}, s.Roles)
	data, err := os.ReadFile(j.path("vllm-bench.json"))
	require.NoError(t, err, "where CloudAI looks")
	require.Equal(t, "{}", string(data))
	require.FileExists(t, j.path("vllm-bench.log"))
	_, err = os.Lstat(j.path("vllm-gsm8k.json"))
	require.ErrorIs(t, err, os.ErrNotExist, "no link to nothing")
}

// What a full disk has cut takes no later event with it.
func TestEventBehindACutLine(t *testing.T) {
	j := newJob(t)
	require.NoError(t, j.event(Event{Event: AllReady}))
	f, err := os.OpenFile(j.path("events.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"time":"2026-01-01T00:00:00Z","event":"clie`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, j.event(Event{Event: Stopping}))
	require.NoError(t, j.event(Event{Event: UntilOver}))
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	var names []string
	for _, e := range events {
		names = append(names, e.Event)
	}
	require.Equal(t, []string{AllReady, Stopping, UntilOver}, names)
}

func TestReadEvents(t *testing.T) {
	j := newJob(t)
	events, err := ReadEvents(j.Dir)
	require.NoError(t, err)
	require.Empty(t, events)
	require.NoError(t, j.event(Event{Event: RoleReady, Role: "serve"}))
	long := strings.Repeat("x", 200_000)
	require.NoError(t, j.event(Event{Event: RoleDied, Role: "proxy", Text: long}))
	f, err := os.OpenFile(j.path(run.EventFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\n{}\nnull\n12\n{\"event\":\"stop")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, []string{"role-ready serve", "role-died proxy"}, j.events(t))
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte("{\"time\":\"2026-03-04T12:00:00Z\",\"event\":\"all-ready\"}\n{\"event\":\"sto"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, run.EventFile), data, 0o644))
		events, err := ReadEvents(dir)
		require.NoError(t, err)
		for _, e := range events {
			require.NotEmpty(t, e.Event)
		}
	})
}

func TestParseArguments(t *testing.T) {
	procs, err := ParseProcesses([]string{"serve=12", "a=b=3"})
	require.Error(t, err)
	require.Nil(t, procs)
	procs, err = ParseProcesses([]string{"serve=12", "proxy=2"})
	require.NoError(t, err)
	require.Equal(t, []Process{{"serve", 12}, {"proxy", 2}}, procs)
	for _, bad := range []string{"serve", "serve=", "=12", "serve=1", "serve=0", "serve=-5", "serve=x", ""} {
		_, err := ParseProcesses([]string{bad})
		require.ErrorContains(t, err, strconv.Quote(bad)+" is not name=pid")
	}
	for _, bad := range []string{"bench", "bench=", "=0", "bench=x", "", "=lost"} {
		_, err := ParsePhases([]string{bad})
		require.ErrorContains(t, err, strconv.Quote(bad)+" is not name=code")
	}
}

func FuzzParseProcesses(f *testing.F) {
	f.Add("serve=12")
	f.Add("a==2")
	f.Fuzz(func(t *testing.T, arg string) {
		procs, err := ParseProcesses([]string{arg})
		if err == nil {
			require.Greater(t, procs[0].PID, 1, "never everything, never init")
			require.True(t, strings.HasPrefix(arg, procs[0].Name+"="))
		}
	})
}

func FuzzParsePhases(f *testing.F) {
	f.Add("bench=lost")
	f.Add("bench=137")
	f.Fuzz(func(t *testing.T, arg string) {
		phases, err := ParsePhases([]string{arg})
		if err == nil {
			require.NotEmpty(t, phases[0].Name)
			_, err = json.Marshal(phases)
			require.NoError(t, err)
		}
	})
}
