package run_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// someBatch carries the runs of a scenario.
func someBatch(root, kind string, rels ...string) *plan.Batch {
	b := &plan.Batch{
		Schema: plan.BatchSchema, RunID: "B", Version: "v", Scenario: "s", Dir: filepath.Join(root, run.BatchDir, "1"),
		Kind: kind, Binary: "/bin/true",
		Job: plan.Job{Name: "s.B", Comment: "profllm:B", Nodes: 1, TimeLimit: plan.Seconds(time.Hour)},
	}
	for _, rel := range rels {
		b.Runs, b.Limits = append(b.Runs, filepath.Join(root, rel)), append(b.Limits, plan.Seconds(10*time.Minute))
	}
	return b
}

// createBatch makes a scenario whose runs go together, in its directory.
func createBatch(t *testing.T, root, kind string, rels ...string) {
	t.Helper()
	var runs []run.Printed
	for _, rel := range rels {
		runs = append(runs, run.Printed{Plan: somePlan(root, rel), Script: []byte("#!/bin/bash\n")})
	}
	script := fmt.Sprintf("#!/bin/bash\n#SBATCH --array=0-%d\n", len(rels)-1)
	if kind == plan.Sequence {
		script = "#!/bin/bash\n"
	}
	require.NoError(t, run.Create(root, gone(t), runs,
		[]run.PrintedBatch{{Batch: someBatch(root, kind, rels...), Script: []byte(script)}}))
}

// covers: CD-5, CD-6
func TestCreateOrders(t *testing.T) {
	root := filepath.Join(t.TempDir(), "s")
	var runs []run.Printed
	for _, rel := range []string{"a/0", "b/0", "b/1", "c/0"} {
		runs = append(runs, run.Printed{Plan: somePlan(root, rel)})
	}
	after := func(i int, rel string) {
		p := runs[i].Plan
		p.Job.After = append(p.Job.After, plan.After{Type: "afterok", Dir: filepath.Join(root, rel)})
	}
	after(0, "c/0")
	after(0, "b/1")
	b := someBatch(root, plan.Array, "b/0", "b/1")
	b.Job.After = []plan.After{{Type: "after", Dir: filepath.Join(root, "c/0")}}
	require.NoError(t, run.Create(root, run.Scenario{}, runs, []run.PrintedBatch{{Batch: b}}))
	s, err := run.ReadScenario(root)
	require.NoError(t, err)
	require.Equal(t, []string{"c/0", "batches/1", "a/0"}, s.InOrder())
	require.Equal(t, []string{"a/0", "b/0", "b/1", "c/0"}, s.Runs)
	require.Equal(t, root+"/b/0\n"+root+"/b/1\n", read(t, filepath.Join(root, "batches/1/runs.txt")))
	require.Equal(t, []string{"x"}, run.Scenario{Runs: []string{"x"}}.InOrder(), "as older versions wrote it")

	after(3, "a/0")
	require.ErrorContains(t, run.Create(root+"2", run.Scenario{}, runs, []run.PrintedBatch{{Batch: b}}),
		"waits for itself")
	require.NoDirExists(t, root+"2")
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// A run belongs to the newest batch that lists it, also after the scenario's
// directory was moved.
func TestBook(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "was")
	createBatch(t, root, plan.Array, "a", "b", "c")
	part := someBatch(root, plan.Array, "a", "b", "c").
		Part(filepath.Join(root, "batches/12"), "B-12", time.Now(), func(i int) bool { return i == 2 })
	require.Equal(t, "s.B-12", part.Job.Name)
	require.NoError(t, run.AddBatch(part, nil))
	require.ErrorIs(t, run.AddBatch(part, nil), os.ErrExist)
	require.NoError(t, os.Mkdir(filepath.Join(root, "batches/013"), 0o755))
	require.NoError(t, os.Rename(root, filepath.Join(parent, "is")))
	root = filepath.Join(parent, "is")
	require.NoError(t, run.WriteJSON(filepath.Join(root, "batches/1/submit.json"), run.Submission{JobID: "60"}))
	var book run.Book
	ids := map[string]string{}
	for _, rel := range []string{"a", "b", "c"} {
		sub, err := book.ReadSubmission(filepath.Join(root, rel))
		if rel == "c" {
			require.ErrorIs(t, err, os.ErrNotExist, "its new batch was not submitted")
		} else {
			require.NoError(t, err)
			require.Equal(t, filepath.Join(root, "batches/1"), sub.Batch)
		}
		ids[rel] = sub.JobID
	}
	require.Equal(t, map[string]string{"a": "60_0", "b": "60_1", "c": ""}, ids)
}

