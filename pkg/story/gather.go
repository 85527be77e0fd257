package story

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/failure"
)

// OfRun gathers the evidence of a run and returns one story for each of its loads. shown is the
// run's directory as it is to be shown. The run is collected, and nothing is written.
func OfRun(col *collect.Collector, dir, shown string) ([]Story, error) {
	e, err := Read(dir)
	e.Dir, e.Again = shown, collect.AgainOf(dir, shown)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Dir, err)
	}
	records, err := col.RunAs(dir, shown, e.State)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Dir, err)
	}
	var stories []Story
	for _, rec := range records {
		e.Result, e.Load, e.RecordDir = rec.Result, nil, shown
		if below, err := filepath.Rel(dir, rec.Dir); err == nil {
			e.RecordDir = filepath.Join(shown, below)
		}
		if e.Plan != nil {
			for i := range e.Plan.Loads {
				below, err := filepath.Rel(e.Plan.Dir, e.Plan.Loads[i].Dir) // the whole may have been moved
				if err == nil && filepath.Join(dir, below) == filepath.Clean(rec.Dir) || len(records) == 1 {
					e.Load = &e.Plan.Loads[i]
				}
			}
		}
		s := Of(e)
		if e.Load != nil {
			s.load = e.Load.Name
		}
		stories = append(stories, s)
	}
	return stories, nil
}

// ErrNoLogs says that there are neither runs nor logs below paths.
var ErrNoLogs = errors.New("neither runs nor logs")

// FindLogs finds the logs of one folder, or some files, that belong to no run, and the first
// cause that they show. Times without a zone are of loc. It returns ErrNoLogs if there are
// none, and another error for a path that cannot be read.
func FindLogs(paths []string, stdin io.Reader, loc *time.Location) (Logs, error) {
	e := Logs{Path: strings.Join(paths, " ")}
	var logs []failure.Log
	for _, path := range paths {
		found, notes, err := collect.FindLogs(path, stdin)
		if err != nil {
			return e, err
		}
		for _, l := range found {
			e.Files = append(e.Files, LogFile{Name: l.File, Role: l.Role})
			logs = append(logs, l)
		}
		e.Notes = append(e.Notes, notes...)
	}
	if len(logs) == 0 {
		return e, ErrNoLogs
	}
	table, err := failure.Builtin()
	if err != nil {
		return e, err
	}
	var unread error
	e.Failure, unread = table.ExplainLogs(logs, loc)
	if unread != nil {
		e.Notes = append(e.Notes, unread.Error())
	}
	return e, nil
}

// logNames are the extensions of logs.
var logNames = map[string]bool{".log": true, ".out": true, ".err": true}

// CountLogs counts the logs at and below a path by their roles, as "decode: 2, unknown role:
// 1"; "" if there are none. Pipes are not read.
func CountLogs(path string) string {
	if info, err := os.Stat(path); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return ""
	}
	logs, _, err := collect.FindLogs(path, nil)
	if err != nil {
		return ""
	}
	roles := map[string]int{}
	for _, l := range logs {
		if l.Role != "" || logNames[filepath.Ext(strings.TrimSuffix(l.File, ".xz"))] {
			roles[cmp.Or(l.Role, "unknown role")]++
		}
	}
	var parts []string
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		parts = append(parts, fmt.Sprintf("%s: %d", role, roles[role]))
	}
	return strings.Join(parts, ", ")
}
