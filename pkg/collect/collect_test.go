package collect_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

func collector(t *testing.T) *collect.Collector {
	t.Helper()
	return &collect.Collector{Version: "v1", Bench: catalog.Benches, Eval: catalog.Evals, Causes: failure.Builtin}
}

// recorded copies the recorded run, so that a test can damage it.
func recorded(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disaggregated", "0")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/disaggregated")))
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
}

// state is what sacct says of the recorded job.
func state(raw, mapped string) *run.State {
	return &run.State{JobID: "20537", State: mapped, Raw: raw, ExitCode: "0:0", Start: "2026-11-21T04:55:59",
		End: "2026-11-21T04:56:08", Elapsed: 9,
		NodeList: "n[1-2]", Source: "sacct", At: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)}
}

func completed() *run.State { return state("COMPLETED", run.Succeeded) }

// only computes the result of a directory with one load.
func only(t *testing.T, c *collect.Collector, dir string, st *run.State) *result.Result {
	t.Helper()
	records, err := c.Run(dir, st)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, dir, records[0].Dir)
	return records[0].Result
}

// outcome is how a check ended.
func outcome(t *testing.T, r *result.Result, word string) string {
	t.Helper()
	c := r.Validity.Check(word)
	require.NotNil(t, c, word)
	return string(c.Outcome)
}

// The requests of an evaluation are those that the engines ended while it ran, also where shell
// text runs behind it.
func TestEvaluatedBeforeAfterLoad(t *testing.T) {
	dir := recorded(t)
	data, err := os.ReadFile(filepath.Join(dir, run.PlanFile))
	require.NoError(t, err)
	const last = `"log": "logs/eval-%t.log"` + "\n    }"
	require.Contains(t, string(data), last)
	write(t, dir, run.PlanFile, strings.Replace(string(data), last, last+`, {"name": "after-load", "nodes": {"offset": 0,
		"count": 1}, "argv": ["bash", "-c", "true"], "log": "logs/after-load-%t.log"}`, 1))
	page, err := os.ReadFile(filepath.Join(dir, "raw/metrics-decode-after.prom"))
	require.NoError(t, err)
	const asked = `finished_reason="stop",model_name="Qwen/Qwen3-8B"} `
	before := func(n string) string { return strings.Replace(string(page), asked+"200.0", asked+n, 1) }
	for name, c := range map[string]struct{ bench, outcome string }{
		"all":  {"0.0", "pass"},
		"none": {"200.0", "fail"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, dir, "raw/metrics-decode-bench.prom", before(c.bench))
			write(t, dir, "raw/metrics-decode-eval.prom", string(page))
			write(t, dir, "raw/metrics-decode-after-load.prom", string(page))
			r := only(t, collector(t), dir, completed())
			require.Equal(t, c.outcome, outcome(t, r, "accuracy-invalid"), r.Validity.Check("accuracy-invalid").Detail)
		})
	}
}

// covers: SCH-4
func TestRun(t *testing.T) {
	r := only(t, collector(t), recorded(t), completed())
	require.True(t, r.Validity.Valid)
	require.Equal(t, result.Completed, r.Status)
	require.Nil(t, r.Failure)
	require.True(t, r.Simulated)
	require.Equal(t, "demo/disaggregated", r.Suite)
	require.Equal(t, 64, *r.Results.CompletedRequests)
	require.Equal(t, 8, *r.Results.GPUs)
	require.InDelta(t, 0.795, r.Accuracy.Value, 1e-9)
	require.InDelta(t, 8.454, *r.Duration, 1e-3, "from the claim to the sentinel")
	require.Equal(t, []string{"127.0.1.1", "127.0.1.2"}, r.Placement.Nodes)
	require.Len(t, r.Placement.Roles, 3)
	decode := r.Placement.Roles[1]
	require.Equal(t, []string{"127.0.1.2"}, decode.Hosts)
	require.Equal(t, map[string]int{"http": 8503, "nixl": 5585}, decode.Ports)
	require.Equal(t, "COMPLETED", r.Slurm.State)
	require.Equal(t, "20537", r.Slurm.JobID)
	require.Equal(t, 9.0, *r.Slurm.Elapsed)
	require.Equal(t, "local", r.Slurm.Partition)
	require.Len(t, r.Provenance.Commands, 5)
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, result.Validate(data))
}

