package run_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

const threeRuns = `name = "kill"
[[Tests]]
id = "a"
test_template_name = "vllm"
num_nodes = 1
time_limit = "5m"
[[Tests]]
id = "b"
test_template_name = "vllm"
num_nodes = 1
time_limit = "5m"
[[Tests]]
id = "c"
test_template_name = "vllm"
num_nodes = 1
time_limit = "5m"
`

// session is a user with a scenario of three runs in front of a fake Slurm.
type session struct {
	*slurmtest.Slurm
	t    *testing.T
	dir  string
	said string // by the command that was killed, and by the next
}

func newSession(t *testing.T, k slurmtest.Knobs) *session {
	t.Helper()
	wholeProgram(t)
	s := &session{Slurm: slurmtest.New(t), t: t, dir: t.TempDir()}
	s.Set(k)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(threeRuns), 0o644))
	system, err := os.ReadFile("../../conf/local.toml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "local.toml"), system, 0o644))
	return s
}

func (s *session) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.Env(os.Environ())
	return cmd
}

// A job that is going to show does so before the test goes on, so that the pause
// between two looks needs no length.
var submit = []string{"slurm", "submit", "--simulate", "--system", "local.toml", "--settle", "10ms", "kill.toml"}

// profllm runs a command to its end.
func (s *session) profllm(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	cmd := s.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.t.Logf("profllm %s: exit %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(),
		errs.String())
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// wholeProgram marks a test that runs, and kills, the built program: -short, which
// the race detector's run uses, has nothing to find there.
func wholeProgram(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole program: not with -short")
	}
}

// killAt starts a submission and kills it as soon as the condition holds.
func (s *session) killAt(condition func() bool) {
	s.t.Helper()
	cmd := s.command(submit...)
	require.NoError(s.t, cmd.Start())
	await.True(s.t, condition, "the submission has come to where it is killed")
	require.NoError(s.t, cmd.Process.Kill())
	cmd.Wait()
}

// root is the one scenario directory.
func (s *session) root() string {
	s.t.Helper()
	roots, err := filepath.Glob(filepath.Join(s.dir, "results", "*", "scenario.json"))
	require.NoError(s.t, err)
	require.Len(s.t, roots, 1, "the interrupted submission goes on; there is no second directory")
	return filepath.Dir(roots[0])
}

// requireOneJobEach checks the promise: each run has exactly one job, and its
// record names it.
func (s *session) requireOneJobEach() {
	s.t.Helper()
	dirs, err := run.Find(s.root())
	require.NoError(s.t, err)
	require.Len(s.t, dirs, 3)
	require.Len(s.t, s.Jobs(), 3, "no job without a record")
	for _, dir := range dirs {
		p, err := run.ReadPlan(dir)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, s.Submissions(p.Job.Name), p.Job.Name)
		var sub run.Submission
		require.NoError(s.t, run.ReadJSON(filepath.Join(dir, run.SubmitFile), &sub))
		for _, j := range s.Jobs() {
			if j.Name == p.Job.Name {
				require.Equal(s.t, j.ID, sub.JobID)
				require.Equal(s.t, "profllm:"+p.RunID, j.Comment)
			}
		}
	}
}

// A submission killed with KILL around sbatch loses no job and makes no second.
//
// covers: PL-D2, PL-S20, PL-S22, CD-24
func TestKilledAroundSbatch(t *testing.T) {
	wholeProgram(t)
	for name, c := range map[string]struct {
		knobs   slurmtest.Knobs
		orphan  bool // sbatch goes on after its parent was killed
		adopted bool
	}{
		"before it was accepted, sbatch killed as well": {slurmtest.Knobs{Gate: "before"}, false, false},
		"before it was accepted, sbatch goes on":        {slurmtest.Knobs{Gate: "before"}, true, true},
		"accepted, not answered":                        {slurmtest.Knobs{Gate: "accepted"}, false, true},
		"accepted, shows at the second look":            {slurmtest.Knobs{Gate: "accepted", HiddenLooks: 1}, false, true},
		"accepted, only squeue knows":                   {slurmtest.Knobs{Gate: "accepted", NoAccounting: true}, true, true},
		"answered":                                      {slurmtest.Knobs{Gate: "answered"}, true, true},
	} {
		for _, again := range []string{"submit", "resume", "status"} {
			t.Run(name+"/"+again, func(t *testing.T) {
				t.Parallel()
				s := newSession(t, c.knobs)
				s.killAt(func() bool { return s.Reached(c.knobs.Gate) > 0 })
				require.NoFileExists(t, filepath.Join(s.root(), "a/0", run.SubmitFile))
				if !c.orphan {
					require.NoError(t, syscall.Kill(s.Reached(c.knobs.Gate), syscall.SIGKILL))
				}
				s.Open()
				if c.adopted {
					await.True(t, func() bool { return len(s.Jobs()) == 1 }, "the job is queued")
				}

				args := submit
				switch again {
				case "resume":
					args = []string{"slurm", "resume", "--settle", "10ms", s.root()}
				case "status":
					code, _, _ := s.profllm("slurm", "status", s.root())
					require.Zero(t, code)
					if c.adopted && c.knobs.HiddenLooks == 0 {
						var sub run.Submission
						require.NoError(t, run.ReadJSON(filepath.Join(s.root(), "a/0", run.SubmitFile), &sub))
						require.Equal(t, "60", sub.JobID)
					}
				}
				code, stdout, _ := s.profllm(args...)
				require.Zero(t, code)
				s.requireOneJobEach()
				require.Equal(t, c.adopted, strings.Contains(stdout, "adopted job 60"))
				if !c.adopted {
					var second run.Intent
					require.NoError(t, run.ReadJSON(filepath.Join(s.root(), "a/0/intent-2.json"), &second))
					require.Equal(t, 2, second.Attempt)
				}
			})
		}
	}
}

