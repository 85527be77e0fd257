package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/run"
)

// chaosLimit ends a test whose runs do not come to an end. What waits for a job that a
// controller has forgotten can be submitted when the job has been unknown for [run.AskAfter].
const chaosLimit = run.AskAfter + 4*time.Minute

// TestSlurmChaos submits at least 60 runs of every shape and breaks what it can
// meanwhile: profllm itself, roles, scripts, nodes, Slurm's daemons. At the end
// each run must be accounted for, by evidence that profllm did not make.
//
// covers: PL-D2, PL-S3, PL-S20, PL-S21, PL-S22, PL-S40, SM-8
func TestSlurmChaos(t *testing.T) {
	if os.Getenv("PROFLLM_CHAOS") != "1" {
		t.Skip("kills the lab's daemons: make chaos runs it on a lab of its own")
	}
	number := func(name string, otherwise uint64) uint64 {
		if os.Getenv(name) == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(os.Getenv(name), 10, 32)
		require.NoError(t, err)
		return n
	}
	seed := number("PROFLLM_CHAOS_SEED", uint64(time.Now().UnixNano()%1e6))
	plan := drawChaos(seed, int(number("PROFLLM_CHAOS_RUNS", 60)))
	t.Logf("make chaos SEED=%d repeats this\n%s", seed, plan)
	lab(t)
	dir, err := os.MkdirTemp("", "profllm-chaos-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; everything is kept in %s", seed, dir)
			return
		}
		os.RemoveAll(dir)
	})
	c := &chaos{T: t, plan: plan, dir: dir, began: time.Now()}
	c.ctx, c.stop = context.WithTimeout(t.Context(), chaosLimit)
	defer c.stop()
	c.run()
	c.account()
}

// chaos is one test under way.
type chaos struct {
	*testing.T
	plan  chaosPlan
	dir   string
	began time.Time
	ctx   context.Context
	stop  func()

	lock  sync.Mutex
	deeds map[string]deedDone // by execution and run
	gaps  []gap
}

// deedDone is what became of a fate. A run that was over before has none.
type deedDone struct {
	at   time.Time
	done bool
	job  string
}

// gap is a time without a daemon.
type gap struct {
	daemon   string
	from, to time.Time
	dead     time.Time // by then it was killed, which takes its time on a busy machine
}

