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
// submitted one alone.
func (s *Submitter) Submit(ctx context.Context, dir string) Outcome {
	o := Outcome{Dir: dir}
	if o.Plan, o.Err = ReadPlan(dir); o.Err != nil {
		return o
	}
	var done Submission
	if err := ReadJSON(filepath.Join(dir, SubmitFile), &done); err == nil && done.Refused == "" {
		o.Submission = done
		return o
	}
	attempt := 1
	var intent Intent
	err := ReadJSON(filepath.Join(dir, IntentFile), &intent)
	switch {
	case err == nil && done.Refused == "":
		attempt = intent.Attempt + 1
		id, found, err := s.look(ctx, intent)
		if err != nil {
			o.Err = fmt.Errorf("look for the job of %s: %w", dir, err)
			return o
		}
		if found {
			o.Submission = Submission{Schema: "profllm.submit/1", RunID: intent.RunID, JobID: id, Time: s.Now().UTC(), Adopted: true}
			o.Err = WriteJSON(filepath.Join(dir, SubmitFile), o.Submission)
			return o
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		o.Err = err
		return o
	}
	o.Submission, o.Err = s.submit(ctx, dir, o.Plan, attempt)
	return o
}

func (s *Submitter) submit(ctx context.Context, dir string, p *plan.Plan, attempt int) (Submission, error) {
	intent := Intent{Schema: "profllm.intent/1", RunID: p.RunID, JobName: p.Job.Name, Time: s.Now().UTC(), Attempt: attempt}
	if err := WriteJSON(filepath.Join(dir, IntentFile), intent); err != nil {
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
		id, found, lookErr := s.look(ctx, intent)
		if lookErr != nil || !found {
			return sub, errors.Join(fmt.Errorf("submit %s: %w", dir, err), lookErr)
		}
		sub.JobID, sub.Adopted = id, true
	}
	return sub, WriteJSON(filepath.Join(dir, SubmitFile), sub)
}

// look searches for the job of an intent, twice with a pause, since a request
// on its way becomes visible only later.
func (s *Submitter) look(ctx context.Context, intent Intent) (id string, found bool, err error) {
	f, ok := s.Scheduler.(Finder)
	if !ok {
		return "", false, fmt.Errorf("this scheduler cannot find a job by its name")
	}
	for i := range 2 {
		id, found, err = f.FindJob(ctx, intent.JobName, intent.Time)
		if err != nil || found {
			return id, found, err
		}
		if i == 0 {
			s.Log("no job named %s yet; looking again in %s", intent.JobName, s.Settle)
			if err := s.Sleep(ctx, s.Settle); err != nil {
				return "", false, err
			}
		}
	}
	return "", false, nil
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
		if ReadJSON(m, &s) != nil || s.Name != name || alive(s) {
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

// alive reports whether the command that wrote s may still be submitting. On
// another host nobody can tell, so a recent one counts as alive.
func alive(s Scenario) bool {
	if host, _ := os.Hostname(); host != s.Host {
		return time.Since(s.Created) < 10*time.Minute
	}
	return s.ProcessAge != "" && ProcessStart(s.PID) == s.ProcessAge
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
