package job

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// Pauses between two looks at other runs, and between two questions to the
// scheduler about those that have left nothing.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 5 * time.Second
	askEach   = time.Minute
)

// Until waits until all of the given runs are over, notes that, and sends TERM to the
// script, which ends as after any TERM: what was measured is kept. A run is over when its
// job has written the sentinel, or when the function over says so. Until calls that
// function with the unfinished runs at most once a minute. Without the script, there is
// nothing to wait for.
func (j *Job) Until(ctx context.Context, script int, dirs []string, over func(dirs []string) []string) error {
	age := process.Start(script)
	left, asked := slices.Clone(dirs), j.Now()
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		left = withoutSentinel(left)
		if len(left) > 0 && j.Now().Sub(asked) > askEach {
			asked = j.Now()
			gone := over(left)
			left = slices.DeleteFunc(left, func(dir string) bool { return slices.Contains(gone, dir) })
		}
		if !process.Runs(script, age) {
			return nil
		}
		if len(left) == 0 {
			break
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
	why := "every run is over: " + strings.Join(dirs, ", ")
	j.logf("this job ends: %s", why)
	err := j.event(Event{Event: UntilOver, Text: why}) // the job ends even if its disk is full
	return errors.Join(err, syscall.Kill(script, syscall.SIGTERM))
}

// withoutSentinel lists the runs whose present job has not come to its end.
func withoutSentinel(dirs []string) []string {
	var book run.Book
	var left []string
	for _, dir := range dirs {
		var s run.Sentinel
		if run.ReadJSON(filepath.Join(dir, run.SentinelFile), &s) == nil {
			if sub, err := book.ReadSubmission(dir); err != nil || sub.JobID == s.JobID {
				continue // a job that writes has begun, so its record is only late
			}
		}
		left = append(left, dir)
	}
	return left
}

// EndedWithOthers reports whether the job ended because the runs that it accompanied
// were over.
func EndedWithOthers(events []Event) bool {
	for _, e := range events {
		if e.Event == UntilOver {
			return true
		}
	}
	return false
}
