package campaign

import (
	"context"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// WatchEnd returns a function that reports whether a run is over: by its files at each call, by the
// scheduler with pauses that grow from a second to a minute. The function returns a StuckError
// if the run's job can never start.
func (c *Client) WatchEnd(ctx context.Context, dir string) func() (over bool, err error) {
	dirs := []string{dir}
	jobs := c.JobsOnRecord(dirs)
	warned, doomed := map[string]bool{}, false
	pause, next := time.Second, c.Now()
	return func() (bool, error) {
		var sentinel run.Sentinel
		if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil &&
			(jobs[dir].JobID == "" || sentinel.JobID == jobs[dir].JobID) {
			return true, nil
		}
		if c.Now().Before(next) {
			return false, nil
		}
		next, pause = c.Now().Add(pause), min(2*pause, time.Minute)
		jobs = c.JobsOnRecord(dirs) // a job may have been submitted meanwhile
		states, err := c.States(ctx, dirs, jobs)
		if err != nil || states[dir].Final() {
			return err == nil, nil
		}
		stuck := c.allStuck(dirs, jobs, states, 1)
		switch {
		case stuck == nil:
			c.warn(dirs, states, warned)
		case doomed: // at two looks, as Follow
			return false, as(NotSubmitted, stuck)
		}
		doomed = stuck != nil
		return false, nil
	}
}
