package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/profllm/profllm/pkg/plan"
)

// What an attempt leaves in a run directory, in the order in which it is moved:
// what a job wrote, and what is known of the job. The record of the submission
// and the last state come last, so that a command that is killed here still
// leaves a run whose job is known to be over.
var (
	attemptFiles = []string{RawDir, LogDir, TelemetryDir, LeftDir, SentinelFile, PlacementFile, PreflightFile,
		NodesFile, ServingFile, ResultFile, EventFile, KubeDir}
	jobFiles = []string{"stdout.txt", "stderr.txt", "job.env", StopFile, ClaimFile, SubmitFile, StateFile}
)

// SetAside moves the files of an earlier attempt from a run directory to attempts/N, where
// N is the first free number from n on, and returns N. It does the same in the directories
// of the run's loads and hooks. A job that continues keeps its claim and its record.
func SetAside(dir string, n int) (int, error) { return setAside(dir, n, attemptFiles) }

// setAsideJob moves everything that an earlier job left, if there is anything.
func setAsideJob(dir string) error {
	for _, name := range append(attemptFiles[2:len(attemptFiles):len(attemptFiles)], jobFiles...) {
		if exists(filepath.Join(dir, name)) {
			_, err := setAside(dir, 1, append(attemptFiles[:len(attemptFiles):len(attemptFiles)], jobFiles...))
			return err
		}
	}
	return folders(dir) // a command that was killed here may have moved them, and no more
}

func setAside(dir string, n int, names []string) (int, error) {
	p, err := ReadPlan(dir)
	if err != nil {
		return n, err
	}
	for _, h := range hooksOf(p) {
		if err := setAsideJob(movedPath(dir, p, h.Dir)); err != nil {
			return n, err
		}
	}
	for _, at := range loadsOf(dir, p) {
		if at == dir {
			continue
		}
		if _, err := move(at, n, []string{RawDir, LogDir, TelemetryDir, ResultFile}); err != nil {
			return n, err
		}
	}
	return move(dir, n, names)
}

// move renames files of a directory into a new folder below attempts/.
func move(dir string, n int, names []string) (int, error) {
	if err := os.MkdirAll(filepath.Join(dir, AttemptDir), 0o755); err != nil {
		return n, err
	}
	if err := CheckDir(filepath.Join(dir, AttemptDir)); err != nil {
		return n, err
	}
	for ; ; n++ {
		err := os.Mkdir(filepath.Join(dir, AttemptDir, strconv.Itoa(n)), 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return n, err
		}
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name),
			filepath.Join(dir, AttemptDir, strconv.Itoa(n), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return n, folders(dir)
}

// earlier lists the jobs that executed, or were to execute, a unit's runs before
// its own: they are over, and none of them is adopted again.
func (u *Unit) earlier() (ids []string, err error) {
	var files []string
	if u.Plan != nil {
		attempts := filepath.Join(u.Dir, AttemptDir)
		entries, err := os.ReadDir(attempts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			files = append(files, filepath.Join(attempts, e.Name(), SubmitFile),
				filepath.Join(attempts, e.Name(), ClaimFile))
		}
	} else {
		parent := filepath.Dir(u.Dir)
		own, _ := strconv.Atoi(filepath.Base(u.Dir))
		numbers, err := Batches(filepath.Dir(parent))
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			if n < own {
				files = append(files, filepath.Join(parent, strconv.Itoa(n), SubmitFile))
			}
		}
	}
	for _, name := range files {
		var s Submission // a claim names its job alike
		if ok, err := ReadRecord(name, &s); err != nil {
			return nil, err
		} else if ok && s.JobID != "" {
			ids = append(ids, BaseID(s.JobID))
		}
	}
	return ids, nil
}

// waitsInside reports whether an order is kept by the unit itself.
func (u *Unit) waitsInside(a plan.After) bool {
	if u.Kind() != plan.Sequence {
		return false
	}
	for _, dir := range u.Batch.Runs {
		if dir == a.Dir {
			return true
		}
	}
	return false
}