// settled waits until the orphan of a killed submission, if there is one, is done:
// what was asked of the controller is there.
func (s *session) settled() {
	s.t.Helper()
	await.True(s.t, func() bool { return len(s.Jobs()) == len(s.Calls("sbatch")) && s.programs() == 0 },
		"no program of Slurm runs, and each sbatch made a job")
}

// programs counts the processes in front of this session's Slurm.
func (s *session) programs() int {
	n := 0
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		env, err := os.ReadFile(name)
		if err == nil && process.Start(pid) != "" && bytes.Contains(env, []byte("PROFLLM_SLURMTEST="+s.Dir()+"\x00")) {
			n++
		}
	}
	return n
}

func (s *session) roots() []string {
	roots, err := filepath.Glob(filepath.Join(s.dir, "results", "*", "scenario.json"))
	require.NoError(s.t, err)
	return roots
}

// requireNoStrangers checks that every job belongs to one run, with a record.
func (s *session) requireNoStrangers() {
	s.t.Helper()
	dirs, err := run.Find(filepath.Join(s.dir, "results"))
	require.NoError(s.t, err)
	known := map[string]string{}
	for _, dir := range dirs {
		var sub run.Submission
		require.NoError(s.t, run.ReadJSON(filepath.Join(dir, run.SubmitFile), &sub), dir)
		require.NotContains(s.t, known, sub.JobID, "two runs with one job")
		known[sub.JobID] = dir
		p, err := run.ReadPlan(dir)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, s.Submissions(p.Job.Name))
	}
	require.Len(s.t, s.Jobs(), len(known))
}

// Two commands that go on with the same runs submit each once.
//
// covers: PL-D2
func TestTwoResumeAtOnce(t *testing.T) {
	wholeProgram(t)
	for round := range 3 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			s := newSession(t, slurmtest.Knobs{Gate: "before"})
			s.killAt(func() bool { return s.Reached("before") > 0 })
			require.NoError(t, syscall.Kill(s.Reached("before"), syscall.SIGKILL))
			s.Set(slurmtest.Knobs{})
			var wg sync.WaitGroup
			resume := []string{"slurm", "resume", "--settle", "50ms", s.root()}
			for range 3 {
				wg.Go(func() { s.profllm(resume...) })
			}
			wg.Wait()
			code, _, _ := s.profllm(resume...)
			require.Zero(t, code)
			s.requireOneJobEach()
		})
	}
}

// watched does things at once while somebody reads all records, which are whole at
// any instant. It returns what each printed behind its exit code.
func (s *session) watched(commands ...[]string) []string {
	s.t.Helper()
	stop, read := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				read <- nil
				return
			default:
				err = s.whole()
			}
		}
		read <- err
	}()
	said := make([]string, len(commands))
	var wg sync.WaitGroup
	for i, args := range commands {
		wg.Go(func() {
			cmd := s.command(args...)
			out, _ := cmd.CombinedOutput()
			said[i] = fmt.Sprintf("%d %s", cmd.ProcessState.ExitCode(), out)
		})
	}
	wg.Wait()
	close(stop)
	require.NoError(s.t, <-read)
	return said
}