// A rehearsal has no Slurm record; without a scheduler's word nothing is made up.
func TestRunWithoutSlurm(t *testing.T) {
	for _, st := range []*run.State{nil, {JobID: "20537", State: run.Succeeded, Source: "local"}} {
		r := only(t, collector(t), recorded(t), st)
		require.Nil(t, r.Slurm)
		require.Equal(t, result.Completed, r.Status)
	}
}

// A clock that was set back while the job ran does not give it a negative duration.
func TestClockSetBack(t *testing.T) {
	dir := recorded(t)
	var end run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end))
	end.Time = end.Time.Add(-time.Hour)
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), end))
	r := only(t, collector(t), dir, completed())
	require.Nil(t, r.Duration)
	require.True(t, r.Validity.Valid)
}

// A hook that fails after the run fails the job, and changes nothing about the
// numbers before it; the record names it.
//
// covers: CD-21
func TestPostTestFails(t *testing.T) {
	dir := recorded(t)
	var end run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end))
	end.Code = 5
	end.Phases = append(end.Phases, run.Phase{Name: "post_test/h", Code: 3})
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), end))
	st := state("FAILED", run.Failed)
	st.ExitCode = "5:0"
	r := only(t, collector(t), dir, st)
	require.True(t, r.Validity.Valid, r.Validity.Words)
	require.Equal(t, result.Completed, r.Status)
	require.Contains(t, r.Warnings, result.Warning{Kind: result.HookFailed, Key: "post_test/h", Text: "ended with 3"})

	end.Phases[1].Code = 1 // a phase of its own
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), end))
	require.False(t, only(t, collector(t), dir, st).Validity.Valid)
}

// The same files give the same bytes, and an unchanged result is not written
// again.
func TestDeterministic(t *testing.T) {
	dir := recorded(t)
	path := filepath.Join(dir, run.ResultFile)
	before := snapshot(t, dir)
	_, err := collector(t).Write(dir, completed())
	require.NoError(t, err)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	old := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, os.Chtimes(path, old, old))
	for range 5 {
		_, err = collector(t).Write(dir, completed())
		require.NoError(t, err)
	}
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, old, info.ModTime().UTC(), "untouched")
	remove(t, dir, run.ResultFile)
	require.Equal(t, before, snapshot(t, dir), "what is read is never edited")
}

// snapshot is every file with its content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}