// Reading a thousand runs of an array takes one file for all.
func BenchmarkBook(b *testing.B) {
	root := filepath.Join(b.TempDir(), "s")
	var rels []string
	for i := range 1000 {
		rels = append(rels, "t/"+strconv.Itoa(i))
	}
	require.NoError(b, run.FillBatch(filepath.Join(root, "batches/1"), someBatch(root, plan.Array, rels...), nil))
	require.NoError(b, run.WriteJSON(filepath.Join(root, "scenario.json"), run.Scenario{}))
	for b.Loop() {
		var book run.Book
		for _, rel := range rels {
			_, err := book.Unit(filepath.Join(root, rel))
			require.NoError(b, err)
		}
	}
}

func TestPartOfSequence(t *testing.T) {
	b := someBatch("/s", plan.Sequence, "a", "b", "c")
	p := b.Part("/s/batches/2", "N", time.Now(), func(i int) bool { return i != 1 })
	require.Equal(t, []string{"/s/a", "/s/c"}, p.Runs)
	require.Equal(t, plan.Seconds(50*time.Minute), p.Job.TimeLimit)
	require.Len(t, b.Runs, 3)
}

// The state of each run of a sequence, from that of the one job.
//
// covers: PL-S5, CD-22
func TestSettledSequence(t *testing.T) {
	for name, c := range map[string]struct {
		job         string
		claim, over bool
		code        int
		want, note  string
	}{
		"its turn comes":             {job: run.Running, want: run.Queued, note: "waits for its turn"},
		"runs":                       {job: run.Running, claim: true, want: run.Running},
		"done, the job goes on":      {job: run.Running, claim: true, over: true, want: run.Succeeded},
		"failed, the job goes on":    {job: run.Running, claim: true, over: true, code: 5, want: run.Failed},
		"done, another failed":       {job: run.Failed, claim: true, over: true, want: run.Succeeded},
		"done, then cancelled":       {job: run.Cancelled, claim: true, over: true, want: run.Succeeded},
		"cut short":                  {job: run.Cancelled, claim: true, over: true, code: 143, want: run.Cancelled},
		"cut, the job is over soon":  {job: run.Running, claim: true, over: true, code: 143, want: run.Running, note: "cut short; its job continues"},
		"cut, the job waits again":   {job: run.Queued, claim: true, over: true, code: 143, want: run.Queued},
		"cut, nobody knows":          {job: run.Unknown, claim: true, over: true, code: 143, want: run.Failed},
		"killed by another":          {job: run.Failed, claim: true, over: true, code: 143, want: run.Failed},
		"its limit, the job goes on": {job: run.Running, claim: true, over: true, code: 124, want: run.Timeout},
		"its limit, another failed":  {job: run.Failed, claim: true, over: true, code: 124, want: run.Timeout},
		"its limit, then cancelled":  {job: run.Cancelled, claim: true, over: true, code: 124, want: run.Timeout},
		"lost its node":              {job: run.NodeFail, claim: true, want: run.NodeFail},
		"killed":                     {job: run.Failed, claim: true, want: run.Failed, note: "the run left no sentinel"},
		"no turn":                    {job: run.Timeout, want: run.Cancelled, note: run.NeverRan},
		"nobody knows, it is done":   {job: run.Unknown, claim: true, over: true, want: run.Succeeded},
		"nobody knows":               {job: run.Unknown, claim: true, want: run.Unknown},
		"not begun":                  {job: run.Queued, want: run.Queued},
	} {
		dir := t.TempDir()
		if c.claim {
			require.NoError(t, run.WriteJSON(filepath.Join(dir, run.ClaimFile), run.Claim{JobID: "60"}))
		}
		if c.over {
			require.NoError(t,
				run.WriteJSON(filepath.Join(dir, run.SentinelFile), run.Sentinel{JobID: "60", Code: c.code}))
		}
		st := run.State{JobID: "60", State: c.job}.WithSentinel(dir, plan.Sequence)
		require.Equal(t, c.want, st.State, name)
		require.Equal(t, c.note, st.Note, name)
	}
}

