package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Cancelled is the outcome of a cancellation.
type Cancelled struct {
	Jobs   map[string]run.Submission // by run
	States map[string]run.State
	Open   int // jobs that are not gone
}

// CancelLimit is how long a cancelled job may take to end.
const CancelLimit = 90 * time.Second

// Cancel ends the jobs of runs, and waits until they have ended, at most CancelLimit.
func (c *Client) Cancel(ctx context.Context, dirs []string) (out Cancelled, err error) {
	s := c.Schedulers()
	out.Jobs = c.Jobs(ctx, dirs)
	if err := c.cleanUnfinished(ctx, s, dirs, out.Jobs); err != nil {
		return out, err
	}
	if out.States, err = c.states(ctx, s, dirs, out.Jobs); err != nil {
		return out, err
	}
	if err := c.Clean(ctx, dirs, out.Jobs, out.States); err != nil { // of what is over
		return out, err
	}
	for _, id := range c.toCancel(dirs, out.Jobs, out.States) {
		if err := s.Cancel(ctx, id); err != nil {
			return out, err
		}
	}
	for end := c.Now().Add(CancelLimit); ; {
		if out.States, err = c.states(ctx, s, dirs, out.Jobs); err != nil {
			return out, err
		}
		out.Open = 0
		for _, dir := range dirs {
			if out.Jobs[dir].JobID != "" && !out.States[dir].Final() && out.States[dir].Note != run.Forgotten {
				out.Open++
			}
		}
		if out.Open == 0 || c.Now().After(end) {
			return out, nil
		}
		if err := sleep(ctx, time.Second); err != nil {
			return out, err
		}
	}
}

// BeingSubmitted returns an error if another command is submitting some of the runs: their
// jobs cannot be cancelled yet.
func (c *Client) BeingSubmitted(dirs []string, subs map[string]run.Submission) error {
	var errs []error
	now := c.JobsOnRecord(dirs)
	for _, dir := range dirs {
		sub := subs[dir]
		if sub.JobID != "" || sub.Refused != "" {
			continue
		}
		if id := now[dir].JobID; id != "" {
			errs = append(errs, fmt.Errorf("%s: job %s was submitted meanwhile", c.relative(dir), id))
		} else if why := run.Submitting(cmp.Or(sub.Batch, dir), c.Now()); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", c.relative(dir), why))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return as(JobOpen, fmt.Errorf("%w\n\thint: end that command or wait for it, then run cancel again",
		errors.Join(errs...)))
}

// toCancel lists the ids that end the jobs of runs: an array of which nothing is
// left out as a whole, and a sequence only as a whole.
func (c *Client) toCancel(dirs []string, subs map[string]run.Submission, states map[string]run.State) []string {
	open := map[string]int{} // of each batch
	for _, dir := range dirs {
		if subs[dir].JobID != "" && !states[dir].Final() {
			open[subs[dir].Batch]++
		}
	}
	var ids []string
	for _, dir := range dirs {
		sub := subs[dir]
		if sub.JobID == "" || states[dir].Final() {
			continue
		}
		if states[dir].Note == run.Forgotten { // its id may be another job's by now
			c.note("%s: Slurm does not know job %s, which is not cancelled", c.relative(dir), sub.JobID)
			continue
		}
		id := sub.JobID
		if u, err := run.ReadUnit(cmp.Or(sub.Batch, dir)); err == nil && u.Batch != nil &&
			!slices.Contains(ids, run.BaseID(id)) {
			switch all := len(u.Batch.Runs); {
			case open[sub.Batch] == all:
				id = run.BaseID(id)
			case u.Kind() == plan.Sequence:
				c.note("%s is part of a sequence: job %s is cancelled as a whole", c.relative(dir), id)
			}
		}
		if !slices.Contains(ids, id) && !slices.Contains(ids, run.BaseID(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}
