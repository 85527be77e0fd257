package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/programtest"
	"github.com/profllm/profllm/pkg/run"
)

// binary is profllm itself.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if code, ok := slurmtest.Main(os.Args, os.Environ(), os.Stdout, os.Stderr); ok {
		return code
	}
	if os.Getenv(limitedVar) == "1" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "profllm-run-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = programtest.Build(dir, os.Getenv)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// somePlan is a plan of one run at root/rel.
func somePlan(root, rel string) *plan.Plan {
	id := strings.ReplaceAll(rel, "/", "-")
	return &plan.Plan{
		Schema: plan.Schema, RunID: id, Dir: filepath.Join(root, rel),
		Job: plan.Job{Name: "s." + id, Comment: "profllm:" + id, Nodes: 1},
	}
}

// create makes a scenario directory as a command that is gone would have.
func create(t *testing.T, rels ...string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "out", "s_2026-01-02_03-04-05")
	var runs []run.Printed
	for _, rel := range rels {
		runs = append(runs, run.Printed{Plan: somePlan(root, rel), Script: []byte("#!/bin/bash\n# " + rel + "\n")})
	}
	require.NoError(t, run.Create(root, gone(t), runs, nil))
	return root
}

// gone is a scenario whose command has ended.
func gone(t *testing.T) run.Scenario {
	t.Helper()
	return run.Scenario{Name: "s", Host: host(t), PID: deadPID(t), ProcessStart: "boot/1"}
}

func host(t *testing.T) string {
	t.Helper()
	h, err := os.Hostname()
	require.NoError(t, err)
	return h
}

// deadPID is of a process that has ended and was waited for.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	return cmd.Process.Pid
}

// files lists everything below dir, folders with a slash.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			rel, _ := filepath.Rel(dir, path)
			if d.IsDir() {
				rel += "/"
			}
			list = append(list, rel)
		}
		return err
	}))
	return list
}

// covers: PL-D2
func TestCreate(t *testing.T) {
	root := create(t, "a/0", "a/1", "b/0")
	require.Equal(t, []string{
		"a/", "a/0/", "a/0/job.sh", "a/0/logs/", "a/0/plan.json", "a/0/raw/",
		"a/1/", "a/1/job.sh", "a/1/logs/", "a/1/plan.json", "a/1/raw/",
		"b/", "b/0/", "b/0/job.sh", "b/0/logs/", "b/0/plan.json", "b/0/raw/", "scenario.json",
	}, files(t, root))
	s, err := run.ReadScenario(root)
	require.NoError(t, err)
	require.Equal(t, []string{"a/0", "a/1", "b/0"}, s.Runs)
	p, err := run.ReadPlan(filepath.Join(root, "b/0"))
	require.NoError(t, err)
	require.Equal(t, "b-0", p.RunID)
	info, err := os.Stat(filepath.Join(root, "a/0/job.sh"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}

// A name that is taken is an error that says so, and what is there stays.
func TestCreateExists(t *testing.T) {
	for name, before := range map[string]func(root string) error{
		"scenario": func(root string) error {
			if err := os.MkdirAll(root, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(root, "keep"), nil, 0o644)
		},
		"empty folder":  func(root string) error { return os.Mkdir(root, 0o755) },
		"file":          func(root string) error { return os.WriteFile(root, nil, 0o644) },
		"dangling link": func(root string) error { return os.Symlink("nowhere", root) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			root := filepath.Join(parent, "s")
			require.NoError(t, before(root))
			was := files(t, parent)
			err := run.Create(root, run.Scenario{Host: "h", PID: 1}, []run.Printed{{Plan: somePlan(root, "a")}}, nil)
			require.ErrorIs(t, err, fs.ErrExist)
			require.Equal(t, was, files(t, parent))
		})
	}
}

// A failure on the way leaves nothing, under either name.
func TestCreateFails(t *testing.T) {
	t.Run("half way", func(t *testing.T) {
		parent := t.TempDir()
		root := filepath.Join(parent, "s")
		// The second run would lie below a file of the first.
		runs := []run.Printed{{Plan: somePlan(root, "a")}, {Plan: somePlan(root, "a/plan.json/b")}}
		require.ErrorIs(t, run.Create(root, run.Scenario{Host: "h", PID: 1}, runs, nil), syscall.ENOTDIR)
		require.Empty(t, files(t, parent))
	})
	t.Run("output is a file", func(t *testing.T) {
		parent := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(parent, "out"), nil, 0o644))
		root := filepath.Join(parent, "out", "s")
		require.ErrorIs(t, run.Create(root, run.Scenario{}, []run.Printed{{Plan: somePlan(root, "a")}}, nil),
			syscall.ENOTDIR)
		require.Equal(t, []string{"out"}, files(t, parent))
	})
	t.Run("nothing more can be written", func(t *testing.T) {
		parent := t.TempDir()
		root := filepath.Join(parent, "s")
		withLimitedFiles(t, func() {
			err := run.Create(root, run.Scenario{Host: "h", PID: 1},
				[]run.Printed{{Plan: somePlan(root, "a"), Script: []byte(huge)}}, nil)
			require.ErrorIs(t, err, syscall.EFBIG)
			require.Empty(t, files(t, parent))
		})
	})
}

