package run_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/internal/killtest"
	"github.com/profllm/profllm/pkg/internal/slurmtest"
	"github.com/profllm/profllm/pkg/run"
)

// everyVar asks for a kill at every change, instead of one of each kind: minutes
// instead of seconds.
const everyVar = "PROFLLM_KILL_EVERY"

const oneRun = `name = "kill"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 1
time_limit = "5m"
`

const aChain = oneRun + `[[Tests]]
id = "b"
test_template_name = "vllm"
num_nodes = 1
time_limit = "5m"
dependencies = [{ type = "start_post_comp", id = "a" }]
`

const anArray = oneRun + `[Tests.cmd_args.decode]
tensor_parallel_size = [1, 2]
`

// crash is a situation, and a command that is killed in it.
type crash struct {
	scenario string
	before   func(s *session) // brings the situation about
	command  []string         // ROOT stands for the scenario's directory
	env      []string
	codes    []int // with which the next one may end as well
	check    func(s *session)
}

func resume(more ...string) []string {
	return append([]string{"slurm", "resume", "--settle", "10ms", "ROOT"}, more...)
}

func submitted(s *session) {
	code, _, _ := s.profllm(submit...)
	require.Zero(s.t, code)
}

// cancelled submits, lets the jobs begin, and cancels them.
func cancelled(s *session) {
	submitted(s)
	for i, j := range s.Jobs() {
		dirs := s.runDirs()
		j.Queue, j.Acct, j.Start, j.NodeList = "RUNNING", "RUNNING", "2026-01-01T00:00:00", "n1"
		s.Put(j)
		if j.Size > 0 {
			s.began(dirs[0], j.ID+"_0")
		} else {
			s.began(dirs[i], j.ID)
		}
	}
	code, _, _ := s.profllm("slurm", "cancel", s.root())
	require.Zero(s.t, code)
}

var confirm = []string{"confirm", "kill.toml#a", "kill.toml#b", "--pairs", "6", "--simulate", "--system", "local.toml",
	"--settle", "10ms"}

// confirmed submits two tests in turns, and lets their job come to an end.
func confirmed(s *session) {
	code, _, _ := s.profllm(confirm...)
	require.Zero(s.t, code)
	j := s.Jobs()[0]
	for _, dir := range s.runDirs() {
		s.began(dir, j.ID)
		end := run.Sentinel{Schema: "profllm.finish/1", JobID: j.ID, Time: time.Unix(1e9+60, 0)}
		require.NoError(s.t, run.WriteJSON(filepath.Join(dir, run.SentinelFile), end))
	}
	j.Queue, j.Acct, j.Start, j.End, j.Elapsed, j.NodeList = "", "COMPLETED", "2026-01-01T00:00:00", "2026-01-01T00:12:00", 720, "n1"
	s.Put(j)
}

// began leaves what a job leaves that began.
func (s *session) began(dir, job string) {
	s.t.Helper()
	require.NoError(s.t, run.WriteJSON(filepath.Join(dir, run.ClaimFile),
		run.Claim{Schema: "profllm.claim/1", JobID: job, Time: time.Unix(1e9, 0)}))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, run.RawDir, "x"), []byte(job), 0o644))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, run.LogDir, "x"), []byte(job), 0o644))
}

// finished submits, and lets the jobs come to a good end.
func finished(s *session) { s.finished() }

func (s *session) finished(flags ...string) {
	s.t.Helper()
	code, _, _ := s.profllm(append(slices.Clone(submit), flags...)...)
	require.Zero(s.t, code)
	for i, j := range s.Jobs() {
		s.began(s.runDirs()[i], j.ID)
		end := run.Sentinel{Schema: "profllm.finish/1", JobID: j.ID, Time: time.Unix(1e9+60, 0)}
		require.NoError(s.t, run.WriteJSON(filepath.Join(s.runDirs()[i], run.SentinelFile), end))
		j.Queue, j.Acct, j.Start, j.End, j.Elapsed, j.NodeList = "", "COMPLETED", "2026-01-01T00:00:00", "2026-01-01T00:01:00", 60, "n1"
		s.Put(j)
	}
}

func (s *session) runDirs() []string {
	s.t.Helper()
	dirs, err := run.Find(filepath.Join(s.dir, "results"))
	require.NoError(s.t, err)
	return dirs
}