// A condition that holds is dropped, one that cannot hold any more refuses the
// child and names its parent, and nothing unknown is handed to Slurm.
//
// covers: PL-S26, CD-6, CD-28, CD-42
func TestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		job      slurmtest.Job // of the parent
		sub      *run.Submission
		sentinel *run.Sentinel
		types    []string
		waits    string
		refused  string
		err      string
	}{
		"queued":              {job: slurmtest.Job{ID: "50", Queue: "PENDING"}, types: []string{"afterok", "after"}, waits: "afterok:50,after:50"},
		"running":             {job: slurmtest.Job{ID: "50", Queue: "RUNNING"}, types: []string{"afterok", "afterok"}, waits: "afterok:50"},
		"done":                {sentinel: &run.Sentinel{JobID: "50"}, types: []string{"afterok", "after", "afterany"}},
		"sentinel of another": {job: slurmtest.Job{ID: "50", Queue: "RUNNING"}, sentinel: &run.Sentinel{JobID: "49"}, types: []string{"afterok"}, waits: "afterok:50"},
		"failed":              {sentinel: &run.Sentinel{JobID: "50", Code: 5}, types: []string{"afterok"}, refused: "whose job 50 is over: failed, exit code 5:0"},
		"failed, but any":     {sentinel: &run.Sentinel{JobID: "50", Code: 5}, types: []string{"afterany", "after"}},
		"cancelled":           {job: slurmtest.Job{ID: "50", Acct: "CANCELLED by 0", Start: "None"}, types: []string{"afterok"}, refused: "whose job 50 is over: cancelled"},
		"unknown":             {types: []string{"afterok"}, err: "job 50 of"},
		"refused":             {sub: &run.Submission{Refused: "no such partition"}, types: []string{"after"}, refused: "which was not submitted: no such partition"},
		"no job":              {sub: &run.Submission{}, types: []string{"after"}, err: "has no job yet"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubmitter(t)
			root := filepath.Dir(filepath.Dir(s.dir))
			parent := filepath.Join(root, "parent")
			require.NoError(t, os.Mkdir(parent, 0o755))
			switch {
			case c.sub == nil:
				require.NoError(t, run.WriteJSON(filepath.Join(parent, run.SubmitFile), run.Submission{JobID: "50"}))
			case c.sub.Refused != "":
				require.NoError(t, run.WriteJSON(filepath.Join(parent, run.SubmitFile), c.sub))
			}
			if c.job.ID != "" {
				s.fake.Put(c.job)
			}
			if c.sentinel != nil {
				require.NoError(t, run.WriteJSON(filepath.Join(parent, run.SentinelFile), c.sentinel))
			}
			p, err := run.ReadPlan(s.dir)
			require.NoError(t, err)
			for _, typ := range c.types {
				p.Job.After = append(p.Job.After, plan.After{Type: typ, Dir: parent})
			}
			require.NoError(t, run.Fill(s.dir, p, nil))
			o := s.Submit(t.Context(), s.dir)
			var refused *run.RefusedError
			switch {
			case c.err != "":
				require.ErrorContains(t, o.Err, c.err)
				require.NotErrorAs(t, o.Err, &refused)
				require.NoFileExists(t, filepath.Join(s.dir, run.IntentFile), "nothing was begun")
			case c.refused != "":
				require.ErrorAs(t, o.Err, &refused)
				require.Contains(t, s.recorded(t).Refused, c.refused)
				require.Contains(t, s.recorded(t).Refused, parent)
			default:
				require.NoError(t, o.Err)
				require.Equal(t, c.waits, s.fake.Jobs()[len(s.fake.Jobs())-1].Waits)
				require.Equal(t, c.waits, strings.Join(s.recorded(t).Waits, ","))
			}
			if c.err != "" || c.refused != "" {
				require.Empty(t, s.fake.Calls("sbatch"))
			}
		})
	}
}

// Children of an array wait for one task, or for the whole of it by one id.
func TestWaitsForTasks(t *testing.T) {
	s := newSubmitter(t)
	root := filepath.Join(t.TempDir(), "s")
	createBatch(t, root, plan.Array, "a", "b", "c")
	o := s.Submit(t.Context(), filepath.Join(root, "batches/1"))
	require.NoError(t, o.Err)
	for want, rels := range map[string][]string{"afterok:60_1": {"b"}, "afterok:60_0:60_2": {"a", "c"},
		"afterok:60": {"c", "a", "b"}} {
		dir := filepath.Join(root, "child-"+strconv.Itoa(len(rels)))
		p := somePlan(root, filepath.Base(dir))
		for _, rel := range rels {
			p.Job.After = append(p.Job.After, plan.After{Type: "afterok", Dir: filepath.Join(root, rel)})
		}
		require.NoError(t, run.Fill(dir, p, nil))
		o := s.Submit(t.Context(), dir)
		require.NoError(t, o.Err)
		require.Equal(t, []string{want}, o.Submission.Waits)
	}
	require.Empty(t, s.fake.Calls("squeue"), "the job was submitted just now")
}