// huge does not fit into a file where files are limited.
var huge = strings.Repeat("x", 2<<20)

// limitedVar marks the process in which files are limited.
const limitedVar = "PROFLLM_TEST_LIMITED"

// withLimitedFiles runs body, the rest of the test, in a process of its own where
// each write fails that would make a file longer than 1 MiB: as good as a full
// disk, and it needs no mount.
func withLimitedFiles(t *testing.T, body func()) {
	t.Helper()
	if os.Getenv(limitedVar) == "1" {
		signal.Ignore(syscall.SIGXFSZ)
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}))
		body()
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), limitedVar+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func TestWriteJSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	require.NoError(t, run.WriteJSON(path, run.State{State: run.Queued, JobID: "1"}))
	require.NoError(t, run.WriteJSON(path, run.State{State: run.Running, JobID: "1"}))
	var got run.State
	require.NoError(t, run.ReadJSON(path, &got))
	require.Equal(t, run.Running, got.State)
	t.Run("a failed write leaves the old file", func(t *testing.T) {
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		withLimitedFiles(t, func() {
			require.ErrorIs(t, run.WriteJSON(path, run.State{State: run.Failed, Reason: huge}), syscall.EFBIG)
			is, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(was), string(is))
			require.Equal(t, []string{"x.json"}, files(t, dir))
		})
	})
	t.Run("nor does a failed creation leave a file", func(t *testing.T) {
		withLimitedFiles(t, func() {
			require.ErrorIs(t, run.CreateJSON(filepath.Join(dir, "y.json"), run.State{State: run.Failed, Reason: huge}),
				syscall.EFBIG)
			require.Equal(t, []string{"x.json"}, files(t, dir))
		})
	})
	require.ErrorIs(t, run.CreateJSON(path, got), fs.ErrExist)
	require.ErrorIs(t, run.ReadJSON(filepath.Join(dir, "none"), &got), fs.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o644))
	require.ErrorContains(t, run.ReadJSON(path, &got), path)
	require.ErrorContains(t, run.WriteJSON(path, make(chan int)), path)
	require.ErrorContains(t, run.CreateJSON(path, make(chan int)), path)
}

func TestReadPlan(t *testing.T) {
	dir := t.TempDir()
	_, err := run.ReadPlan(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, text := range []string{"", "{", `{"schema": "profllm.plan/99"}`, "[]"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), []byte(text), 0o644))
		_, err = run.ReadPlan(dir)
		require.ErrorContains(t, err, filepath.Join(dir, run.PlanFile), text)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"s/a/0/plan.json", "s/a/0/raw/vllm-bench.json", "s/a/0/vllm-bench.json", "s/a/0/attempts/1/vllm-bench.json", "s/a/0/attempts/1/raw/vllm-bench.json",
		"s/a/1/plan.json", "s.partial-host-77/a/0/plan.json", "cloudai/t/0/test-run.toml", "cloudai/t/1/vllm-bench.json", "attempts/t/0/plan.json", "other/file",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("{}"), 0o644))
	}
	want := func(rels ...string) []string {
		for i, r := range rels {
			rels[i] = filepath.Join(root, r)
		}
		return rels
	}
	for name, c := range map[string]struct{ paths, want []string }{
		"everything": {want(""), want("attempts/t/0", "cloudai/t/0", "cloudai/t/1", "s/a/0", "s/a/1")},
		"twice":      {want("s", "s/a/0", "s"), want("s/a/0", "s/a/1")},
		"one run":    {want("s/a/1"), want("s/a/1")},
		"a file":     {want("s/a/1/plan.json"), want("s/a/1")},
		"nothing":    {want("other"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run.Find(c.paths...)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := run.Find(filepath.Join(root, "no-such"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Files of common names are a run's if they look like one, also packed.
func TestFindForeign(t *testing.T) {
	root := t.TempDir()
	put := func(name string, data []byte) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), data, 0o644))
	}
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	require.NoError(t, err)
	_, err = w.Write([]byte(`{"avg_latency": 1}`))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	put("a/latency.json.xz", packed.Bytes())
	put("b/latency.json.xz", []byte("no xz"))
	put("c/throughput.json", []byte(`{"elapsed_time": 1, "requests_per_second": 2}`))
	put("d/throughput.json", []byte(`{"MB/s": 2}`))
	put("e/stage_3_lifecycle_metrics.json", nil)
	put("f/stage_3_prometheus_metrics.json", nil)
	put("g/my-benchmarks.json", []byte(`{"benchmarks": [{"type_": "generative_benchmark"}]}`))
	put("h/profile_export_aiperf.json.xz", nil)
	got, err := run.Find(root)
	require.NoError(t, err)
	want := []string{}
	for _, name := range []string{"a", "c", "e", "g", "h"} {
		want = append(want, filepath.Join(root, name))
	}
	require.Equal(t, want, got)
	got, err = run.Find(filepath.Join(root, "c/throughput.json"), filepath.Join(root, "d/throughput.json"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "c")}, got)
}