// twice checks that each run was submitted once more, that the newest job is on
// record, and that what the first left is in attempts/, all of it.
func twice(s *session) {
	for _, dir := range s.runDirs() {
		p, err := run.ReadPlan(dir)
		require.NoError(s.t, err)
		require.Equal(s.t, 2, s.Submissions(p.Job.Name))
		var sub run.Submission
		require.NoError(s.t, run.ReadJSON(filepath.Join(dir, run.SubmitFile), &sub))
		jobs := s.Jobs()
		require.Equal(s.t, slices.IndexFunc(jobs,
			func(j slurmtest.Job) bool { return j.ID == sub.JobID && j.Queue == "PENDING" }) >= 0, true,
			"the job of %s", dir)
		require.DirExists(s.t, filepath.Join(dir, run.RawDir))
		require.DirExists(s.t, filepath.Join(dir, run.LogDir))
		for _, name := range []string{"raw/x", "logs/x", run.ClaimFile, run.SubmitFile} {
			require.NoFileExists(s.t, filepath.Join(dir, "raw", "x"))
			left, err := filepath.Glob(filepath.Join(dir, run.AttemptDir, "*", name))
			require.NoError(s.t, err)
			require.Len(s.t, left, 1, name)
		}
	}
}

// crashes are the verbs that change something.
var crashes = map[string]crash{
	"submit": {scenario: oneRun, command: submit, check: (*session).requireNoStrangers},
	"submit a chain": {scenario: aChain, command: submit, check: func(s *session) {
		s.requireNoStrangers()
		jobs := s.Jobs()
		require.Len(s.t, jobs, 2*len(s.roots()))
		for i := 0; i < len(jobs); i += 2 {
			require.Equal(s.t, "afterok:"+jobs[i].ID, jobs[i+1].Waits)
		}
	}},
	"submit an array":   {scenario: anArray, command: submit, check: (*session).requireUnits},
	"submit a sequence": {scenario: threeRuns, command: append(submit[:len(submit):len(submit)], "--single-sbatch"), check: (*session).requireUnits},
	"confirm":           {scenario: threeRuns, command: confirm, check: (*session).requireUnits},
	"confirm, its runs being over": {scenario: threeRuns, before: confirmed, command: []string{"confirm", "ROOT"}, check: func(s *session) {
		s.requireUnits()
		require.FileExists(s.t, filepath.Join(s.root(), "first/a/0", run.ResultFile))
		require.Contains(s.t, s.said, "Verdict: a and b (simulated)")
	}},
	"resume": {scenario: oneRun, before: cancelled, command: resume(), check: twice},
	"resume an array": {scenario: anArray, before: cancelled, command: resume(), check: func(s *session) {
		jobs := s.Jobs()
		require.Len(s.t, jobs, 2, "the array, and once more what was missing")
		require.NotEqual(s.t, jobs[0].Name, jobs[1].Name)
		var book run.Book
		for i, dir := range s.runDirs() {
			sub, err := book.ReadSubmission(dir)
			require.NoError(s.t, err)
			require.Equal(s.t, []string{"61_0", "61_1"}[i], sub.JobID)
		}
	}},
	"cancel": {scenario: threeRuns, before: submitted, command: []string{"slurm", "cancel", "ROOT"}, check: func(s *session) {
		for _, j := range s.Jobs() {
			require.Equal(s.t, "CANCELLED", j.Queue)
		}
		s.requireOneJobEach()
	}},
	"status": {scenario: threeRuns, before: func(s *session) {
		submitted(s)
		require.NoError(s.t, os.Remove(filepath.Join(s.root(), "a/0", run.SubmitFile)))
	}, command: []string{"slurm", "status", "ROOT"}, check: (*session).requireOneJobEach},
	"collect": {scenario: oneRun, before: finished, command: []string{"collect", "ROOT"}, check: func(s *session) {
		require.FileExists(s.t, filepath.Join(s.root(), "a/0", run.ResultFile))
	}},
	"nightly": {scenario: oneRun, command: []string{"nightly", "kill.toml", "--simulate", "--system", "local.toml", "--settle", "10ms"}, check: func(s *session) {
		s.requireNoStrangers()
		require.Len(s.t, s.Jobs(), 1, "the next call goes on with the same night")
	}},
	"nightly, the last night being over": {scenario: oneRun, before: func(s *session) { s.finished("--time", "2026-01-01T00:00:00Z") }, command: []string{"nightly", "kill.toml", "--simulate", "--system", "local.toml", "--settle", "10ms"}, codes: []int{0}, check: func(s *session) { // 0: it was told already
		require.Contains(s.t, s.said, "kill of 2", "somebody was told of that night")
		require.Len(s.t, s.Jobs(), 2)
		told, err := filepath.Glob(filepath.Join(s.dir, "results/*/nightly.json"))
		require.NoError(s.t, err)
		require.Len(s.t, told, 1)
	}},
	"job start": {scenario: oneRun, before: submitted, command: []string{"job", "start", "--run", "ROOT/a/0"}, env: []string{"SLURM_JOB_ID=60"}, check: func(s *session) {
		var claim run.Claim
		require.NoError(s.t, run.ReadJSON(filepath.Join(s.root(), "a/0", run.ClaimFile), &claim))
		require.Equal(s.t, "60", claim.JobID)
		require.DirExists(s.t, filepath.Join(s.root(), "a/0", run.RawDir))
		require.DirExists(s.t, filepath.Join(s.root(), "a/0", run.LogDir))
	}},
	"job finish": {scenario: oneRun, before: func(s *session) {
		submitted(s)
		s.began(s.runDirs()[0], "60")
	}, command: []string{"job", "finish", "--run", "ROOT/a/0", "--code", "0", "bench=0"},
		env: []string{"SLURM_JOB_ID=60"}, check: func(s *session) {
			var end run.Sentinel
			require.NoError(s.t, run.ReadJSON(filepath.Join(s.root(), "a/0", run.SentinelFile), &end))
			require.Equal(s.t, "60", end.JobID)
			require.FileExists(s.t, filepath.Join(s.root(), "a/0", run.ResultFile))
		}},
	"job start behind a requeue": {scenario: oneRun, before: func(s *session) {
		submitted(s)
		s.began(s.runDirs()[0], "60")
	}, command: []string{"job", "start", "--run", "ROOT/a/0"}, env: []string{"SLURM_JOB_ID=60"},
		check: func(s *session) {
			dir := filepath.Join(s.root(), "a/0")
			require.NoFileExists(s.t, filepath.Join(dir, "raw/x"))
			for _, name := range []string{"raw/x", "logs/x"} {
				left, err := filepath.Glob(filepath.Join(dir, run.AttemptDir, "*", name))
				require.NoError(s.t, err)
				require.Len(s.t, left, 1, name)
			}
			require.DirExists(s.t, filepath.Join(dir, run.LogDir))
		}},
	"archive": {scenario: oneRun, before: archived, command: []string{"archive", "ROOT"}, codes: []int{2}, check: func(s *session) {
		code, _, _ := s.profllm("archive", "--list", s.archive())
		require.Zero(s.t, code)
		require.DirExists(s.t, s.root())
	}},
	"archive and remove": {scenario: oneRun, before: archived, command: []string{"archive", "--remove", "ROOT"}, codes: []int{2}, check: func(s *session) {
		code, _, _ := s.profllm("archive", "--list", s.archive())
		require.Zero(s.t, code)
		require.NoDirExists(s.t, strings.TrimSuffix(s.archive(), ".tar.xz"))
	}},
}

