package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/process"
)

// Submitter submits units so that none is lost and none is submitted twice.
type Submitter struct {
	Scheduler Scheduler
	Now       func() time.Time
	Settle    time.Duration // between two looks for a job whose submission was interrupted
	Sleep     func(context.Context, time.Duration) error
	Log       func(format string, args ...any)
	Lookup    func(name string) (value string, ok bool) // of the submitting shell, for secrets; nil: it has none

	book  Book
	fresh map[string]bool // jobs that this command submitted
}

// Outcome is what became of one unit.
type Outcome struct {
	Dir        string
	Unit       *Unit
	Submission Submission
	Err        error
}

// Submit brings a run or a batch to the state "submitted": it submits a unit without an
// intent, adopts the job of an interrupted submission, and leaves a submitted unit alone.
// If another command is submitting the unit, Submit returns an error.
func (s *Submitter) Submit(ctx context.Context, dir string) Outcome {
	return s.submitUnit(ctx, dir, "")
}

// Again submits a run once more after its job, over, has ended; the caller has checked
// that. If another command was first, Again returns that command's submission.
func (s *Submitter) Again(ctx context.Context, dir, over string) Outcome {
	return s.submitUnit(ctx, dir, over)
}

// submitUnit reads what is submitted, and submits it.
func (s *Submitter) submitUnit(ctx context.Context, dir, over string) Outcome {
	o := Outcome{Dir: dir}
	if o.Unit, o.Err = ReadUnit(dir); o.Err == nil {
		o.Submission, o.Err = s.adoptOrSubmit(ctx, o.Unit, over)
	}
	return o
}

func (s *Submitter) adoptOrSubmit(ctx context.Context, u *Unit, over string) (done Submission, err error) {
	// The intents come first: whoever replaces submit.json below has made another.
	intents, err := intentsOf(u.Dir)
	if err != nil {
		return done, err
	}
	known, err := ReadRecord(filepath.Join(u.Dir, SubmitFile), &done)
	if err != nil {
		return done, err
	}
	answered := known && (done.Attempt == 0 || done.Attempt >= len(intents))
	if answered && done.Refused == "" && (over == "" || done.JobID != over) {
		return done, nil
	}
	if err := ctx.Err(); err != nil {
		return Submission{}, err
	}
	// A refusal answers every intent so far: it is removed before the next sbatch.
	if open := len(intents) > 0 && !answered; open {
		if last := intents[len(intents)-1]; !last.own() && last.alive(s.Now()) {
			return Submission{}, busy(last)
		}
		old, err := u.earlier()
		if err != nil {
			return Submission{}, err
		}
		if known && done.JobID != "" {
			old = append(old, done.JobID)
		}
		id, found, err := s.findJobOf(ctx, u, intents[0].Time, old)
		if err != nil {
			return Submission{}, fmt.Errorf("look for the job of %s: %w", u.Dir, err)
		}
		if found {
			sub := Submission{Schema: "profllm.submit/1", RunID: u.RunID(), JobID: id, Time: s.Now().UTC(),
				Attempt: len(intents), Adopted: true}
			return sub, record(u.Dir, sub)
		}
	}
	return s.submit(ctx, u, len(intents)+1)
}

