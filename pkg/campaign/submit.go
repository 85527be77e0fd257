package campaign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// submission is one unit to submit. over is the job that executed the unit before, and
// has ended.
type submission struct{ dir, over string }

// Submit submits every unit of a scenario directory that has no job yet, and returns the
// runs that have one. settle is the pause between two looks for the job of an interrupted
// submission.
func (c *Client) Submit(ctx context.Context, root string, settle time.Duration) (dirs []string, err error) {
	s, err := run.ReadScenario(root)
	if err != nil {
		return nil, as(Usage, err)
	}
	var list []submission
	for _, rel := range s.InOrder() {
		list = append(list, submission{dir: filepath.Join(root, rel)})
	}
	return c.submitAll(ctx, root, list, settle)
}

// submitAll makes submissions.
func (c *Client) submitAll(ctx context.Context, root string, list []submission,
	settle time.Duration) (dirs []string, err error) {
	var open []string
	for _, d := range list {
		if _, answered := run.Answered(d.dir); !answered || d.over != "" {
			open = append(open, d.dir)
		}
	}
	if err := c.checkSecrets(open); err != nil {
		return nil, as(NotSubmitted, fmt.Errorf("%w\n\thint: profllm %s resume %s", err, run.Verbs(root), c.relative(root)))
	}
	known := c.Schedulers()
	for _, dir := range open {
		if err := known.learn(dir); err != nil {
			return nil, as(NotSubmitted, fmt.Errorf("%s: %w", c.relative(dir), err))
		}
	}
	submitter := c.submitter(known, settle)
	var cleared []string
	var errs []error
	again := "profllm " + run.Verbs(root) + " resume"
	for _, d := range list {
		o := submitter.Again(ctx, d.dir, d.over)
		var refused *run.RefusedError
		if errors.As(o.Err, &refused) && refused.Failed {
			again = "profllm " + run.Verbs(root) + " resume --failed"
		}
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.relative(o.Dir), o.Err))
			continue
		}
		if note := o.Submission.Cleared; len(note) > 0 && !slices.Equal(note, cleared) {
			cleared = note
			c.note("cleared for sbatch: %s", strings.Join(note, " "))
		}
		c.Events.Submitted(o)
		dirs = append(dirs, o.Unit.Runs()...)
	}
	if err := errors.Join(errs...); err != nil {
		return dirs, as(NotSubmitted, fmt.Errorf("%w\n\thint: %s %s", err, again, c.relative(root)))
	}
	return dirs, nil
}

// Jobs returns which job carries each run, and adopts the jobs of interrupted submissions.
// If the job of a run cannot be found out, Jobs notes that and continues with the other
// runs.
func (c *Client) Jobs(ctx context.Context, dirs []string) map[string]run.Submission {
	var book run.Book
	carriers, units := map[string]string{}, map[string]run.Submission{}
	var order []string
	for _, dir := range dirs {
		unit, err := book.Unit(dir)
		if err != nil {
			c.note("%s: %v", c.relative(dir), err)
			continue
		}
		if _, seen := units[unit]; !seen {
			units[unit] = run.Submission{}
			order = append(order, unit)
		}
		carriers[dir] = unit
	}
	answers, answered := make([]run.Submission, len(order)), make([]bool, len(order))
	run.AtOnce(len(order), run.SmallFiles, func(i int) { answers[i], answered[i] = run.Answered(order[i]) })
	known := c.Schedulers()
	for i, unit := range order {
		if !answered[i] {
			if err := known.learn(unit); err != nil {
				c.note("%s: %v", c.relative(unit), err)
			}
			sub, adopted, err := run.Adopt(ctx, known.finder(unit), unit, c.Now())
			if err != nil {
				c.note("%s: look for its job: %v", c.relative(unit), err)
			} else if adopted {
				c.progress("adopted job %s for %s", sub.JobID, c.relative(unit))
			}
			answers[i] = sub
		}
		units[unit] = answers[i]
	}
	subs := map[string]run.Submission{}
	for dir, unit := range carriers {
		subs[dir] = book.Submission(dir, units[unit])
	}
	return subs
}

// JobsOnRecord returns which job carries each run, according to the files on disk.
func (c *Client) JobsOnRecord(dirs []string) map[string]run.Submission {
	var book run.Book
	subs := map[string]run.Submission{}
	for _, dir := range dirs {
		sub, err := book.ReadSubmission(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.note("%s: %v", c.relative(dir), err)
		}
		subs[dir] = sub
	}
	return subs
}

func (c *Client) submitter(s run.Scheduler, settle time.Duration) *run.Submitter {
	return &run.Submitter{Scheduler: s, Now: c.Now, Settle: settle, Log: c.progress, Lookup: c.lookup, Sleep: sleep}
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
