// Package slurmtest puts a fake Slurm on PATH for tests: sbatch, squeue, sacct,
// scancel, scontrol and sinfo as real programs, so that the true exec path runs.
// They are the test binary itself under other names; its TestMain calls Main.
//
// The fake controller is a directory of files, and Knobs say what goes wrong. It
// runs no job: a test says what became of one with Put.
//
//	func TestMain(m *testing.M) {
//		if code, ok := slurmtest.Main(os.Args, os.Environ(), os.Stdout, os.Stderr); ok {
//			os.Exit(code)
//		}
//		os.Exit(m.Run())
//	}
package slurmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/durable"
)

// dirVar tells the programs where their controller lives.
const dirVar = "PROFLLM_SLURMTEST"

// firstID is the id of the first job.
const firstID = 60

// Slurm is a fake controller.
type Slurm struct {
	t   testing.TB
	dir string
}

// Job is what the controller knows of one job. An empty Queue means that squeue
// no longer lists it, an empty Acct that sacct does not know it.
type Job struct {
	ID       string
	Name     string
	Comment  string
	Script   string
	Queue    string // squeue's word for the state
	Acct     string // sacct's
	Reason   string
	ExitCode string
	Start    string
	End      string
	Elapsed  int // s
	NodeList string
	Size     int    // tasks of an array, 0 for another job; Put with an ID like 60_3 says what became of one
	Waits    string // --dependency

	Requested string // hosts that the job names

	hiddenUntil int
}

// Step is a running step of a job; signals go to PID.
type Step struct {
	ID    string // JOB.STEP
	Name  string
	Nodes string // that it runs on, if it matters
	PID   int
	Shown string // what squeue prints instead of the ID: of a task 60_3.0
}

// Knobs are what goes wrong. The zero value is a Slurm in good health.
type Knobs struct {
	Banner       string   // sbatch prints this before its answer
	Cluster      string   // sbatch answers "60;cluster"
	Refuse       string   // sbatch makes no job, and fails with this on stderr
	LoseAnswer   string   // sbatch makes the job, and fails with this on stderr
	Leftover     bool     // a refused request used up an id and left a FAILED record
	Hang         []string // programs that never answer
	Fail         string   // squeue and sacct fail with this on stderr
	NoAccounting bool     // sacct says that it is switched off
	HiddenLooks  int      // a new job does not show in that many calls of squeue
	Gate         string   // sbatch stops there until Open: before, accepted, answered
	Sinfo        string   // what sinfo prints
	Scontrol     string   // what scontrol prints
}

// New starts a fake Slurm for one test.
func New(t testing.TB) *Slurm {
	t.Helper()
	s := &Slurm{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, sub := range []string{"bin", "jobs", "steps", "hidden"} {
		require.NoError(t, os.Mkdir(s.path(sub), 0o755))
	}
	for _, name := range programs {
		require.NoError(t, os.Symlink(self, s.path("bin", name)))
	}
	s.Set(Knobs{})
	return s
}

func (s *Slurm) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Dir is the controller's folder; the programs have it in their environment.
func (s *Slurm) Dir() string { return s.dir }

// Env puts the fake programs first on the PATH of an environment.
func (s *Slurm) Env(environ []string) []string {
	path := ""
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	return append(append([]string(nil), environ...), "PATH="+s.path("bin")+":"+path, dirVar+"="+s.dir)
}

// Use gives the test itself the environment of Env.
func (s *Slurm) Use(t *testing.T, environ []string) {
	for _, kv := range s.Env(environ) {
		if name, value, _ := strings.Cut(kv, "="); name == "PATH" || name == dirVar {
			t.Setenv(name, value)
		}
	}
}

// Set replaces the knobs.
func (s *Slurm) Set(k Knobs) {
	s.t.Helper()
	require.NoError(s.t, writeJSON(s.path("knobs.json"), k))
}

// Put replaces what the controller knows of a job, or makes one.
func (s *Slurm) Put(j Job) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(s.path("jobs", j.ID), 0o755)) // takes the id
	require.NoError(s.t, writeJSON(s.path("jobs", j.ID+".json"), j))
}

// Jobs lists the jobs in the order of their ids, an array as one.
func (s *Slurm) Jobs() []Job {
	s.t.Helper()
	jobs, err := controller(s.dir).jobs()
	require.NoError(s.t, err)
	return jobs
}

// Submissions counts the jobs of one name that were ever accepted.
func (s *Slurm) Submissions(name string) int {
	n := 0
	for _, j := range s.Jobs() {
		if j.Name == name {
			n++
		}
	}
	return n
}

