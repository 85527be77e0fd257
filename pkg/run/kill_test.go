package run_test

import (
	"bytes"
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

	"github.com/profllm/profllm/pkg/internal/slurmtest"
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
	s.t.Logf("profllm %s: exit %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(), errs.String())
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
	require.Eventually(s.t, condition, time.Minute, time.Millisecond)
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
					require.Eventually(t, func() bool { return len(s.Jobs()) == 1 }, time.Minute, time.Millisecond)
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
	require.Eventually(s.t, func() bool { return len(s.Jobs()) == len(s.Calls("sbatch")) && s.programs() == 0 }, time.Minute, 5*time.Millisecond)
}

// programs counts the processes in front of this session's Slurm.
func (s *session) programs() int {
	n := 0
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		env, err := os.ReadFile(name)
		if err == nil && run.ProcessStart(pid) != "" && bytes.Contains(env, []byte("PROFLLM_SLURMTEST="+s.Dir()+"\x00")) {
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
