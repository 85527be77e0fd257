package campaign

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/scheduler/kube"
)

// learn tells the cluster's scheduler of a unit, if that is a run on Kubernetes.
func (s Schedulers) learn(unit string, ids ...string) error {
	u, err := run.ReadUnit(unit)
	if err != nil || !u.OnKubernetes() {
		return err
	}
	return s.kube.Know(unit, u.Plan, ids...)
}

// learnAll tells the cluster's scheduler of the runs whose jobs are Jobs of Kubernetes.
func (c *Client) learnAll(s Schedulers, dirs []string, subs map[string]run.Submission) {
	for _, dir := range dirs {
		if id := subs[dir].JobID; s.kube != nil && strings.HasPrefix(id, run.KubePrefix) {
			if err := s.learn(dir, id); err != nil {
				c.note("%s: %v", c.relative(dir), err)
			}
		}
	}
}

// fetchEnded fetches what runs left in a cluster whose Jobs have ended, before anybody judges their
// states: logs are gone with their pods. A run whose files could not be fetched is not over yet.
func (c *Client) fetchEnded(ctx context.Context, s Schedulers, dirs []string, subs map[string]run.Submission,
	answers map[string]run.State) {
	if s.kube == nil {
		return
	}
	for _, dir := range dirs {
		st, asked := answers[subs[dir].JobID]
		if !asked || !strings.HasPrefix(st.JobID, run.KubePrefix) || !st.Final() || st.State == run.Cancelled {
			continue
		}
		fetched, err := s.kube.Fetch(ctx, st.JobID, st)
		if err == nil && fetched {
			c.progress("fetched the logs and results of %s", c.relative(dir))
		}
		if err != nil {
			st.State, st.Note, st.ExitCode = run.Running, run.Unfetched, ""
			st.Reason = strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n\thint: ", "; ")), " ")
			answers[st.JobID] = st
			continue
		}
		var end run.Sentinel
		if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) == nil && end.JobID == st.JobID &&
			st.State == run.Succeeded && end.Code != 0 {
			st.State, st.ExitCode = run.Failed, fmt.Sprintf("%d:0", end.Code)
			st.Reason = ""
			answers[st.JobID] = st
		}
	}
}

// judgeFetched does for a run that was fetched what a job on Slurm does for itself: one whose script
// ended with 0 and whose result is invalid says so with the job's exit code.
func (c *Client) judgeFetched(dir string, st run.State) error {
	var end run.Sentinel
	file := filepath.Join(dir, run.SentinelFile)
	if err := run.ReadJSON(file, &end); err != nil || end.Code != 0 {
		return err
	}
	col := c.Collector()
	records, err := col.Run(dir, &st)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if !rec.Result.IsGood() {
			end.Code = run.JudgedInvalid
			return run.WriteJSON(file, end)
		}
	}
	return nil
}

// StateOnRecord is the state of a run's job at the last look; ok is false if nobody has looked.
func StateOnRecord(dir string, sub run.Submission) (st run.State, ok bool) {
	err := run.ReadJSON(filepath.Join(dir, run.StateFile), &st)
	return st, err == nil && sub.JobID != "" && st.JobID == sub.JobID
}

// Live reports whether a run on Kubernetes is under way, by what is on record. Its logs are those of
// its pods then.
func (c *Client) Live(dir string) (sub run.Submission, yes bool) {
	sub = c.JobsOnRecord([]string{dir})[dir]
	if !strings.HasPrefix(sub.JobID, run.KubePrefix) {
		return sub, false
	}
	if st, ok := StateOnRecord(dir, sub); ok && st.Final() {
		return sub, false
	}
	var end run.Sentinel
	return sub, run.ReadJSON(filepath.Join(dir, run.SentinelFile), &end) != nil || end.JobID != sub.JobID
}

// LiveLogs reads the last lines of the logs of a run that is Live.
func (c *Client) LiveLogs(ctx context.Context, dir string, sub run.Submission, lines int) ([]kube.Log, error) {
	s := c.Schedulers()
	if err := s.learn(dir, sub.JobID); err != nil {
		return nil, err
	}
	return s.kube.Live(ctx, sub.JobID, lines)
}

// FollowLogs hands the lines of the logs of a run that is Live to show, until the run is over.
func (c *Client) FollowLogs(ctx context.Context, dir string, sub run.Submission, f kube.Following,
	show func(kube.Line) error) error {
	s := c.Schedulers()
	if err := s.learn(dir, sub.JobID); err != nil {
		return err
	}
	f.Ended = c.WatchEnd(ctx, dir)
	return s.kube.Follow(ctx, sub.JobID, f, show)
}

// Clean deletes what runs that are over still have in a cluster. Runs that are not over, and those of
// other schedulers, are left alone.
func (c *Client) Clean(ctx context.Context, dirs []string, jobs map[string]run.Submission,
	states map[string]run.State) error {
	s := c.Schedulers()
	var errs []error
	for _, dir := range dirs {
		id := jobs[dir].JobID
		if !strings.HasPrefix(id, run.KubePrefix) || !states[dir].Final() {
			continue
		}
		if err := c.clean(ctx, s, dir, id); err != nil {
			errs = append(errs, fmt.Errorf("%s: its objects are not deleted: %w", c.relative(dir), err))
		}
	}
	return errors.Join(errs...)
}

// Held counts the GPUs that pods of runs that are over hold in their clusters. Runs of which nothing
// is left, as far as is known, are not asked about.
func (c *Client) Held(ctx context.Context, dirs []string, jobs map[string]run.Submission,
	states map[string]run.State) (map[string]int, error) {
	s := c.Schedulers()
	held, byID := map[string]int{}, map[string]string{}
	var ids []string
	for _, dir := range dirs {
		id := jobs[dir].JobID
		if !strings.HasPrefix(id, run.KubePrefix) || !states[dir].Final() {
			continue
		}
		if u, err := run.ReadUnit(dir); err != nil || kube.IsClean(dir, u.Plan.RunID, id) || s.learn(dir, id) != nil {
			continue
		}
		ids, byID[id] = append(ids, id), dir
	}
	of, err := s.kube.Held(ctx, ids)
	for id, n := range of {
		held[byID[id]] = n
	}
	return held, err
}

// clean deletes what one run has in its cluster. id is that of its job, "" if none is on record.
func (c *Client) clean(ctx context.Context, s Schedulers, dir, id string) error {
	u, err := run.ReadUnit(dir)
	if err != nil || !u.OnKubernetes() {
		return err
	}
	left, err := s.kube.Clean(ctx, dir, u.Plan, id)
	if len(left) > 0 {
		c.note("%s: %s has the label of this run and is not its own, so that it stays: it was made by somebody else, or taken from its owner",
			c.relative(dir), strings.Join(left, ", "))
	}
	return err
}

// cleanUnfinished deletes what submissions left in a cluster that were cut short, so that no job is on
// record.
func (c *Client) cleanUnfinished(ctx context.Context, s Schedulers, dirs []string,
	jobs map[string]run.Submission) error {
	var errs []error
	for _, dir := range dirs {
		sub := jobs[dir]
		if sub.JobID != "" || sub.Refused != "" || !run.HasIntent(dir) || run.Submitting(dir, c.Now()) != "" {
			continue
		}
		if err := c.clean(ctx, s, dir, ""); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.relative(dir), err))
		}
	}
	return errors.Join(errs...)
}