// A run whose job is over is submitted again: what was left is kept beside, and
// the old job is never adopted for the new one.
//
// covers: PL-D2
func TestAgain(t *testing.T) {
	s := newSubmitter(t)
	require.NoError(t, s.Submit(t.Context(), s.dir).Err)
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.ClaimFile), run.Claim{JobID: "60"}))
	require.NoError(t, run.WriteJSON(filepath.Join(s.dir, run.StateFile), run.State{JobID: "60", State: run.Cancelled}))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "raw/x.json"), nil, 0o644))
	s.fake.Put(slurmtest.Job{ID: "60", Name: jobName, Acct: "CANCELLED by 0", NodeList: "n1", Elapsed: 3})

	// The answer is lost with its command: the job is there, the record is not.
	inner, killed := s.Scheduler, errors.New("killed")
	s.Scheduler = spy{Scheduler: inner, submit: func(r run.Request) (run.Submission, error) {
		_, err := inner.Submit(t.Context(), r)
		require.NoError(t, err)
		panic(killed)
	}}
	require.Panics(t, func() { s.Again(t.Context(), s.dir, "60") })
	s.Scheduler = inner
	aside := filepath.Join(s.dir, run.AttemptDir, "1")
	for _, name := range []string{run.ClaimFile, run.StateFile, run.SubmitFile, "raw/x.json"} {
		require.FileExists(t, filepath.Join(aside, name))
	}
	require.DirExists(t, filepath.Join(s.dir, run.RawDir))
	require.NoFileExists(t, filepath.Join(s.dir, run.ClaimFile))
	o := s.Submit(t.Context(), s.dir)
	require.NoError(t, o.Err)
	require.True(t, o.Submission.Adopted)
	require.Equal(t, "61", o.Submission.JobID)
	require.Equal(t, 2, o.Submission.Attempt)

	o = s.Again(t.Context(), s.dir, "60") // somebody who has not seen it yet
	require.NoError(t, o.Err)
	require.Equal(t, "61", o.Submission.JobID)
	require.Len(t, s.fake.Calls("sbatch"), 2)
}

// arrayOfSix is a session with an array whose tasks 1 and 3 were cancelled, the
// latter before it began.
func arrayOfSix(t *testing.T) (s *session, root string) {
	t.Helper()
	s = newSession(t, slurmtest.Knobs{})
	root = filepath.Join(s.dir, "results", "s_2026-01-02_03-04-05")
	createBatch(t, root, plan.Array, "a", "b", "c", "d", "e", "f")
	code, stdout, _ := s.profllm("slurm", "resume", root)
	require.Zero(t, code)
	require.Contains(t, stdout, "submitted job 60")
	s.Put(slurmtest.Job{ID: "60_1", Name: "s.B", Acct: "CANCELLED by 0", Queue: "CANCELLED", NodeList: "n1",
		Start: "2026-01-02T03:04:05", Elapsed: 3})
	s.Put(slurmtest.Job{ID: "60_3"})
	require.NoError(t, run.WriteJSON(filepath.Join(root, "b", run.ClaimFile), run.Claim{JobID: "60_1"}))
	return s, root
}

// requireResumed checks that exactly the two went into one more array.
func (s *session) requireResumed(root string) {
	s.t.Helper()
	require.Len(s.t, s.Jobs(), 2, "one array more, whoever submitted it")
	require.Equal(s.t, 2, s.Jobs()[1].Size)
	var book run.Book
	for rel, id := range map[string]string{"a": "60_0", "b": "61_0", "c": "60_2", "d": "61_1", "e": "60_4",
		"f": "60_5"} {
		sub, err := book.ReadSubmission(filepath.Join(root, rel))
		require.NoError(s.t, err, rel)
		require.Equal(s.t, id, sub.JobID, rel)
	}
	numbers, err := run.Batches(root)
	require.NoError(s.t, err)
	require.Equal(s.t, []int{1, 2}, numbers)
	var claim run.Claim
	claims, err := filepath.Glob(filepath.Join(root, "b", run.AttemptDir, "*", run.ClaimFile))
	require.NoError(s.t, err)
	require.Len(s.t, claims, 1) // in the second, if the first command was killed as it moved things
	require.NoError(s.t, run.ReadJSON(claims[0], &claim))
	require.Equal(s.t, "60_1", claim.JobID)
	require.NoFileExists(s.t, filepath.Join(root, "b", run.ClaimFile), "the old job's claim must not stop the new one")
	require.NoDirExists(s.t, filepath.Join(root, "a", run.AttemptDir), "what goes on is left alone")
}

