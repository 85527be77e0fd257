package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// waits turns the order that a plan asks for into Slurm's words. A condition
// that holds already is dropped; one that can no longer hold is a RefusedError
// that names the run. Slurm accepts afterok of a job that it does not know, and
// runs the child, so every id is made sure of first.
func (s *Submitter) waits(ctx context.Context, u *Unit) ([]string, error) {
	var types []string
	ids := map[string][]string{} // by type
	var errs []error
	for _, a := range u.Job().After {
		if u.waitsInside(a) {
			continue
		}
		id, err := s.parent(ctx, a)
		if err != nil {
			errs = append(errs, err)
		}
		if id == "" || slices.Contains(ids[a.Type], id) {
			continue
		}
		if ids[a.Type] == nil {
			types = append(types, a.Type)
		}
		ids[a.Type] = append(ids[a.Type], id)
	}
	if len(errs) > 0 {
		return nil, worst(errs)
	}
	var list []string
	for _, t := range types {
		list = append(list, t+":"+strings.Join(s.wholeArrays(ids[t]), ":"))
	}
	return list, nil
}

// worst puts what is not decided yet before a refusal, which is.
func worst(errs []error) error {
	var refused *RefusedError
	all := RefusedError{Parent: true}
	var reasons []string
	for _, err := range errs {
		if !errors.As(err, &refused) {
			return err
		}
		reasons = append(reasons, refused.Reason)
		all.Failed = all.Failed || refused.Failed
	}
	all.Reason = strings.Join(reasons, "; ")
	return &all
}

// parent is the job to wait for, "" if the condition holds already.
func (s *Submitter) parent(ctx context.Context, a plan.After) (string, error) {
	sub, err := s.book.ReadSubmission(a.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s, which this run waits for, has no job yet", a.Dir)
	case err != nil:
		return "", err
	case sub.Refused != "":
		return "", &RefusedError{
			Reason: fmt.Sprintf("it waits for %s (%s), which was not submitted: %s", a.Dir, a.Type, sub.Refused),
			Failed: sub.ParentFailed,
		}
	}
	st := sub.RunState(State{JobID: sub.JobID, State: Unknown}, a.Dir)
	if !st.Final() && s.fresh[BaseID(sub.JobID)] {
		return sub.JobID, nil
	}
	if !st.Final() {
		states, err := s.Scheduler.States(ctx, []string{sub.JobID})
		if err != nil {
			return "", fmt.Errorf("query job %s of %s: %w", sub.JobID, a.Dir, err)
		}
		st = sub.RunState(states[sub.JobID], a.Dir)
	}
	switch {
	case st.State == Unknown && st.Note == Forgotten:
		return "", fmt.Errorf("job %s of %s, which this run waits for, is unknown: %s\n\thint: once the job has been unknown for %s, resume submits both runs again",
			sub.JobID, a.Dir, st.Reason, AskAfter)
	case st.State == Unknown || st.State == "":
		return "", fmt.Errorf("job %s of %s, which this run waits for, is unknown: %s", sub.JobID, a.Dir, st.Reason)
	case !st.Final():
		return sub.JobID, nil
	case a.Type == afterOK && st.State != Succeeded:
		why := st.State
		if st.ExitCode != "" {
			why += ", exit code " + st.ExitCode
		}
		return "", &RefusedError{
			Reason: fmt.Sprintf("it waits for %s (%s), whose job %s is over: %s", a.Dir, a.Type, sub.JobID, why),
			Failed: st.State == Failed || st.State == Timeout || st.State == OOM,
		}
	}
	return "", nil
}

// afterOK is the only condition that an end can make impossible.
const afterOK = "afterok"

// wholeArrays replaces the ids of all tasks of an array by the array's.
func (s *Submitter) wholeArrays(ids []string) []string {
	count, size := map[string]int{}, map[string]int{}
	for _, c := range s.book.runs {
		var sub Submission
		if c.unit.Kind() == plan.Array && c.task == 0 && ReadJSON(filepath.Join(c.unit.Dir, SubmitFile), &sub) == nil {
			size[sub.JobID] = len(c.unit.Batch.Runs)
		}
	}
	for _, id := range ids {
		if base := BaseID(id); base != id {
			count[base]++
		}
	}
	var list []string
	for _, id := range ids {
		if base := BaseID(id); base != id && count[base] == size[base] {
			id = base
		}
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}
