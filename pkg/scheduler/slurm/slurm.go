// Package slurm is the Scheduler that talks to Slurm through its own programs:
// sbatch, squeue, sacct, scancel, sinfo, scontrol, srun.
//
// Every call has a time limit; a program that hangs makes a state unknown, never
// "gone". Nothing is parsed that was not asked for in a fixed format.
package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/run"
)

// commandLimit bounds every Slurm command: a controller that refuses takes 9 s,
// one that hangs MessageTimeout (10 s).
const commandLimit = 20 * time.Second

// submitLimit bounds sbatch, which a site's plugins may delay.
const submitLimit = 60 * time.Second

// minJobAge is how long Slurm lists a job after its end, by default.
const minJobAge = 300 * time.Second

// Slurm implements run.Scheduler and run.Finder; New makes it.
type Slurm struct {
	env     []string
	cleared []string
	now     func() time.Time
	limit   func(program string) time.Duration
}

// New prepares the environment of Slurm's programs: variables that would change
// what sbatch does are taken out and named in each submission.
func New(environ []string, now func() time.Time) *Slurm {
	s := &Slurm{now: now, limit: limit}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		foreign := strings.HasPrefix(name, "SBATCH_") || strings.HasPrefix(name, "SLURM_") ||
			strings.HasPrefix(name, "SLURMD_") ||
			strings.HasPrefix(name, "SQUEUE_") || strings.HasPrefix(name, "SACCT_") ||
			strings.HasPrefix(name, "SCANCEL_") || strings.HasPrefix(name, "SINFO_")
		if foreign && name != "SLURM_CONF" {
			s.cleared = append(s.cleared, name)
			continue
		}
		s.env = append(s.env, kv)
	}
	s.env = append(s.env, "SLURM_BITSTR_LEN=0") // else lists of tasks are cut after 64 characters
	sort.Strings(s.cleared)
	return s
}

// CommandError is a Slurm program that failed, ready to be tried by hand.
type CommandError struct {
	Argv   []string
	Stderr string
	Err    error
}

func (e *CommandError) Error() string {
	s := strings.Join(e.Argv, " ") + ": " + e.Err.Error()
	if e.Stderr != "" {
		s += ": " + strings.TrimSpace(e.Stderr)
	}
	return s
}

func (e *CommandError) Unwrap() error { return e.Err }

// limit is how long a program may take.
func limit(program string) time.Duration {
	if program == "sbatch" {
		return submitLimit
	}
	return commandLimit
}

func (s *Slurm) command(ctx context.Context, argv ...string) (string, error) {
	return s.commandWith(ctx, s.env, argv...)
}

// commandWith runs a program in an environment.
func (s *Slurm) commandWith(ctx context.Context, environ []string, argv ...string) (string, error) {
	limit := s.limit(argv[0])
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environ
	// A group of its own: a ^C at the terminal must not kill sbatch while it
	// submits; the time limit ends the whole group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	stdout, stderr := capture.Output{Most: capture.Answer}, capture.Output{Most: capture.Complaint}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer in %s: %w", limit, ctx.Err())
	case err == nil:
		err = stdout.Err()
	}
	if err != nil {
		return stdout.String(), &CommandError{Argv: redact.Words(argv), Stderr: redact.Complaint(stderr.String(), environ), Err: err}
	}
	return stdout.String(), nil
}

// parsable is what `sbatch --parsable` prints: an id, on federations with the
// cluster. A site's plugins may print lines before it.
var parsable = lazyregexp.New(`^(\d+)(?:;\S+)?$`)

// refusals are answers after which certainly no job exists (texts of sbatch,
// 21.08 to 26.05). Anything else leaves the question open.
var refusals = []string{
	"Batch job submission failed: Invalid",
	"Batch job submission failed: Requested node configuration is not available",
	"Batch job submission failed: Job violates accounting/QOS policy",
	"Batch job submission failed: Requested time limit is invalid",
	"Batch job submission failed: User's group not permitted", "Batch job submission failed: More processors requested",
	"Batch job submission failed: Node count specification invalid",
	"Batch job submission failed: Required partition not available",
	"Batch job submission failed: Requested partition configuration not available now",
	"Batch job submission failed: Access/permission denied",
	"invalid partition specified", "Invalid generic resource", "unrecognized option",
	"Invalid --", "invalid time specification", "Unable to open file", "Batch script",
	"Could not establish a configuration source",
	"Batch job submission failed: Job dependency problem", "connect failure", "Connection refused",
	"Rate limit exceeded", "Requested reservation is invalid",
}