// A resume that is killed with KILL, wherever, submits what is missing of an
// array once.
//
// covers: PL-D2, PL-S22
func TestResumeArrayKilled(t *testing.T) {
	wholeProgram(t)
	for _, at := range []string{"batches/2", "batches/2/intent.json", "batches/2/submit.json", "gate before",
		"gate accepted", "gate answered"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s, root := arrayOfSix(t)
			gate, gated := strings.CutPrefix(at, "gate ")
			if gated {
				s.Set(slurmtest.Knobs{Gate: gate})
			}
			cmd := s.command("slurm", "resume", "--settle", "10ms", root)
			require.NoError(t, cmd.Start())
			await.True(t, func() bool {
				if gated {
					return s.Reached(gate) > 0
				}
				_, err := os.Stat(filepath.Join(root, at))
				return err == nil
			}, "the command has come to where it is killed")
			require.NoError(t, cmd.Process.Kill())
			cmd.Wait()
			if gated {
				if gate == "before" {
					require.NoError(t, syscall.Kill(s.Reached(gate), syscall.SIGKILL))
				}
				s.Open()
				await.True(t, func() bool { return s.programs() == 0 }, "no program of Slurm runs")
			} else {
				s.settled()
			}
			code, _, _ := s.profllm("slurm", "resume", "--settle", "10ms", root)
			require.Zero(t, code)
			s.requireResumed(root)
			code, stdout, stderr := s.profllm("slurm", "resume", "--settle", "10ms", root)
			require.Zero(t, code)
			require.Empty(t, stdout, "nothing is missing")
			require.Contains(t, stderr, "6 runs left alone: queued")
		})
	}
}

// covers: PL-D2
func TestTwoResumeAnArray(t *testing.T) {
	wholeProgram(t)
	s, root := arrayOfSix(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { s.profllm("slurm", "resume", "--settle", "50ms", root) })
	}
	wg.Wait()
	code, _, _ := s.profllm("slurm", "resume", "--settle", "10ms", root)
	require.Zero(t, code)
	s.requireResumed(root)
}

// Two that resume the same run after its job was cancelled submit it once.
//
// covers: PL-D2
func TestTwoResumeARun(t *testing.T) {
	wholeProgram(t)
	for round := range 3 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			s := newSession(t, slurmtest.Knobs{})
			code, _, _ := s.profllm(submit...)
			require.Zero(t, code)
			j := s.Jobs()[0]
			j.Queue, j.Acct, j.Start = "CANCELLED", "CANCELLED by 0", "None"
			s.Put(j)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { s.profllm("slurm", "resume", "--settle", "50ms", s.root()) })
			}
			wg.Wait()
			code, _, _ = s.profllm("slurm", "resume", "--settle", "10ms", s.root())
			require.Zero(t, code)
			require.Equal(t, 2, s.Submissions(j.Name), "the cancelled one and one more")
			require.Len(t, s.Jobs(), 4)
		})
	}
}

// What counts as missing.
func TestResumeDecides(t *testing.T) {
	wholeProgram(t)
	for name, c := range map[string]struct {
		job    slurmtest.Job
		again  bool
		failed bool // with --failed
	}{
		"running":     {slurmtest.Job{Queue: "RUNNING"}, false, false},
		"node failed": {slurmtest.Job{Acct: "NODE_FAIL"}, true, true},
		"preempted":   {slurmtest.Job{Acct: "PREEMPTED"}, true, true},
		"boot failed": {slurmtest.Job{Acct: "BOOT_FAIL"}, true, true},
		"deadline":    {slurmtest.Job{Acct: "DEADLINE"}, true, true},
		"failed":      {slurmtest.Job{Acct: "FAILED", ExitCode: "1:0", NodeList: "n1", Elapsed: 9}, false, true},
		"timeout":     {slurmtest.Job{Acct: "TIMEOUT", NodeList: "n1", Elapsed: 9}, false, true},
		"memory":      {slurmtest.Job{Acct: "OUT_OF_MEMORY", NodeList: "n1", Elapsed: 9}, false, true},
		"forgotten":   {slurmtest.Job{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, slurmtest.Knobs{})
			code, _, _ := s.profllm(submit...)
			require.Zero(t, code)
			job := s.Jobs()[0]
			c.job.ID, c.job.Name = job.ID, job.Name
			s.Put(c.job)
			count := 1
			for _, args := range [][]string{{}, {"--failed"}} {
				if len(args) == 0 && c.again || len(args) > 0 && c.failed && !c.again {
					count++
				}
				code, _, _ = s.profllm(append([]string{"slurm", "resume", s.root()}, args...)...)
				require.Zero(t, code)
				require.Equal(t, count, s.Submissions(job.Name), "%v", args)
			}
		})
	}
}