// archived makes a finished scenario that is not asked about any more.
func archived(s *session) {
	finished(s)
	s.profllm("collect", s.root())
}

func (s *session) archive() string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "results", "*.tar.xz"))
	require.NoError(s.t, err)
	require.Len(s.t, files, 1)
	return files[0]
}

// requireUnits checks that what goes together was submitted once.
func (s *session) requireUnits() {
	s.t.Helper()
	for _, root := range s.roots() {
		u, err := run.ReadUnit(filepath.Join(filepath.Dir(root), "batches/1"))
		require.NoError(s.t, err)
		require.Equal(s.t, 1, s.Submissions(u.Job().Name))
		var sub run.Submission
		require.NoError(s.t, run.ReadJSON(filepath.Join(u.Dir, run.SubmitFile), &sub))
		require.True(s.t, slices.ContainsFunc(s.Jobs(),
			func(j slurmtest.Job) bool { return j.ID == sub.JobID && j.Name == u.Job().Name }))
	}
	require.Len(s.t, s.Jobs(), len(s.roots()))
}

// start brings a crash's situation about, and returns the command's arguments.
func (c crash) start(t *testing.T) (s *session, args []string) {
	s = newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(c.scenario), 0o644))
	root := "" // of the one scenario
	if c.before != nil {
		c.before(s)
		root = s.root()
	}
	for _, a := range c.command {
		args = append(args, strings.Replace(a, "ROOT", root, 1))
	}
	return s, args
}