func (s *Submitter) submit(ctx context.Context, u *Unit, attempt int) (Submission, error) {
	waits, waitErr := s.waits(ctx, u)
	var refused *RefusedError
	if waitErr != nil && !errors.As(waitErr, &refused) {
		return Submission{}, waitErr
	}
	lookup := s.Lookup
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	if err := u.CheckSecrets(lookup); err != nil {
		return Submission{}, err
	}
	export, err := u.export()
	if err != nil {
		return Submission{}, err
	}
	if err := u.prepareMounts(s.Log); err != nil {
		return Submission{}, err
	}
	intent, err := s.intend(u, attempt)
	if err != nil {
		return Submission{}, err
	}
	var sub Submission
	if err = waitErr; err == nil {
		// The files of secrets come before the last look: a command that is overtaken
		// leaves those that the other one wrote as well.
		if err := u.writeSecrets(lookup); err != nil {
			return Submission{}, err
		}
		if exists(intentFile(u.Dir, attempt+1)) {
			return Submission{}, overtaken(u.Dir, attempt+1)
		}
		job := u.Job()
		sub, err = s.Scheduler.Submit(ctx, Request{
			Script: filepath.Join(u.Dir, u.Script()), Name: job.Name, Comment: job.Comment, Dir: u.Dir, Waits: waits,
			Export: export,
		})
	}
	sub.Schema, sub.RunID, sub.Time = "profllm.submit/1", u.RunID(), s.Now().UTC()
	sub.Attempt, sub.Waits = attempt, waits
	switch {
	case err == nil:
	case errors.As(err, &refused):
		sub.Refused, sub.ParentFailed = refused.Reason, refused.Failed
		return sub, errors.Join(err, u.dropSecrets(), record(u.Dir, sub))
	default:
		s.Log("no reply to the submission (%v); looking for the job", err)
		id, found, lookErr := s.findUnanswered(ctx, u, intent)
		if lookErr != nil || !found {
			return sub, errors.Join(fmt.Errorf("submit %s: %w", u.Dir, err), lookErr)
		}
		sub.JobID, sub.Adopted = id, true
	}
	return sub, s.submitted(u, sub)
}

// submitted records a job that was submitted.
func (s *Submitter) submitted(u *Unit, sub Submission) error {
	if s.fresh == nil {
		s.fresh = map[string]bool{}
	}
	s.fresh[sub.JobID] = true
	if err := record(u.Dir, sub); err != nil {
		return fmt.Errorf("job %s was submitted but not recorded; the next command finds the job by its name: %w",
			sub.JobID, err)
	}
	return nil
}

// intend makes the intent of an attempt, and clears what the attempt before has left.
func (s *Submitter) intend(u *Unit, attempt int) (Intent, error) {
	host, err := os.Hostname()
	if err != nil {
		return Intent{}, err
	}
	pid := os.Getpid()
	intent := Intent{
		Schema: "profllm.intent/1", RunID: u.RunID(), JobName: u.Job().Name, Time: s.Now().UTC(), Attempt: attempt,
		Host: host, PID: pid, ProcessStart: process.Start(pid),
	}
	if err := CreateJSON(intentFile(u.Dir, attempt), intent); errors.Is(err, fs.ErrExist) {
		return Intent{}, overtaken(u.Dir, attempt)
	} else if err != nil {
		return Intent{}, err
	}
	// A command that slept since it made its intent, on a host of which others know
	// nothing, may have been given up by them.
	if exists(intentFile(u.Dir, attempt+1)) {
		return Intent{}, overtaken(u.Dir, attempt+1)
	}
	return intent, u.clear()
}

// findUnanswered looks for the job of a submission to which nobody replied.
func (s *Submitter) findUnanswered(ctx context.Context, u *Unit, i Intent) (id string, found bool, err error) {
	old, err := u.earlier()
	if err != nil {
		return "", false, err
	}
	return s.findJobOf(ctx, u, i.Time, old)
}

// record writes what became of a submission. Where only the name may not be on disk
// yet, that is no error: the next command reads it, and after a crash that loses it
// the intent leads to the job. With an error the command would be given again, and
// submit the whole scenario once more.
func record(dir string, sub Submission) error {
	err := WriteJSON(filepath.Join(dir, SubmitFile), sub)
	if written, ok := Answered(dir); ok && written.Attempt == sub.Attempt && written.JobID == sub.JobID &&
		written.Refused == sub.Refused {
		return nil
	}
	return err
}

// overtaken says that another command made an intent first.
func overtaken(dir string, attempt int) error {
	var other Intent
	if ReadJSON(intentFile(dir, attempt), &other) != nil || other.Host == "" {
		return fmt.Errorf("another command is submitting this run: %w", fs.ErrExist)
	}
	return fmt.Errorf("%w: %w", busy(other), fs.ErrExist)
}

