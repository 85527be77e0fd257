package run

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Blocked returns why a run can never begin in the job of its sequence, "" if it can: a
// run that it waits for has failed. Between jobs, Slurm would remove such a run. before
// are the runs that had their turn; nil if that is not known.
func Blocked(dir, job string, before []string) string {
	return blocked(dir, job, before, map[string]bool{})
}

// blocked remembers what it has seen: a file may hold an order without an end.
func blocked(dir, job string, before []string, seen map[string]bool) string {
	p, err := ReadPlan(dir)
	if err != nil || seen[dir] {
		return "" // its script will say so
	}
	seen[dir] = true
	for _, a := range p.Job.After {
		if a.Type != afterOK {
			continue
		}
		parent := movedPath(dir, p, a.Dir)
		var end Sentinel
		over := ReadJSON(filepath.Join(parent, SentinelFile), &end) == nil && end.JobID == job
		why := ""
		switch {
		case over && end.Code != 0:
			why = fmt.Sprintf("ended with exit code %d", end.Code)
		case over:
		case claimedBy(parent, job) && slices.Contains(before, parent):
			why = "did not finish"
		case claimedBy(parent, job): // it goes on
		case slices.Contains(before, parent), blocked(parent, job, before, seen) != "":
			why = "never ran"
		}
		if why != "" {
			return fmt.Sprintf("it waits for %s (%s), which %s", a.Dir, a.Type, why)
		}
	}
	return ""
}