// save copies what the user and Slurm have, and returns where.
func (s *session) save() string {
	s.t.Helper()
	saved := s.t.TempDir()
	for name, dir := range map[string]string{"user": s.dir, "slurm": s.Dir()} {
		require.NoError(s.t, exec.Command("cp", "-a", dir, filepath.Join(saved, name)).Run())
	}
	return saved
}

// restore brings back what was saved, in the same place.
func (s *session) restore(saved string) {
	s.t.Helper()
	for name, dir := range map[string]string{"user": s.dir, "slurm": s.Dir()} {
		require.NoError(s.t, os.RemoveAll(dir))
		require.NoError(s.t, exec.Command("cp", "-a", filepath.Join(saved, name), dir).Run())
	}
}

// points are the changes to be killed at: all, or one of each kind, in turn the first and the last. What is made under
// another name is of one kind.
func points(changes []killtest.Change) []int {
	var every []int
	var kinds []string
	first, last := map[string]int{}, map[string]int{}
	for i, c := range changes {
		every = append(every, i+1)
		kind := c.Kind()
		if strings.Contains(c.Path, ".partial-") {
			kind = c.Call + " partial"
		}
		if first[kind] == 0 {
			kinds, first[kind] = append(kinds, kind), i+1
		}
		last[kind] = i + 1
	}
	if os.Getenv(everyVar) != "" {
		return every
	}
	var list []int
	for i, kind := range kinds {
		list = append(list, []int{first[kind], last[kind]}[i%2])
	}
	slices.Sort(list)
	return list
}

// Each verb is killed before each of its changes: of a file, or the start of
// another program. What is left is whole; the next ordinary command goes on, adopts,
// submits nothing twice, and takes away what lay around.
//
// covers: PL-D2, PL-S22, PL-S26
func TestKilledAtEveryChange(t *testing.T) {
	wholeProgram(t)
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, args := c.start(t)
			before := s.save()
			cmd := s.command(args...)
			cmd.Env = append(cmd.Env, c.env...)
			out := s.capture(cmd)
			changes, code, err := killtest.Run(cmd, 0)
			require.NoError(t, err)
			s.said = out()
			c.check(s)
			s.requireTidy()
			list := points(changes)
			t.Logf("killed before %d of %d changes: one of each kind (make test-kill: before each)", len(list), len(changes))
			for _, n := range list {
				s.restore(before)
				c.killedAt(s, args, n, code)
			}
		})
	}
}

// killedAt makes one kill of the command; code is that of the command when nothing goes wrong.
func (c crash) killedAt(s *session, args []string, n, code int) {
	t := s.t
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, c.env...)
	said := s.capture(cmd)
	changes, got, err := killtest.Run(cmd, n)
	require.NoError(t, err)
	if got >= 0 {
		return // it needed fewer changes this time
	}
	defer func() {
		if t.Failed() {
			t.Logf("killed before change %d: %s", n, changes[len(changes)-1])
		}
	}()
	s.settled()
	s.requireWhole()
	next := s.command(args...)
	next.Env = append(next.Env, c.env...)
	out, _ := next.CombinedOutput()
	t.Logf("killed before %s; then exit %d\n%s", changes[len(changes)-1], next.ProcessState.ExitCode(), out)
	s.said = said() + string(out)
	require.Contains(t, append(c.codes, code), next.ProcessState.ExitCode())
	c.check(s)
	s.requireTidy()
}

// capture sends what a command prints to a file.
func (s *session) capture(cmd *exec.Cmd) (text func() string) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.t.TempDir(), "out"))
	require.NoError(s.t, err)
	cmd.Stdout, cmd.Stderr = f, f
	return func() string {
		require.NoError(s.t, f.Close())
		return read(s.t, f.Name())
	}
}

// requireWhole checks that every JSON file of ours parses, under its own name.
func (s *session) requireWhole() {
	s.t.Helper()
	require.NoError(s.t, s.whole())
}

func (s *session) whole() error {
	return filepath.WalkDir(filepath.Join(s.dir, "results"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") || strings.HasPrefix(d.Name(), ".") ||
			filepath.Base(filepath.Dir(path)) == run.RawDir {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) { // an attempt is set aside
			return nil
		}
		if err == nil && !json.Valid(data) {
			err = fmt.Errorf("%s: %q", path, data)
		}
		return err
	})
}

// requireTidy checks that nothing unfinished lies around.
func (s *session) requireTidy() {
	s.t.Helper()
	require.NoError(s.t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		require.NotContains(s.t, path, ".tmp-")
		require.NotContains(s.t, path, ".partial-")
		return err
	}))
}