// times is a list of the same.
func times[T any](n int, v T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// Of eight that take the same name one submits, of eight that resume one does; the
// others say what happened.
//
// covers: PL-D2
func TestEightAtOnce(t *testing.T) {
	wholeProgram(t)
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	done := 0
	for _, said := range s.watched(times(8, append(submit[:len(submit):len(submit)], "--time", thatTime))...) {
		if strings.HasPrefix(said, "0 ") {
			done++
			continue
		}
		require.Regexp(t, `(?s)^4 .*(--time names this directory|another command .*is submitting this run)`, said)
	}
	require.Positive(t, done)
	require.Len(t, s.Jobs(), 1)
	s.requireNoStrangers()
	s.requireTidy()

	s.began(s.runDirs()[0], "60")
	j := s.Jobs()[0]
	j.Queue, j.Acct, j.Start, j.NodeList = "CANCELLED", "CANCELLED by 0", "2026-01-01T00:00:00", "n1"
	s.Put(j)
	for _, said := range s.watched(times(8, []string{"slurm", "resume", "--settle", "50ms", s.root()})...) {
		if !strings.HasPrefix(said, "0 ") {
			require.Regexp(t, `(?s)^4 .*another command .*is submitting this run`, said)
		}
	}
	twice(s)
	s.requireTidy()
}

// One that follows another within a second takes the next second's name.
//
// covers: PL-D2
func TestSubmitWithinASecond(t *testing.T) {
	wholeProgram(t)
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	for taken := range 3 { // of the next seconds
		at := time.Now().Add(time.Duration(taken) * time.Second)
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "results", "kill_"+at.Format("2006-01-02_15-04-05")),
			0o755))
	}
	code, _, stderr := s.profllm(submit...)
	require.Zero(t, code, stderr)
	require.Len(t, s.Jobs(), 1)
	require.Len(t, s.roots(), 1)
}

// Eight collect, two archive, and the job still writes.
func TestCollectAtOnce(t *testing.T) {
	wholeProgram(t)
	s := newSession(t, slurmtest.Knobs{})
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "kill.toml"), []byte(oneRun), 0o644))
	finished(s)
	dir := s.runDirs()[0]
	stop, wrote := make(chan struct{}), make(chan error)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				wrote <- nil
				return
			default:
			}
			err := errors.Join(
				run.WriteJSON(filepath.Join(dir, run.PlacementFile),
					run.Placement{Schema: "profllm.placement/1", JobID: "60", Slot: n}),
				os.WriteFile(filepath.Join(dir, run.RawDir, "vllm-bench.json"), []byte(`{"date": "2026`), 0o644))
			if err != nil {
				wrote <- err
				return
			}
		}
	}()
	for i, said := range s.watched(append(times(8, []string{"collect", s.root()}),
		times(2, []string{"archive", s.root()})...)...) {
		if i < 8 {
			require.Regexp(t, `(?s)^[56] .*failed, invalid`, said)
		} else {
			require.Regexp(t, `read back and compared|file already exists|changed while it was read|differs in|entries were written|no such file`, said)
		}
	}
	close(stop)
	require.NoError(t, <-wrote)
	first, _, _ := s.profllm("collect", s.root())
	record := read(t, filepath.Join(dir, run.ResultFile))
	second, _, _ := s.profllm("collect", s.root())
	require.Equal(t, first, second)
	require.Equal(t, record, read(t, filepath.Join(dir, run.ResultFile)))
	s.requireTidy()
}

// Who cancels while another command submits is told that more is to come.
func TestCancelWhileSubmitting(t *testing.T) {
	wholeProgram(t)
	s := newSession(t, slurmtest.Knobs{Gate: "accepted"})
	cmd := s.command(submit...)
	require.NoError(t, cmd.Start())
	await.True(t, func() bool { return s.Reached("accepted") > 0 }, "sbatch has accepted the job")
	code, _, stderr := s.profllm("slurm", "cancel", s.root())
	require.Equal(t, 5, code)
	require.Contains(t, stderr, fmt.Sprintf("b/0: another command (process %d on", cmd.Process.Pid))
	require.Contains(t, stderr, "hint: end that command or wait for it, then run cancel again")
	require.Equal(t, "CANCELLED", s.Jobs()[0].Queue, "what is there is cancelled")
	s.Open()
	require.NoError(t, cmd.Wait())
	code, _, _ = s.profllm("slurm", "cancel", s.root())
	require.Zero(t, code)
	for _, j := range s.Jobs() {
		require.Equal(t, "CANCELLED", j.Queue)
	}
	s.requireOneJobEach()
}

// covers: PL-D2
func TestTwoSubmitAtOnce(t *testing.T) {
	wholeProgram(t)
	s := newSession(t, slurmtest.Knobs{})
	var wg sync.WaitGroup
	codes := make([]int, 3)
	for i := range codes {
		wg.Go(func() { codes[i], _, _ = s.profllm(submit...) })
	}
	wg.Wait()
	done := 0
	for _, c := range codes {
		require.Contains(t, []int{0, 4}, c, "submitted, or told that the name is taken")
		if c == 0 {
			done++
		}
	}
	require.Positive(t, done)
	require.Len(t, s.roots(), done)
	require.Len(t, s.Jobs(), 3*done)
	s.requireNoStrangers()
}