// Several commands may collect the same run: a reader never sees half a result.
func TestWriteAtOnce(t *testing.T) {
	dir := recorded(t)
	col := collector(t)
	errs := make(chan error)
	const writers, rounds = 4, 10
	for w := range writers {
		go func() {
			var err error
			for i := range rounds {
				st := completed()
				st.Elapsed = float64(1 + (w+i)%3) // so that there is something to replace
				if _, e := col.Write(dir, st); e != nil {
					err = e
				}
				data, e := os.ReadFile(filepath.Join(dir, run.ResultFile))
				if e == nil {
					_, e = result.Decode(data)
				}
				if e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary files")
}

// Whatever is missing, the rest is read, and nobody calls it a success.
//
// covers: PL-S5, PL-V1, OUT-5
func TestPartial(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		state  *run.State
		status result.Status
		check  string // that does not pass
		then   func(t *testing.T, r *result.Result)
	}{
		"no sentinel, nobody was asked": {
			damage: func(t *testing.T, dir string) { remove(t, dir, run.SentinelFile) },
			status: result.Unknown,
			then:   func(t *testing.T, r *result.Result) { require.Nil(t, r.Duration) },
		},
		"no sentinel, the job is over": {
			damage: func(t *testing.T, dir string) { remove(t, dir, run.SentinelFile) },
			state:  state("FAILED", run.Failed), status: result.Partial, check: "phase-failed",
		},
		"no benchmark": {
			damage: func(t *testing.T, dir string) { remove(t, dir, "raw/vllm-bench.json", "logs/bench-0.log") },
			state:  completed(), status: result.Failed, check: "result-missing",
			then: func(t *testing.T, r *result.Result) {
				require.Nil(t, r.Results.CompletedRequests, "absent, not zero")
				require.NotNil(t, r.Accuracy, "the rest is read")
			},
		},
		"the benchmark's file is cut": {
			damage: func(t *testing.T, dir string) {
				data, err := os.ReadFile(filepath.Join(dir, "raw/vllm-bench.json"))
				require.NoError(t, err)
				write(t, dir, "raw/vllm-bench.json", string(data[:len(data)/2]))
				remove(t, dir, "logs/bench-0.log")
			},
			state: completed(),
			then: func(t *testing.T, r *result.Result) {
				require.NotEqual(t, result.Completed, r.Status)
				require.NotEmpty(t, r.Warnings)
			},
		},
		"no accuracy": {
			damage: func(t *testing.T, dir string) { remove(t, dir, "raw/vllm-gsm8k.json", "logs/eval-0.log") },
			state:  completed(), status: result.Partial, check: "accuracy-missing",
		},
		"no placement": {
			damage: func(t *testing.T, dir string) { remove(t, dir, run.PlacementFile) },
			state:  completed(), status: result.Completed,
			then: func(t *testing.T, r *result.Result) { require.Nil(t, r.Placement) },
		},
		"fewer nodes than planned": {
			damage: func(t *testing.T, dir string) {
				write(t, dir, run.PlacementFile, `{"nodes": [{"host": "n1", "addr": "10.0.0.1"}], "ports": {}}`)
			},
			state: completed(), status: result.Partial,
			then: func(t *testing.T, r *result.Result) {
				require.Nil(t, r.Placement)
				require.Contains(t, r.Validity.Words, "placed-otherwise")
			},
		},
		"the claim is empty": {
			damage: func(t *testing.T, dir string) { write(t, dir, run.ClaimFile, "") },
			state:  completed(), status: result.Completed,
			then: func(t *testing.T, r *result.Result) { require.Nil(t, r.Duration) },
		},
		"no counters": {
			damage: func(t *testing.T, dir string) {
				remove(t, dir, "raw/metrics-decode-before.prom", "raw/metrics-prefill-after.prom")
			},
			state: completed(), status: result.Completed,
			then: func(t *testing.T, r *result.Result) {
				require.Nil(t, r.Results.KVTransfer)
				require.NotEqual(t, "pass", outcome(t, r, "kv-transfer-failed"), "not possible, so not passed")
			},
		},
		"the client failed": {
			damage: func(t *testing.T, dir string) {
				write(t, dir, run.SentinelFile,
					`{"job_id":"20537","time":"2026-11-21T04:56:07Z","code":5,"phases":[{"name":"ready"},{"name":"bench","code":4}]}`)
			},
			state: state("FAILED", run.Failed), status: result.Partial, check: "phase-failed",
		},
		"a role died": {
			damage: func(t *testing.T, dir string) {
				write(t, dir, "events.jsonl",
					`{"time":"2026-11-21T04:56:01Z","event":"role-died","role":"decode"}`+"\n")
			},
			state: state("FAILED", run.Failed), status: result.Partial, check: "role-died",
			then: func(t *testing.T, r *result.Result) {
				require.Contains(t, r.Validity.Check("role-died").Detail, "decode")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			c.damage(t, dir)
			r := only(t, collector(t), dir, c.state)
			if c.status != "" {
				require.Equal(t, c.status, r.Status)
			}
			if c.check != "" {
				require.Equal(t, "fail", outcome(t, r, c.check))
				require.False(t, r.Validity.Valid)
			}
			if c.then != nil {
				c.then(t, r)
			}
		})
	}
}

// What no crash of ours leaves behind is an error that names the file.
func TestUnreadable(t *testing.T) {
	for _, name := range []string{run.PlanFile, run.SentinelFile, run.PlacementFile} {
		dir := recorded(t)
		write(t, dir, name, "{")
		_, err := collector(t).Run(dir, nil)
		require.ErrorContains(t, err, filepath.Join(dir, name))
		_, err = collector(t).Write(dir, nil)
		require.Error(t, err)
		require.NoFileExists(t, filepath.Join(dir, run.ResultFile))
	}
}

// A job that failed for no more than its own judgement says nothing about the
// numbers: the checks that made it so stand alone.
func TestJudgedJob(t *testing.T) {
	dir := recorded(t)
	var s run.Sentinel
	require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &s))
	for _, c := range []struct {
		code   int
		failed bool
	}{{run.JudgedInvalid, false}, {5, true}} {
		s.Code = c.code
		require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), s))
		st := state("FAILED", run.Failed)
		st.ExitCode = fmt.Sprintf("%d:0", c.code)
		r := only(t, collector(t), dir, st)
		require.Equal(t, c.failed, slices.Contains(r.Validity.Words, "job-state"), c.code)
		require.Equal(t, c.failed, r.Failure != nil, c.code)
	}
	// Nor do single requests that failed, if no check refuses the numbers for that.
	s.Code = run.JudgedInvalid
	require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), s))
	write(t, dir, "logs/bench-0.log", "Error 0: the server closed the connection without an answer\n")
	write(t, dir, run.PlacementFile, `{"nodes": [{"host": "n1", "addr": "10.0.0.1"}], "ports": {}}`)
	st := state("FAILED", run.Failed)
	st.ExitCode = "6:0"
	r := only(t, collector(t), dir, st)
	require.Equal(t, result.Partial, r.Status)
	require.Nil(t, r.Failure)
}