// openEnds are answers after which a job may exist, whatever else was said.
var openEnds = []string{"timed out", "Zero Bytes were transmitted", "Insane message length", "(send failure)",
	"(receive failure)", "(shutdown failure)"}

// refusal is the reason why certainly no job was made, or "". An sbatch that was
// killed may have been heard, whatever it had printed by then.
func (e *CommandError) refusal() string {
	if errors.Is(e.Err, exec.ErrNotFound) {
		return "sbatch is not installed here"
	}
	var exit *exec.ExitError
	if !errors.As(e.Err, &exit) || !exit.Exited() {
		return ""
	}
	for _, text := range openEnds {
		if strings.Contains(e.Stderr, text) {
			return ""
		}
	}
	for _, text := range refusals {
		if strings.Contains(e.Stderr, text) {
			return strings.TrimSpace(e.Stderr)
		}
	}
	return ""
}

// Submit implements run.Scheduler. The name and the comment stand on the command
// line, because sacct keeps that and not the #SBATCH lines. A cancelled ctx does
// not end sbatch, whose answer would be lost.
//
// sbatch itself gets only what the job should have. Its --export could name
// variables too, but then it has the user's login shell asked on the node for all
// the others (sbatch(1), --get-user-env), and leaves SLURM_EXPORT_ENV.
func (s *Slurm) Submit(ctx context.Context, r run.Request) (run.Submission, error) {
	sub := run.Submission{Cleared: s.cleared}
	argv := []string{"sbatch", "--parsable", "--job-name=" + r.Name, "--comment=" + r.Comment, "--chdir=" + r.Dir}
	if len(r.Waits) > 0 {
		// A child that can never start is cancelled, instead of waiting for ever.
		argv = append(argv, "--dependency="+strings.Join(r.Waits, ","), "--kill-on-invalid-dep=yes")
	}
	out, err := s.commandWith(context.WithoutCancel(ctx), r.Export.From(s.env), append(argv, r.Script)...)
	if err != nil {
		var ce *CommandError
		if errors.As(err, &ce) && ce.refusal() != "" {
			return sub, &run.RefusedError{Reason: ce.refusal()}
		}
		return sub, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	m := parsable.FindStringSubmatch(strings.TrimSpace(lines[len(lines)-1]))
	if m == nil {
		return sub, fmt.Errorf("sbatch answered %q, which contains no job id", strings.TrimSpace(out))
	}
	sub.JobID = m[1]
	return sub, nil
}

// FindJob implements run.Finder.
func (s *Slurm) FindJob(ctx context.Context, name string, since time.Time, besides ...string) (string, bool, error) {
	age := s.now().Sub(since)
	if age < 0 { // by a clock that was set back; sacct refuses a time to come
		since = s.now()
	}
	out, queueErr := s.command(ctx, "squeue", "-h", "-a", "-t", "all", "--name="+name, "-o", squeueFormat)
	jobs := parseSqueue(out, s.now())
	// An hour of slack: the controller's clock may differ from ours.
	start := since.Add(-time.Hour).Local().Format("2006-01-02T15:04:05")
	out, acctErr := s.command(ctx, "sacct", "-n", "-P", "-X", "-S", start, "--name="+name, "-o", sacctFormat)
	jobs = append(jobs, parseSacct(out, s.now())...)
	for _, j := range jobs {
		if id := run.BaseID(j.JobID); j.Name == name && !j.refused() && !slices.Contains(besides, id) {
			return id, true, nil
		}
	}
	if queueErr != nil {
		return "", false, errors.Join(queueErr, acctErr)
	}
	// Without accounting squeue alone can say that a job does not exist, but only
	// while an ended one stays listed; a failed sacct says nothing at all.
	switch {
	case acctErr == nil:
	case !noAccounting(acctErr):
		return "", false, acctErr
	case age < -minJobAge || age > minJobAge:
		return "", false, fmt.Errorf("no job named %s is listed; without accounting, a job that ended in the last %s cannot be found", name, age.Abs().Round(time.Second))
	}
	return "", false, nil
}

// noAccounting reports whether the cluster keeps no records at all.
func noAccounting(err error) bool {
	var ce *CommandError
	return errors.As(err, &ce) &&
		(strings.Contains(ce.Stderr, "accounting storage is disabled") || errors.Is(err, exec.ErrNotFound))
}

// States implements run.Scheduler with one squeue and at most one sacct, more
// only for lists that no command line holds. Tasks of an array are asked for
// through the whole of it.
func (s *Slurm) States(ctx context.Context, ids []string) (map[string]run.State, error) {
	out := make(map[string]run.State, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	text, queueErr := s.list(ctx, ids, "squeue", "-h", "-a", "-r", "-t", "all", "-o", squeueFormat)
	queue := byID(parseSqueue(text, s.now()))
	var rest []string // of which squeue does not say all
	for _, id := range ids {
		if j := queue[id]; j == nil || j.Final() {
			rest = append(rest, id)
		}
	}
	var records []job
	var acctErr error
	if len(rest) > 0 {
		text, acctErr = s.list(ctx, rest, "sacct", "-n", "-P", "-X", "-o", sacctFormat)
		records = parseSacct(text, s.now())
	}
	records = ofNewest(queue, records)
	v := view{queue: queue, acct: byID(records), queueErr: ignoreUnknownID(queueErr), acctErr: acctErr,
		arrays: map[string]string{}, at: s.now()}
	for _, known := range []map[string]*job{queue, v.acct} {
		for id, j := range known {
			if base := run.BaseID(id); base != id {
				v.arrays[base] = cmp.Or(v.arrays[base], j.Name)
			}
		}
	}
	for _, id := range ids {
		out[id] = v.state(id)
	}
	return out, nil
}

// ofNewest leaves out what sacct has of earlier jobs. A controller that lost its state gives ids again: then sacct has
// records of several jobs or arrays under one id, of which the one in the queue counts, else the newest.
func ofNewest(queue map[string]*job, records []job) []job {
	queued := map[string]bool{}
	newest := map[string]job{}
	for id, j := range queue {
		base := run.BaseID(id)
		queued[base], newest[base] = true, *j
	}
	for _, j := range records {
		base := run.BaseID(j.JobID)
		if have, ok := newest[base]; !queued[base] && (!ok || j.lastTime() > have.lastTime()) {
			newest[base] = j
		}
	}
	return slices.DeleteFunc(records, func(j job) bool {
		name := newest[run.BaseID(j.JobID)].Name // somebody may have added to it since
		return !strings.Contains(name, j.Name) && !strings.Contains(j.Name, name)
	})
}

// lastTime is the end of a job in sacct's form, or its start, or nothing.
func (j job) lastTime() string {
	for _, at := range []string{j.End, j.Start} {
		if at != "" && at[0] >= '0' && at[0] <= '9' { // no word such as Unknown
			return at
		}
	}
	return ""
}

// view is what squeue and sacct said at one time.
type view struct {
	queue, acct       map[string]*job
	queueErr, acctErr error
	arrays            map[string]string // names of those of which any task is known
	at                time.Time
}

// state decides about one job.
func (v view) state(id string) run.State {
	st, ok := merge(v.queue[id], v.acct[id])
	sure := v.queueErr == nil && (v.acctErr == nil || noAccounting(v.acctErr))
	silent := errors.Join(v.queueErr, v.acctErr)
	array, known := v.arrays[run.BaseID(id)]
	switch {
	case !ok && sure && run.BaseID(id) != id && known:
		// Of a task that was cancelled before it began Slurm keeps nothing,
		// neither in the queue nor in its records (seen with 22.05).
		return run.State{JobID: id, Name: array, State: run.Cancelled, Note: run.NeverRan, Source: "squeue", At: v.at,
			Reason: "Slurm knows the array, but no longer this task"}
	case !ok:
		st = run.State{JobID: id, State: run.Unknown, Source: "squeue", At: v.at,
			Reason: "neither squeue nor sacct knows the job"}
		if silent != nil {
			st.Reason = strings.ReplaceAll(silent.Error(), "\n", "; ")
		}
		if sure {
			st.Note = run.Forgotten
		}
	case v.queue[id] == nil && v.queueErr == nil && !st.Final():
		// Only squeue knows a job that goes on; a record that says so is old.
		st.Reason = fmt.Sprintf("squeue no longer lists the job, sacct says %s", st.Raw)
		st.State, st.Note = run.Unknown, run.Forgotten
	case v.queue[id] == nil && v.queueErr != nil && (st.State == run.NodeFail || st.State == run.Preempted):
		// Slurm may have queued it again, which only squeue could say.
		st.Reason = fmt.Sprintf("sacct says %s, but not whether the job is queued again: %s", st.Raw,
			strings.ReplaceAll(silent.Error(), "\n", "; "))
		st.State, st.Note = run.Unknown, ""
	}
	return st
}

// Show implements run.Shower.
func (s *Slurm) Show(ctx context.Context, ids []string) (map[string]run.State, error) {
	argv := []string{"scontrol", "--all", "show", "job"}
	if list := jobList(ids); !strings.Contains(list, ",") {
		argv = append(argv, list) // it takes one job, or lists all
	}
	text, err := s.command(ctx, argv...)
	jobs := byID(parseShow(text, s.now()))
	out := map[string]run.State{}
	for _, id := range ids {
		if j := jobs[id]; j != nil {
			out[id] = j.State
		}
	}
	return out, ignoreUnknownID(err)
}

// listLimit is how long a list of jobs may be: Linux takes arguments of up to
// 128 KiB.
const listLimit = 100 << 10

// list asks a program about jobs, in parts if they are too many for one.
func (s *Slurm) list(ctx context.Context, ids []string, argv ...string) (text string, err error) {
	for list := jobList(ids); list != ""; {
		part := list
		if len(part) > listLimit {
			part = part[:strings.LastIndexByte(part[:listLimit], ',')]
		}
		list = strings.TrimPrefix(list[len(part):], ",")
		out, failed := s.command(ctx, append(slices.Clone(argv), "-j", part)...)
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		text, err = text+out, errors.Join(err, failed)
		if failed != nil && ignoreUnknownID(failed) != nil {
			break
		}
	}
	return text, err
}

// jobList is the argument of -j: each job once, an array as a whole.
func jobList(ids []string) string {
	var list []string
	seen := map[string]bool{}
	for _, id := range ids {
		if base := run.BaseID(id); !seen[base] {
			seen[base] = true
			list = append(list, base)
		}
	}
	return strings.Join(list, ",")
}

// ignoreUnknownID drops squeue's complaint about a single id that it no longer
// lists, which is no failure.
func ignoreUnknownID(err error) error {
	var ce *CommandError
	if errors.As(err, &ce) && strings.Contains(ce.Stderr, "Invalid job id specified") {
		return nil
	}
	return err
}

// byID finds records by job. One that stands for several tasks of an array,
// 60_[2-3,7%2], speaks for those without a record of their own: sacct does not
// take tasks out of it that began or were cancelled later. The components of a
// heterogeneous job, 12+0 and 12+1, speak together for 12.
func byID(jobs []job) map[string]*job {
	m := make(map[string]*job, len(jobs))
	for i := range jobs {
		m[jobs[i].JobID] = &jobs[i]
	}
	whole := map[string]*job{}
	for _, j := range jobs {
		for _, id := range tasks(j.JobID) {
			if m[id] == nil {
				one := j
				one.JobID = id
				m[id] = &one
			}
		}
		if base, _, het := strings.Cut(j.JobID, "+"); het && m[base] == nil &&
			(whole[base] == nil || j.decidesBefore(*whole[base])) {
			one := j
			one.JobID = base
			whole[base] = &one
		}
	}
	maps.Copy(m, whole)
	return m
}

// decidesBefore reports whether a component decides about its job, and not the other:
// one that goes on before one that ended, a bad end before a good one.
func (j job) decidesBefore(than job) bool {
	if j.Final() != than.Final() {
		return !j.Final()
	}
	return than.State.State == run.Succeeded && j.State.State != run.Succeeded
}

// Cancel implements run.Scheduler. scancel says nothing about an unknown id, so
// the caller looks at the state afterwards.
func (s *Slurm) Cancel(ctx context.Context, id string) error {
	_, err := s.command(ctx, "scancel", id)
	return err
}

// TestOnly asks Slurm what it would do with a script. It uses up a job id.
func (s *Slurm) TestOnly(ctx context.Context, script string) (string, error) {
	out, err := s.commandWith(ctx, run.Export{}.From(s.env), "sbatch", "--test-only", script)
	var ce *CommandError
	if errors.As(err, &ce) {
		return "", err
	}
	return strings.TrimSpace(out), nil
}

// Describe asks for what config.FromSlurm reads.
func (s *Slurm) Describe(ctx context.Context) (sinfo, scontrol string, err error) {
	if sinfo, err = s.command(ctx, "sinfo", "-h", "-o", "%P|%G|%D|%N"); err != nil {
		return "", "", err
	}
	scontrol, err = s.command(ctx, "scontrol", "show", "config")
	return sinfo, scontrol, err
}

// HasPyxis reports whether srun has the options of pyxis.
func (s *Slurm) HasPyxis(ctx context.Context) (bool, error) {
	help, err := s.command(ctx, "srun", "--help")
	return strings.Contains(help, "--container-image"), err
}
