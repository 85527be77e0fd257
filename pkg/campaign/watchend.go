package campaign

import (
	"context"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// WatchEnd returns a function that reports whether a run is over: by its files at each call, by the
// scheduler with pauses that grow from a second to a minute.
func (c *Client) WatchEnd(ctx context.Context, dir string) func() bool {
	dirs := []string{dir}
	jobs := c.JobsOnRecord(dirs)
	pause, next := time.Second, c.Now()
	return func() bool {
		var sentinel run.Sentinel
		if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &sentinel) == nil &&
			(jobs[dir].JobID == "" || sentinel.JobID == jobs[dir].JobID) {
			return true
		}
		if c.Now().Before(next) {
			return false
		}
		next, pause = c.Now().Add(pause), min(2*pause, time.Minute)
		jobs = c.JobsOnRecord(dirs) // a job may have been submitted meanwhile
		states, err := c.States(ctx, dirs, jobs)
		return err == nil && states[dir].Final()
	}
}