// Every witness of a job's end counts, whether or not the others know of it: the
// script's own exit code in the sentinel, Slurm, the scheduler of this machine.
//
// covers: PL-S5
func TestJobEnd(t *testing.T) {
	zero := new(0)
	local := func(state, code string) *run.State {
		return &run.State{JobID: "local-n1-7-ab", State: state, ExitCode: code, Source: "local"}
	}
	slurm := func(raw, mapped, code string) *run.State {
		st := state(raw, mapped)
		st.ExitCode = code
		return st
	}
	forgotten := &run.State{JobID: "20537", State: run.Failed, ExitCode: "3:0", Source: "sentinel"}
	bench := func(code int) []run.Phase {
		return []run.Phase{{Name: "ready"}, {Name: "bench", Code: code}, {Name: "eval"}}
	}
	for name, c := range map[string]struct {
		code   int
		script *int
		phases []run.Phase
		state  *run.State
		bad    bool
		says   []string
	}{
		"well":                              {state: completed(), says: []string{"ended with 0 (its sentinel)", "COMPLETED, exit code 0:0 (sacct)"}},
		"the script ended with 3":           {code: 3, bad: true, says: []string{"the script ended with 3 (its sentinel)"}},
		"and Slurm says COMPLETED":          {code: 3, state: completed(), bad: true, says: []string{"ended with 3", "COMPLETED, exit code 0:0 (sacct)"}},
		"and accounting is off":             {code: 3, state: forgotten, bad: true, says: []string{"ended with 3"}},
		"and this machine ran it":           {code: 3, state: local(run.Failed, "3:0"), bad: true, says: []string{"ended with 3", "exit code 3:0 (this machine)"}},
		"the script ended with 6 itself":    {code: 6, script: new(6), bad: true, says: []string{"the script ended with 6"}},
		"the script ended with 5 itself":    {code: 5, script: new(5), bad: true, says: []string{"the script ended with 5"}},
		"judged invalid":                    {code: 6, script: zero, state: slurm("FAILED", run.Failed, "6:0"), says: []string{"the job's exit code 6 means an invalid result"}},
		"judged invalid here":               {code: 6, script: zero, state: local(run.Failed, "6:0"), says: []string{"means an invalid result"}},
		"a failed phase counts once":        {code: 5, script: zero, phases: bench(2), state: slurm("FAILED", run.Failed, "5:0"), says: []string{"the job's exit code 5 means a failed phase"}},
		"an older sentinel of that":         {code: 5, phases: bench(2), state: slurm("FAILED", run.Failed, "5:0"), says: []string{"means a failed phase"}},
		"judged, and no exit code is known": {code: 6, script: zero, state: slurm("FAILED", run.Failed, ""), says: []string{"means an invalid result"}},
		"judged, and Slurm says 1":          {code: 6, script: zero, state: slurm("FAILED", run.Failed, "1:0"), bad: true, says: []string{"ended with 0", "FAILED, exit code 1:0 (sacct)"}},
		"judged, and Slurm says TIMEOUT":    {code: 6, script: zero, state: slurm("TIMEOUT", run.Timeout, "0:0"), bad: true},
		"killed by a signal":                {state: slurm("COMPLETED", run.Succeeded, "0:9"), bad: true, says: []string{"exit code 0:9"}},
		"out of memory":                     {state: slurm("OUT_OF_MEMORY", run.OOM, "0:125"), bad: true, says: []string{"OUT_OF_MEMORY, exit code 0:125"}},
		"this machine killed it":            {state: local(run.Cancelled, "143:0"), bad: true, says: []string{"CANCELLED"}},
		"this machine does not know it":     {state: local(run.Unknown, ""), says: []string{"ended with 0"}},
		"ended by TERM, no hook behind it":  {code: 143, state: slurm("CANCELLED by 1000", run.Cancelled, "0:15"), bad: true},
		"ended by TERM during a hook behind it": {code: 143, phases: append(bench(0), run.Phase{Name: "post_test/check", Code: 143}),
			state: slurm("CANCELLED by 1000", run.Cancelled, "0:15"),
			says:  []string{"this load was over before its job ended"}},
		"a script that failed before hooks that failed": {code: 3, phases: append(bench(0), run.Phase{Name: "post_test/check", Code: 1}), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t)
			var s run.Sentinel
			require.NoError(t, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &s))
			if s.Code, s.Script = c.code, c.script; c.phases != nil {
				s.Phases = c.phases
			}
			require.NoError(t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), s))
			r := only(t, collector(t), dir, c.state)
			check := r.Validity.Check("job-state")
			want := result.Pass
			if c.bad {
				want = result.Fail
				require.False(t, r.Validity.Valid)
				require.NotEqual(t, result.Completed, r.Status)
			}
			require.Equal(t, want, check.Outcome, check.Detail)
			for _, text := range c.says {
				require.Contains(t, check.Detail, text)
			}
		})
	}
}

