package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

// Submitter submits runs so that none is lost and none is submitted twice.
type Submitter struct {
	Scheduler Scheduler
	Now       func() time.Time
	Settle    time.Duration // between two looks for a job whose submission was interrupted
	Sleep     func(context.Context, time.Duration) error
	Log       func(format string, args ...any)
}

// Outcome is what became of one run.
type Outcome struct {
	Dir        string
	Plan       *plan.Plan
	Submission Submission
	Err        error
}

// Submit brings one run directory to the state "submitted": it submits a run
// that has no intent, adopts the job of an interrupted submission, and leaves a
// submitted one alone. While another command submits the run, it is an error.
func (s *Submitter) Submit(ctx context.Context, dir string) Outcome {
	o := Outcome{Dir: dir}
	if o.Plan, o.Err = ReadPlan(dir); o.Err != nil {
		return o
	}
	var done Submission
	doneErr := ReadJSON(filepath.Join(dir, SubmitFile), &done)
	if doneErr == nil && done.Refused == "" {
		o.Submission = done
		return o
	}
	if o.Err = ctx.Err(); o.Err != nil {
		return o
	}
	intents, err := intentsOf(dir)
	if err != nil {
		o.Err = err
		return o
	}
	// A refusal answers every intent so far: it is removed before the next sbatch.
	if open := len(intents) > 0 && doneErr != nil; open {
		last := intents[len(intents)-1]
		if last.PID != os.Getpid() && last.alive(s.Now()) {
			o.Err = busy(last)
			return o
		}
		id, found, err := s.look(ctx, dir, o.Plan.Job.Name, intents[0].Time)
		if err != nil {
			o.Err = fmt.Errorf("look for the job of %s: %w", dir, err)
			return o
		}
		if found {
			o.Submission = Submission{Schema: "profllm.submit/1", RunID: o.Plan.RunID, JobID: id, Time: s.Now().UTC(), Adopted: true}
			o.Err = WriteJSON(filepath.Join(dir, SubmitFile), o.Submission)
			return o
		}
	}
	o.Submission, o.Err = s.submit(ctx, dir, o.Plan, len(intents)+1)
	return o
}

func (s *Submitter) submit(ctx context.Context, dir string, p *plan.Plan, attempt int) (Submission, error) {
	host, err := os.Hostname()
	if err != nil {
		return Submission{}, err
	}
	pid := os.Getpid()
	intent := Intent{
		Schema: "profllm.intent/1", RunID: p.RunID, JobName: p.Job.Name, Time: s.Now().UTC(), Attempt: attempt,
		Host: host, PID: pid, ProcessAge: ProcessStart(pid),
	}
	if err := CreateJSON(intentFile(dir, attempt), intent); errors.Is(err, fs.ErrExist) {
		return Submission{}, fmt.Errorf("another command submits this run at this moment: %w", err)
	} else if err != nil {
		return Submission{}, err
	}
	if err := os.Remove(filepath.Join(dir, SubmitFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Submission{}, err
	}
	sub, err := s.Scheduler.Submit(ctx, Request{Script: filepath.Join(dir, ScriptFile), Name: p.Job.Name, Comment: p.Job.Comment, Dir: dir})
	sub.Schema, sub.RunID, sub.Time = "profllm.submit/1", p.RunID, s.Now().UTC()
	var refused *RefusedError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		sub.Refused = refused.Reason
		return sub, errors.Join(err, WriteJSON(filepath.Join(dir, SubmitFile), sub))
	default:
		s.Log("the answer to the submission is lost (%v); looking for the job", err)
		id, found, lookErr := s.look(ctx, dir, p.Job.Name, intent.Time)
		if lookErr != nil || !found {
			return sub, errors.Join(fmt.Errorf("submit %s: %w", dir, err), lookErr)
		}
		sub.JobID, sub.Adopted = id, true
	}
	return sub, WriteJSON(filepath.Join(dir, SubmitFile), sub)
}

// look searches for the job of an interrupted submission: first in the run
// directory, where a job that started says so, then at the scheduler, twice with
// a pause, since a request on its way becomes visible only later.
func (s *Submitter) look(ctx context.Context, dir, name string, since time.Time) (id string, found bool, err error) {
	var claim Claim
	if ReadJSON(filepath.Join(dir, ClaimFile), &claim) == nil && claim.JobID != "" {
		return claim.JobID, true, nil
	}
	f, ok := s.Scheduler.(Finder)
	if !ok {
		return "", false, fmt.Errorf("this scheduler cannot find a job by its name")
	}
	for i := range 2 {
		id, found, err = f.FindJob(ctx, name, since)
		if err != nil || found {
			return id, found, err
		}
		if i == 0 {
			s.Log("no job named %s yet; looking again in %s", name, s.Settle)
			if err := s.Sleep(ctx, s.Settle); err != nil {
				return "", false, err
			}
		}
	}
	return "", false, nil
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
		if ReadJSON(name, &intent) != nil {
			intent = Intent{Time: info.ModTime()}
		}
		list = append(list, intent)
	}
}

// alive reports whether the command that made the intent may still be at it.
func (i Intent) alive(now time.Time) bool {
	if i.Host == "" { // no content yet; that takes a moment
		return now.Sub(i.Time) < time.Minute
	}
	return alive(i.Host, i.PID, i.ProcessAge, now.Sub(i.Time))
}

func busy(i Intent) error {
	return fmt.Errorf("another command (process %d on %q, since %s) submits this run; try again when it is done",
		i.PID, i.Host, i.Time.Local().Format(time.TimeOnly))
}

// Unfinished finds directories of a scenario below output whose submission was
// interrupted: some run has no job, and the command that submitted is gone.
func Unfinished(output, name string) ([]string, error) {
	matches, err := filepath.Glob(filepath.Join(output, "*", scenarioFile))
	if err != nil {
		return nil, err
	}
	sort.Strings(matches)
	var roots []string
	for _, m := range matches {
		var s Scenario
		if strings.Contains(filepath.Base(filepath.Dir(m)), partial) || ReadJSON(m, &s) != nil || s.Name != name || alive(s.Host, s.PID, s.ProcessAge, time.Since(s.Created)) {
			continue
		}
		for _, r := range s.Runs {
			if missing(filepath.Join(filepath.Dir(m), r)) {
				roots = append(roots, filepath.Dir(m))
				break
			}
		}
	}
	return roots, nil
}

// ReadScenario reads scenario.json of a scenario directory.
func ReadScenario(root string) (Scenario, error) {
	var s Scenario
	err := ReadJSON(filepath.Join(root, scenarioFile), &s)
	return s, err
}

func missing(dir string) bool {
	var s Submission
	return ReadJSON(filepath.Join(dir, SubmitFile), &s) != nil
}

// alive reports whether a command that began age ago may still run. On another
// host nobody can tell, so a recent one counts as alive.
func alive(host string, pid int, start string, age time.Duration) bool {
	if own, _ := os.Hostname(); host != own {
		return age < 10*time.Minute
	}
	return start != "" && ProcessStart(pid) == start
}

// ProcessStart tells one process from a later one with the same PID: the boot it
// lives in and its start in clock ticks. It is "" when no such process runs.
func ProcessStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(boot)) + "/" + fields[19]
}