// clear takes out of the way what an earlier job left: a refusal is removed, and
// the rest goes to attempts/.
func (u *Unit) clear() error {
	var done Submission
	name := filepath.Join(u.Dir, SubmitFile)
	known, err := ReadRecord(name, &done)
	if err != nil {
		return err
	}
	if !known || done.Refused != "" {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, dir := range u.Runs() {
		if err := setAsideJob(dir); err != nil {
			return err
		}
	}
	return nil
}

// findJobOf searches for the job of an interrupted submission: first in the run
// directories, where a job that started says so, then at the scheduler, twice
// with a pause, since a request on its way becomes visible only later. Jobs that
// are known to be older are none of it.
func (s *Submitter) findJobOf(ctx context.Context, u *Unit, since time.Time,
	old []string) (id string, found bool, err error) {
	if id, err := u.claimed(old); err != nil || id != "" {
		return id, err == nil, err
	}
	f, ok := s.Scheduler.(Finder)
	if !ok {
		return "", false, fmt.Errorf("this scheduler cannot find a job by its name")
	}
	for i := range 2 {
		id, found, err = f.FindJob(ctx, u.Job().Name, since, old...)
		if err != nil || found {
			return id, found, err
		}
		if i == 0 {
			s.Log("no job named %s yet; looking again in %s", u.Job().Name, s.Settle)
			if err := s.Sleep(ctx, s.Settle); err != nil {
				return "", false, err
			}
		}
	}
	return "", false, nil
}

// claimed is the job that began one of the runs, and is none of the old ones.
func (u *Unit) claimed(old []string) (string, error) {
	for _, dir := range u.Runs() {
		var claim Claim
		ok, err := ReadRecord(filepath.Join(dir, ClaimFile), &claim)
		if err != nil {
			return "", err
		}
		if id := BaseID(claim.JobID); ok && id != "" && !slices.Contains(old, id) {
			return id, nil
		}
	}
	return "", nil
}

// Adopt completes an interrupted submission with one look: for the job that claimed a run
// of the unit, or for the job that carries its name. It returns what is then known, the
// zero Submission if there is no job.
func Adopt(ctx context.Context, f Finder, dir string, now time.Time) (sub Submission, adopted bool, err error) {
	if sub, ok := Answered(dir); ok {
		return sub, false, nil
	}
	intents, err := intentsOf(dir)
	if err != nil {
		return sub, false, err
	}
	known, err := ReadRecord(filepath.Join(dir, SubmitFile), &sub)
	if err != nil || len(intents) == 0 || known && (sub.Attempt == 0 || sub.Attempt >= len(intents)) {
		return sub, false, err
	}
	u, err := ReadUnit(dir)
	if err != nil {
		return sub, false, err
	}
	old, err := u.earlier()
	if err != nil {
		return sub, false, err
	}
	old = append(old, sub.JobID)
	id, err := u.claimed(old)
	if err != nil {
		return sub, false, err
	}
	if id == "" {
		found := false
		if id, found, err = f.FindJob(ctx, u.Job().Name, intents[0].Time, old...); err != nil || !found {
			return sub, false, err
		}
	}
	sub = Submission{Schema: "profllm.submit/1", RunID: u.RunID(), JobID: id, Time: now.UTC(), Attempt: len(intents),
		Adopted: true}
	return sub, true, record(dir, sub)
}

// Answered returns the submission of a unit if it answers the unit's last intent, so that
// nothing has to be adopted.
func Answered(dir string) (sub Submission, ok bool) {
	if ReadJSON(filepath.Join(dir, SubmitFile), &sub) != nil {
		return Submission{}, false
	}
	return sub, sub.Attempt == 0 || !exists(intentFile(dir, sub.Attempt+1))
}

func intentFile(dir string, attempt int) string {
	if attempt == 1 {
		return filepath.Join(dir, IntentFile)
	}
	return filepath.Join(dir, fmt.Sprintf("intent-%d.json", attempt))
}

// intentsOf reads the intents of a run, in order. One without readable content,
// see CreateJSON, was just made or its writer died over it: it counts with the
// file's time.
func intentsOf(dir string) ([]Intent, error) {
	var list []Intent
	for {
		name := intentFile(dir, len(list)+1)
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var intent Intent
		ok, err := ReadRecord(name, &intent)
		if err != nil {
			return nil, err
		}
		if !ok {
			intent = Intent{Time: info.ModTime()}
		}
		list = append(list, intent)
	}
}

// alive reports whether the command that made the intent may still be at it.
func (i Intent) alive(now time.Time) bool {
	if i.Host == "" { // no content yet; that takes a moment
		return now.Sub(i.Time).Abs() < time.Minute
	}
	return alive(i.Host, i.PID, i.ProcessStart, now.Sub(i.Time))
}

// own reports whether this process made the intent.
func (i Intent) own() bool {
	host, err := os.Hostname()
	return err == nil && i.Host == host && i.PID == os.Getpid() && i.ProcessStart == process.Start(i.PID)
}

// Submitting returns which command may be submitting a unit at this moment, "" for none.
func Submitting(dir string, now time.Time) string {
	intents, err := intentsOf(dir)
	if err != nil {
		return err.Error()
	}
	if n := len(intents); n > 0 {
		if intents[n-1].alive(now) {
			return busy(intents[n-1]).Error()
		}
		return ""
	}
	for root := filepath.Dir(dir); root != filepath.Dir(root); root = filepath.Dir(root) {
		var s Scenario
		if ok, _ := ReadRecord(filepath.Join(root, ScenarioFile), &s); ok {
			if alive(s.Host, s.PID, s.ProcessStart, now.Sub(s.Created)) {
				return busy(Intent{Host: s.Host, PID: s.PID, Time: s.Created}).Error()
			}
			break
		}
	}
	return ""
}

func busy(i Intent) error {
	return fmt.Errorf("another command (process %d on %q, since %s) is submitting this run; retry when that command is done",
		i.PID, i.Host, i.Time.Local().Format(time.TimeOnly))
}

// Unfinished finds directories of a scenario below output whose submission to a
// scheduler, with the same kind of engine, was interrupted: some run has no job,
// and the command that submitted is gone.
func Unfinished(output, name string, simulated bool) ([]string, error) {
	entries, err := os.ReadDir(output) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		root := filepath.Join(output, e.Name())
		if strings.Contains(e.Name(), partial) {
			continue
		}
		var s Scenario
		ok, err := ReadRecord(filepath.Join(root, ScenarioFile), &s)
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		if !ok || s.Name != name || s.Local || s.Simulated != simulated ||
			alive(s.Host, s.PID, s.ProcessStart, time.Since(s.Created)) {
			continue
		}
		if slices.ContainsFunc(s.InOrder(), func(rel string) bool { return noSubmission(filepath.Join(root, rel)) }) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

// ReadScenario reads scenario.json of a scenario directory.
func ReadScenario(root string) (Scenario, error) {
	var s Scenario
	file := filepath.Join(root, ScenarioFile)
	if err := ReadJSON(file, &s); err != nil {
		return s, err
	}
	for _, dir := range slices.Concat(s.Runs, s.Units) {
		if !filepath.IsLocal(dir) {
			return Scenario{}, fmt.Errorf("read %s: %q lies outside of the scenario's directory", file, dir)
		}
	}
	return s, nil
}

// Root is the directory of the scenario that contains a run, a batch or anything else, or
// the scenario's own directory; "" if there is none.
func Root(path string) string {
	var book Book
	return book.root(filepath.Clean(path))
}

// InOrder lists the directories to submit, relative to the scenario's directory, parents
// first.
func (s Scenario) InOrder() []string {
	if len(s.Units) > 0 {
		return s.Units
	}
	return s.Runs
}

// noSubmission reports whether no readable submit.json lies in a directory.
func noSubmission(dir string) bool {
	var s Submission
	return ReadJSON(filepath.Join(dir, SubmitFile), &s) != nil
}

// alive reports whether a command that began age ago may still run. On another
// host nobody can tell, so a recent one counts as alive. A time further ahead is
// a wrong clock's, with which nobody submits: Slurm's credentials are good for
// five minutes.
func alive(host string, pid int, start string, age time.Duration) bool {
	if own, _ := os.Hostname(); host != own ||
		process.Start(pid) == "" && errors.Is(syscall.Kill(pid, 0), syscall.EPERM) {
		return age.Abs() < 10*time.Minute // or another user's, which /proc hides (hidepid)
	}
	return process.Runs(pid, start)
}