func TestUnfinished(t *testing.T) {
	alive := process.Start(os.Getpid())
	for name, c := range map[string]struct {
		change func(s *run.Scenario, root string)
		want   bool
	}{
		"nothing submitted, command gone": {func(*run.Scenario, string) {}, true},
		"command still runs":              {func(s *run.Scenario, _ string) { s.PID, s.ProcessStart = os.Getpid(), alive }, false},
		"its pid is another process now":  {func(s *run.Scenario, _ string) { s.PID, s.ProcessStart = os.Getpid(), "boot/1" }, true},
		"no process start known":          {func(s *run.Scenario, _ string) { s.ProcessStart = "" }, true},
		"on another host, just now":       {func(s *run.Scenario, _ string) { s.Host, s.Created = "elsewhere", time.Now() }, false},
		"on another host, long ago":       {func(s *run.Scenario, _ string) { s.Host, s.Created = "elsewhere", time.Now().Add(-time.Hour) }, true},
		"a rehearsal":                     {func(s *run.Scenario, _ string) { s.Local = true }, false},
		"with the simulated engine":       {func(s *run.Scenario, _ string) { s.Simulated = true }, false},
		"another scenario":                {func(s *run.Scenario, _ string) { s.Name = "t" }, false},
		"half submitted": {func(_ *run.Scenario, root string) {
			require.NoError(t, run.WriteJSON(filepath.Join(root, "a/0", run.SubmitFile), run.Submission{JobID: "1"}))
		}, true},
		"all submitted or refused": {func(_ *run.Scenario, root string) {
			require.NoError(t, run.WriteJSON(filepath.Join(root, "a/0", run.SubmitFile), run.Submission{JobID: "1"}))
			require.NoError(t, run.WriteJSON(filepath.Join(root, "a/1", run.SubmitFile), run.Submission{Refused: "no"}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := create(t, "a/0", "a/1")
			s, err := run.ReadScenario(root)
			require.NoError(t, err)
			c.change(&s, root)
			require.NoError(t, run.WriteJSON(filepath.Join(root, "scenario.json"), s))
			broken := filepath.Join(filepath.Dir(root), "broken")
			require.NoError(t, os.Mkdir(broken, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(broken, "scenario.json"), []byte("{"), 0o644))
			require.NoError(t, os.CopyFS(root+".partial-host-77", os.DirFS(root)), "killed before it had its name")
			got, err := run.Unfinished(filepath.Dir(root), "s", false)
			require.NoError(t, err)
			if c.want {
				require.Equal(t, []string{root}, got)
			} else {
				require.Empty(t, got)
			}
		})
	}
}

// The words of State and the files' keys are read by others.
func TestFileKeys(t *testing.T) {
	data, err := json.Marshal(run.Submission{Schema: "profllm.submit/1", RunID: "r", JobID: "7", Adopted: true})
	require.NoError(t, err)
	require.JSONEq(t, `{"schema":"profllm.submit/1","run_id":"r","job_id":"7","time":"0001-01-01T00:00:00Z","adopted":true}`, string(data))
	for state, final := range map[string]bool{
		run.Queued: false, run.Running: false, run.Unknown: false, "": false, run.Succeeded: true, run.Failed: true,
		run.Cancelled: true,
		run.Timeout:   true, run.NodeFail: true, run.Preempted: true, run.OOM: true,
	} {
		require.Equal(t, final, run.State{State: state}.Final(), state)
	}
}