func (c *chaos) say(format string, args ...any) {
	c.Logf("%6.1f s  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func (c *chaos) sleep(d time.Duration) bool {
	select {
	case <-c.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// run lets everybody loose and returns when all users are done.
func (c *chaos) run() {
	c.deeds = map[string]deedDone{}
	var users, others sync.WaitGroup
	for _, e := range c.plan.executions {
		users.Go(func() {
			u := &user{chaos: c, execution: e, dir: filepath.Join(c.dir, e.name)}
			if err := u.live(); err != nil {
				c.Errorf("%s: %v", e.name, err)
			}
		})
	}
	others.Go(c.breakDaemons)
	users.Wait()
	others.Wait()
}

// breakDaemons kills Slurm's own daemons, one after the other.
func (c *chaos) breakDaemons() {
	for _, o := range c.plan.outages {
		if !c.sleep(o.pause) {
			return
		}
		c.without(o.daemon, o.lost)
	}
}

// without kills a daemon, and starts it again later.
func (c *chaos) without(daemon string, lost time.Duration) {
	g := gap{daemon: daemon, from: time.Now()}
	killed := c.daemon("kill", daemon)
	if g.dead = time.Now(); killed {
		c.sleep(lost)
		c.daemon("start", daemon)
	}
	g.to = time.Now()
	c.lock.Lock()
	c.gaps = append(c.gaps, g)
	c.lock.Unlock()
}

func (c *chaos) daemon(deed, name string) bool {
	out, err := exec.Command("../../examples/slurm-lab/daemon.sh", deed, name).CombinedOutput()
	c.say("%s %s %v%s", deed, name, err, prefixed(": ", strings.TrimSpace(string(out))))
	if err != nil {
		c.Errorf("daemon.sh %s %s: %v: %s", deed, name, err, out)
	}
	return err == nil
}

// user looks after one scenario: a person, and cron.
type user struct {
	*chaos
	execution
	dir, root string
}

// profllm gives a command; killed ends it with KILL. It returns nil for one that
// was killed.
func (u *user) profllm(killed time.Duration, args ...string) (*outcome, error) {
	cmd := command(u.dir, nil, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	hung := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	if killed > 0 {
		defer time.AfterFunc(killed, func() { cmd.Process.Kill() }).Stop()
	}
	cmd.Wait()
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	words := strings.ReplaceAll(strings.Join(args, " "), u.dir+"/", "")
	if !hung.Stop() {
		return nil, fmt.Errorf("profllm %s hangs: %s", words, o.stderr)
	}
	if o.code < 0 && killed > 0 {
		u.say("%s: profllm %s: killed", u.name, words)
		return nil, nil
	}
	if args[len(args)-2] != "json" { // settle asks all the time
		u.say("%s: profllm %s: %d%s", u.name, words, o.code, prefixed(": ", firstLine(o.stderr)))
	}
	if !slices.Contains([]int{exitOK, exitNotSubmit, exitJobFailed, exitInvalid, exitNotOver}, o.code) ||
		strings.Contains(o.stderr, "panic") {
		return nil, fmt.Errorf("profllm %s: exit code %d: %s", words, o.code, o.stderr)
	}
	return &o, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func (u *user) live() error {
	if err := os.Mkdir(u.dir, 0o755); err != nil {
		return err
	}
	site, err := os.ReadFile("../../examples/slurm-lab/site.toml")
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(u.dir, "site.toml"), append([]byte(witness), site...), 0o644),
		os.WriteFile(filepath.Join(u.dir, "s.toml"), []byte(u.definition()), 0o644)); err != nil {
		return err
	}
	u.sleep(u.start)
	if err := u.submit(); err != nil {
		return err
	}
	over := make(chan struct{})
	var monkeys sync.WaitGroup
	for _, r := range u.runs {
		if r.fate != spared && r.fate != timeLimit {
			monkeys.Go(func() { u.torment(r, over) })
		}
	}
	settled := sync.OnceFunc(func() { close(over); monkeys.Wait() })
	defer settled()
	for _, call := range u.calls {
		u.sleep(call.pause)
		if err := u.call(call); err != nil {
			return err
		}
	}
	if err := u.settle(); err != nil {
		return err
	}
	settled()
	return u.settle() // what they have just done
}

// witness is shell text at the start of each execution, which profllm reads
// nowhere: which job, which restart, when, where.
const witness = `prologue = '''echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID} ${SLURM_RESTART_COUNT:-0} $(date +%s.%N) $SLURM_JOB_NODELIST" >>"$RUN/witness.txt"'''
`

// submit goes on until every unit has a job, as the hints say.
func (u *user) submit() error {
	args := []string{"slurm", "submit", "--simulate", "--system", "site.toml", "s.toml", "--yes", "--settle", "4s"}
	if u.kind == "sequence" {
		args = append(args, "--single-sbatch")
	}
	submits := append(slices.Clone(u.submits), 0)
	for try := 0; ; try++ {
		killed := submits[min(try, len(submits)-1)]
		o, err := u.profllm(killed, args...)
		if err != nil {
			return err
		}
		if o != nil && o.code == exitOK {
			break
		}
		if u.ctx.Err() != nil {
			return errors.New("never submitted")
		}
		if o != nil && try >= len(u.submits) {
			u.sleep(time.Second)
		}
		// A refusal is answered for, so what is left is resumed, as the hint says.
		if _, hint, ok := strings.Cut(u.last(o), "profllm slurm resume "); ok {
			args = []string{"slurm", "resume", strings.TrimSpace(firstLine(hint)), "--settle", "4s"}
		}
	}
	roots, err := filepath.Glob(filepath.Join(u.dir, "results", "*", run.ScenarioFile))
	if err != nil || len(roots) != 1 {
		return fmt.Errorf("the interrupted submissions left %v, want one scenario, %v", roots, err)
	}
	u.root = filepath.Dir(roots[0])
	return nil
}

func (u *user) last(o *outcome) string {
	if o == nil {
		return ""
	}
	return o.stderr
}

// call gives one of the drawn commands.
func (u *user) call(c cronCall) error {
	args := []string{"slurm", c.verb, u.root}
	switch c.verb {
	case "collect", "why":
		args = []string{c.verb, u.root}
	case "resume", "two resumes":
		args = u.resumeArgs()
	}
	if c.verb != "two resumes" {
		_, err := u.profllm(c.killed, args...)
		return err
	}
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { _, errs[i] = u.profllm(c.killed, args...) })
	}
	both.Wait()
	return errors.Join(errs...)
}

func (u *user) resumeArgs() []string {
	args := []string{"slurm", "resume", u.root, "--settle", "4s"}
	if u.failed {
		args = append(args, "--failed")
	}
	return args
}

// statusLine is what `status --output json` says of a run.
type statusLine struct {
	Dir        string
	Submission run.Submission
	State      run.State
}

// settle waits until all runs are over, resumes if that is wanted, and so on.
func (u *user) settle() error {
	for {
		var answer struct{ Runs []statusLine }
		o, err := u.profllm(0, "slurm", "status", "--output", "json", u.root)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil {
			return err
		}
		var open []string
		for _, l := range answer.Runs {
			// What a killed controller has forgotten is said to be unknown for a day.
			lost := l.State.Note == run.Forgotten && time.Since(l.State.Since) > 20*time.Second
			if l.Submission.Refused == "" && !l.State.Final() && !lost {
				open = append(open,
					fmt.Sprintf("%s: job %q %s %s %s", l.Dir, l.Submission.JobID, l.State.State, l.State.Note,
						l.State.Reason))
			}
			if l.State.Note == run.Held { // as the warning of watch and --wait says
				out, err := exec.Command("scontrol", "release", l.State.JobID).CombinedOutput()
				u.say("%s: release %s: %v %s", u.name, l.State.JobID, err, out)
			}
		}
		if u.ctx.Err() != nil {
			return fmt.Errorf("not over: %s", strings.Join(open, "\n"))
		}
		if len(open) == 0 {
			if !u.resume {
				return nil
			}
			o, err := u.profllm(0, u.resumeArgs()...)
			if err != nil {
				return err
			}
			if o.code == exitOK && o.stdout == "" ||
				o.code == exitNotSubmit && regexp.MustCompile(`it waits for|this run waits for, is unknown`).
					MatchString(o.stderr) && o.stdout == "" {
				return nil
			}
		}
		u.sleep(3 * time.Second)
	}
}

// torment waits for a run's moment and does to it what is drawn.
func (u *user) torment(r chaosRun, over <-chan struct{}) {
	dir := filepath.Join(u.root, r.dir)
	if r.fate != cancelWaiting {
		for !u.began(dir) {
			select {
			case <-over:
				u.say("%s %s never began: %s", u.name, r.dir, r.fate)
				return
			case <-u.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		u.sleep(r.after)
	}
	for {
		var book run.Book
		sub, err := book.ReadSubmission(dir)
		if over, _ := filepath.Glob(filepath.Join(dir, run.SentinelFile)); len(over) > 0 && r.fate != killFinish {
			u.say("%s %s was over before: %s", u.name, r.dir, r.fate)
			return
		}
		if err == nil {
			at := time.Now()
			if err = u.inflict(r, dir, sub.JobID); err == nil {
				u.say("%s %s: %s, job %s", u.name, r.dir, r.fate, sub.JobID)
				u.lock.Lock()
				u.deeds[u.name+" "+r.dir] = deedDone{at, true, sub.JobID}
				u.lock.Unlock()
				return
			}
			if errors.Is(err, errMissed) {
				u.say("%s %s was over before: %s", u.name, r.dir, r.fate)
				return
			}
		}
		select {
		case <-over: // a job that Slurm has forgotten cannot be cancelled or queued again
		case <-u.ctx.Done():
		case <-time.After(50 * time.Millisecond):
			continue
		}
		u.say("%s %s: %s: %v", u.name, r.dir, r.fate, err)
		return
	}
}

// began reports whether a client of the run began.
func (u *user) began(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, run.EventFile))
	return err == nil && bytes.Contains(data, []byte("client-begins"))
}

// measured reports whether every client of the run had ended by then: what happens to
// its servers from there on is no concern of theirs.
func (u *user) measured(dir string, by time.Time) (bool, error) {
	events, err := job.ReadEvents(dir)
	ended := 0
	for _, e := range events {
		ended += count(e.Event == job.ClientEnded && e.Time.Before(by))
	}
	return ended == len(resultsOf(u.execution, dir)), err
}

var errMissed = errors.New("the run is over")

// inflict does it, or says that it is to be tried again.
func (u *user) inflict(r chaosRun, dir, id string) error {
	slurm := func(args ...string) error {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
		return err
	}
	switch r.fate {
	case cancelWaiting, cancelRunning:
		return slurm("scancel", id)
	case cancelVerb:
		o, err := u.profllm(0, "slurm", "cancel", dir)
		if err == nil && o.code != exitOK {
			err = fmt.Errorf("exit code %d", o.code)
		}
		return err
	case requeue:
		// Of a job that the controller is just about to end, since it has forgotten that it ran
		// and what it waits for has failed, it makes one that waits for ever.
		if out, err := exec.Command("squeue", "-h", "-t", "running", "-j", id).Output(); err != nil || len(out) == 0 {
			return fmt.Errorf("squeue does not list job %s as running: %w", id, cmp.Or(err, errors.New("nothing")))
		}
		return slurm("scontrol", "requeue", id)
	case killRole:
		at := time.Now()
		err := u.kill(id, func(cmdline, env string) bool {
			return strings.Contains(env, "\x00PROFLLM_ROLE="+r.role+"\x00") && strings.Contains(cmdline, "serve")
		})
		if over, bad := u.measured(dir, at); err == nil && (over || bad != nil) {
			return cmp.Or(bad, errMissed)
		}
		return err
	case killWatch, killFinish:
		part := strings.TrimPrefix(string(r.fate), "KILL of profllm job ")
		err := u.kill(id, func(cmdline, _ string) bool {
			return strings.Contains(cmdline, "\x00job\x00"+part+"\x00--run\x00"+dir+"\x00")
		})
		if err != nil && r.fate == killFinish && len(processes(id)) == 0 {
			return errMissed
		}
		return err
	case killScript:
		return u.kill(id, func(cmdline, _ string) bool {
			return strings.HasPrefix(cmdline, "/bin/bash\x00") && strings.Contains(cmdline, "slurm_script") &&
				u.kind != "sequence" ||
				strings.HasPrefix(cmdline, "bash\x00"+dir+"/job.sh\x00")
		})
	}
	return u.breakNode(r, dir, slurm)
}

// breakNode takes the first node of a run away for a while.
func (u *user) breakNode(r chaosRun, dir string, slurm func(...string) error) error {
	var place run.Placement
	if err := run.ReadJSON(filepath.Join(dir, run.PlacementFile), &place); err != nil {
		return err
	}
	node := place.Nodes[0].Host
	g := gap{daemon: "slurmd@" + node, from: time.Now()}
	if r.fate != nodeDown {
		u.daemon("kill", g.daemon)
	}
	for r.fate != slurmdDead && slurm("../../examples/slurm-lab/daemon.sh", "down", node) != nil &&
		u.sleep(200*time.Millisecond) {
	}
	u.sleep(r.outage)
	if r.fate != nodeDown {
		u.daemon("start", g.daemon)
	}
	for r.fate != slurmdDead && slurm("../../examples/slurm-lab/daemon.sh", "resume", node) != nil &&
		u.sleep(200*time.Millisecond) {
	}
	g.to = time.Now()
	u.lock.Lock()
	u.gaps = append(u.gaps, g)
	u.lock.Unlock()
	return nil
}

// kill ends with KILL the processes of a job that are meant.
func (u *user) kill(job string, meant func(cmdline, env string) bool) error {
	killed := 0
	for _, p := range processes(job) {
		if meant(p.cmdline, p.env) && stopped(p.pid) && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		return errors.New("no such process")
	}
	return nil
}

// stopped stops a process, and is false for one that has begun to exit: a signal to
// that one is taken and changes nothing of its exit code.
func stopped(pid int) bool {
	for syscall.Kill(pid, syscall.SIGSTOP) == nil {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		switch state := stat[bytes.LastIndexByte(stat, ')')+2]; state {
		case 'T':
			return true
		case 'Z', 'X':
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// jobProcess is one of a job's processes, on any node.
type jobProcess struct {
	pid          int
	cmdline, env string // each word ends with NUL; env also begins with it
}

// processes lists those of a job, or of every job.
func processes(job string) []jobProcess {
	base, task, _ := strings.Cut(job, "_")
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var list []jobProcess
	for _, f := range files {
		data, err := os.ReadFile(f)
		env := "\x00" + string(data)
		mine := strings.Contains(env, "\x00SLURM_JOB_ID="+base+"\x00") && task == "" ||
			task != "" && strings.Contains(env, "\x00SLURM_ARRAY_JOB_ID="+base+"\x00") && strings.Contains(env,
				"\x00SLURM_ARRAY_TASK_ID="+task+"\x00") ||
			job == "" && strings.Contains(env, "\x00SLURM_JOB_ID=")
		if err != nil || !mine {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if len(cmdline) > 0 {
			list = append(list, jobProcess{pid, string(cmdline), env})
		}
	}
	return list
}