// The scheduler's word stands above numbers that look good.
//
// covers: PL-S4, PL-S5, CD-25
func TestStates(t *testing.T) {
	for _, c := range []struct {
		raw, mapped string
		status      result.Status
		check       string
	}{
		{"COMPLETED", run.Succeeded, result.Completed, "pass"},
		{"FAILED", run.Failed, result.Partial, "fail"},
		{"TIMEOUT", run.Timeout, result.Partial, "fail"},
		{"CANCELLED by 1000", run.Cancelled, result.Cancelled, "fail"},
		{"NODE_FAIL", run.NodeFail, result.Partial, "fail"},
		{"OUT_OF_MEMORY", run.OOM, result.Partial, "fail"},
		{"PREEMPTED", run.Preempted, result.Partial, "fail"},
	} {
		t.Run(c.raw, func(t *testing.T) {
			r := only(t, collector(t), recorded(t), state(c.raw, c.mapped))
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.raw, r.Slurm.State)
			require.Equal(t, c.check, outcome(t, r, "job-state"))
			require.Equal(t, c.check == "pass", r.Validity.Valid)
			require.Equal(t, 64, *r.Results.CompletedRequests, "what was measured is kept")
			if c.raw == "TIMEOUT" {
				require.Equal(t, "slurm-time-limit", r.Failure.Cause)
			}
		})
	}
}

// A job that nobody knows any more is a failure with a cause, unless a log has one.
//
// covers: PL-S10
func TestLostJob(t *testing.T) {
	dir := recorded(t)
	require.NoError(t, os.Remove(filepath.Join(dir, run.SentinelFile)))
	st := state("", run.Failed)
	st.Note = run.Lost
	r := only(t, collector(t), dir, st)
	require.Equal(t, "lost", r.Failure.Cause)
	require.Equal(t, "what became of the job is unknown: ask the admin, then run it again", r.Failure.Next,
		"no execution of a scenario is around it")
	require.Equal(t, result.FromState, r.Failure.Confidence)
	root := filepath.Dir(dir)
	write(t, root, run.ScenarioFile, `{"schema": "profllm.scenario/1", "name": "s", "runs": ["x"]}`)
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	require.Equal(t, "what became of the job is unknown: ask the admin, then run it again: profllm slurm resume --failed "+
		p.Dir, only(t, collector(t), dir, st).Failure.Next)
	write(t, root, run.ScenarioFile, `{"schema": "profllm.scenario/1", "name": "s", "runs": ["x"], "local": true}`)
	require.NoError(t, os.Mkdir(filepath.Join(root, "definitions"), 0o755))
	write(t, root, "definitions/scenario.toml", "")
	require.Contains(t, only(t, collector(t), dir, st).Failure.Next, "run it again: profllm rehearse "+
		filepath.Join(filepath.Dir(p.Dir), "definitions", "scenario.toml"))
	st.Note = ""
	require.NotEqual(t, "lost", only(t, collector(t), dir, st).Failure.Cause)
}