// PutStep makes a running step.
func (s *Slurm) PutStep(st Step) {
	s.t.Helper()
	require.NoError(s.t, writeJSON(s.path("steps", st.ID+".json"), st))
}

// Calls lists the arguments of each call of a program so far.
func (s *Slurm) Calls(program string) [][]string {
	s.t.Helper()
	calls, err := controller(s.dir).calls(program)
	require.NoError(s.t, err)
	return calls
}

// Reached returns the PID of the sbatch that has come to a gate, or 0.
func (s *Slurm) Reached(gate string) (pid int) {
	if readJSON(s.path("at-"+gate), &pid) != nil {
		return 0
	}
	return pid
}

// Open lets sbatch go on from every gate, now and later.
func (s *Slurm) Open() {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path("open"), nil, 0o644))
}

// controller is the folder as the programs see it.
type controller string

func (c controller) path(elem ...string) string {
	return filepath.Join(append([]string{string(c)}, elem...)...)
}

func (c controller) knobs() (k Knobs, err error) {
	return k, readJSON(c.path("knobs.json"), &k)
}

func (c controller) jobs() ([]Job, error) {
	files, err := filepath.Glob(c.path("jobs", "*.json"))
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for _, f := range files {
		var j Job
		if strings.Contains(filepath.Base(f), "_") {
			continue // a task
		}
		if err := readJSON(f, &j); err != nil {
			return nil, err
		}
		if data, err := os.ReadFile(c.path("hidden", j.ID)); err == nil {
			j.hiddenUntil, _ = strconv.Atoi(string(data))
		}
		jobs = append(jobs, j)
	}
	sort.SliceStable(jobs, func(i, k int) bool { return number(jobs[i].ID) < number(jobs[k].ID) })
	return jobs, nil
}

func number(id string) int {
	n, _ := strconv.Atoi(id)
	return n
}

// accept gives a request the next free id.
func (c controller) accept(j Job, hiddenLooks int) (Job, error) {
	for id := firstID; ; id++ {
		j.ID = strconv.Itoa(id)
		// A folder takes the id, so that the job's file appears whole.
		err := os.Mkdir(c.path("jobs", j.ID), 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return j, err
		}
		break
	}
	if hiddenLooks > 0 {
		calls, err := c.calls("squeue")
		if err != nil {
			return j, err
		}
		if err := os.WriteFile(c.path("hidden", j.ID), []byte(strconv.Itoa(len(calls)+hiddenLooks)),
			0o644); err != nil {
			return j, err
		}
	}
	return j, writeJSON(c.path("jobs", j.ID+".json"), j)
}

// visible lists the jobs that show yet, all or those named.
func (c controller) visible(ids, name string) ([]Job, error) {
	jobs, err := c.jobs()
	if err != nil {
		return nil, err
	}
	calls, err := c.calls("squeue")
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, id := range strings.Split(ids, ",") {
		named[id] = true
	}
	var list []Job
	for _, j := range jobs {
		if len(calls) <= j.hiddenUntil || name != "" && j.Name != name {
			continue
		}
		if ids != "" && !named[j.ID] {
			continue
		}
		list = append(list, j)
	}
	return list, nil
}

// tasks lists an array's tasks, those that share its record in rest; another job
// is itself.
func (c controller) tasks(j Job) (own []Job, rest []int, err error) {
	if j.Size == 0 {
		return []Job{j}, nil, nil
	}
	for i := range j.Size {
		var t Job
		switch err := readJSON(c.path("jobs", fmt.Sprintf("%s_%d.json", j.ID, i)), &t); {
		case err == nil:
			own = append(own, t)
		case errors.Is(err, fs.ErrNotExist):
			rest = append(rest, i)
		default:
			return nil, nil, err
		}
	}
	return own, rest, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// record notes a call, in one write.
func (c controller) record(program string, args []string) error {
	data, err := json.Marshal(args)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.path("calls-"+program), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

func (c controller) calls(program string) ([][]string, error) {
	data, err := os.ReadFile(c.path("calls-" + program))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var calls [][]string
	for line := range strings.Lines(string(data)) {
		var args []string
		if err := json.Unmarshal([]byte(line), &args); err != nil {
			return nil, err
		}
		calls = append(calls, args)
	}
	return calls, nil
}

// gate stops until the test opens it, or is over.
func (c controller) gate(name string, k Knobs) error {
	if k.Gate != name {
		return nil
	}
	if err := writeJSON(c.path("at-"+name), os.Getpid()); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(c.path("open")); err == nil {
			return nil
		}
		if _, err := os.Stat(c.path("knobs.json")); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.WriteUnsynced(path, data)
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}