// A job that was cancelled before it started has no log that somebody could read.
func TestJobThatNeverStarted(t *testing.T) {
	dir := recorded(t)
	for _, name := range []string{run.SentinelFile, run.LogDir, run.RawDir, "events.jsonl"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	st := state("CANCELLED by 0", run.Cancelled)
	r := only(t, collector(t), dir, st)
	require.Equal(t, result.NoCause, r.Failure.Confidence)
	require.Contains(t, r.Failure.Next, "there is no log with a line to read")
	st.Note = run.NeverRan
	r = only(t, collector(t), dir, st)
	require.Equal(t, result.Cancelled, r.Status)
	require.Equal(t, "never-started", r.Failure.Cause)
	require.Contains(t, r.Failure.Next, "cancelled before it started, so there is nothing to read")
}

// covers: PL-V16
func TestKVTransfer(t *testing.T) {
	r := only(t, collector(t), recorded(t), completed())
	kv := r.Results.KVTransfer
	require.EqualValues(t, 264, *kv.Transfers)
	require.EqualValues(t, 80642048, *kv.Bytes)
	require.EqualValues(t, 0, *kv.FailedTransfers)
	require.Equal(t, "pass", outcome(t, r, "kv-transfer-failed"))

	dir := recorded(t)
	name := filepath.Join(dir, "raw/metrics-decode-after.prom")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	changed := 0
	for i, l := range lines {
		if strings.HasPrefix(l, "vllm:nixl_num_failed_transfers_total") {
			at := strings.LastIndexByte(l, ' ')
			lines[i] = l[:at] + " 3.0"
			changed++
		}
	}
	require.Positive(t, changed)
	write(t, dir, "raw/metrics-decode-after.prom", strings.Join(lines, "\n"))
	r = only(t, collector(t), dir, completed())
	require.Positive(t, *r.Results.KVTransfer.FailedTransfers)
	require.Equal(t, "fail", outcome(t, r, "kv-transfer-failed"))
	require.False(t, r.Validity.Valid)
}

// The cause names the line that shows it, the role and the node.
//
// covers: PL-F1
func TestCause(t *testing.T) {
	const line = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
	dir := recorded(t)
	remove(t, dir, "raw/vllm-bench.json", "logs/bench-0.log")
	write(t, dir, "events.jsonl", `{"time":"2026-11-21T04:56:01Z","event":"role-died","role":"decode"}`+"\n")
	write(t, dir, "logs/decode-0.log",
		fmt.Sprintf("INFO starting\n(EngineCore_0 pid=3) ERROR 11-21 04:56:00 [core.py:1] %s\nbye\n", line))
	write(t, dir, "stderr.txt", "srun: error: n2: task 0: Exited with exit code 1\n")
	r := only(t, collector(t), dir, state("FAILED", run.Failed))
	require.Equal(t, result.Failed, r.Status)
	require.Equal(t, "kv-cache-none", r.Failure.Cause)
	require.Contains(t, r.Failure.Line, "No available memory for the cache blocks")
	require.Equal(t, "decode", r.Failure.Role)
	require.Equal(t, "127.0.1.2", r.Failure.Node)
	require.Equal(t, "logs/decode-0.log", r.Failure.File)
	require.NotEmpty(t, r.Failure.Next)
}

// A run of CloudAI holds its files side by side and no plan.
func TestCloudAI(t *testing.T) {
	bench, err := os.ReadFile("testdata/disaggregated/raw/vllm-bench.json")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "vllm_2026-01-02_03-04-05", "vllm.Tests.1", "0")
	write(t, dir, "test-run.toml", "name = \"vllm\"\n")
	write(t, dir, "vllm-bench.json", string(bench))
	found, err := run.Find(filepath.Dir(filepath.Dir(dir)))
	require.NoError(t, err)
	require.Equal(t, []string{dir}, found)
	r := only(t, collector(t), dir, nil)
	require.Equal(t, "vllm_2026-01-02_03-04-05/vllm.Tests.1/0", r.RunID)
	require.Equal(t, "vllm.Tests.1", r.Suite)
	require.Equal(t, 64, *r.Results.CompletedRequests)
	require.Equal(t, result.Completed, r.Status)
	require.False(t, r.Simulated)

	remove(t, dir, "vllm-bench.json")
	write(t, dir, "vllm-serve.log",
		"ERROR ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n")
	r = only(t, collector(t), dir, nil)
	require.Equal(t, result.Failed, r.Status)
	require.Nil(t, r.Results.CompletedRequests)
	require.Equal(t, "serve", r.Failure.Role, "from vllm-serve.log")
}
