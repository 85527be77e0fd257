package story

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/run"
)

// Read gathers what a run directory holds, but its results. A file that holds no
// record, as a crash may leave it, counts as absent; one that cannot be read is a
// note: the story is told with what there is.
func Read(dir string) (Evidence, error) {
	e := Evidence{Dir: dir}
	var err error
	if e.Plan, err = run.ReadPlan(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	if root := run.Root(dir); root != "" {
		sc, err := run.ReadScenario(root)
		if err != nil {
			e.Notes = append(e.Notes, err.Error())
		}
		e.Local = sc.Local
	}
	if e.Submission = read[run.Submission](&e, run.SubmitFile); e.Submission == nil {
		e.Submission = e.carried()
	}
	e.State = read[run.State](&e, run.StateFile)
	e.Claim = read[run.Claim](&e, run.ClaimFile)
	e.Placement = read[run.Placement](&e, run.PlacementFile)
	e.Sentinel = read[run.Sentinel](&e, run.SentinelFile)
	if e.Events, err = job.ReadEvents(dir); err != nil {
		return e, err
	}
	e.Logs = logs(dir, ".")
	if e.Plan != nil {
		for _, l := range e.Plan.Loads {
			if rel, err := filepath.Rel(e.Plan.Dir, l.Dir); err == nil && rel != "." {
				e.Logs = append(e.Logs, logs(dir, rel)...)
			}
		}
	}
	return e, nil
}

// carried is the submission of the batch that carries the run, nil without one.
func (e *Evidence) carried() *run.Submission {
	var book run.Book
	var unread *fs.PathError
	sub, err := book.ReadSubmission(e.Dir)
	if errors.As(err, &unread) && !errors.Is(err, fs.ErrNotExist) {
		e.Notes = append(e.Notes, err.Error())
	}
	if err != nil {
		return nil
	}
	return &sub
}

func read[T any](e *Evidence, name string) *T {
	v := new(T)
	ok, err := run.ReadRecord(filepath.Join(e.Dir, name), v)
	if err != nil {
		e.Notes = append(e.Notes, err.Error())
	}
	if !ok {
		return nil
	}
	return v
}

// logs lists the logs at and below a directory of the run that hold something,
// the ones of the job last.
func logs(dir, at string) []string {
	var names []string
	for _, sub := range []string{filepath.Join(at, run.LogDir), at} {
		files, _ := os.ReadDir(filepath.Join(dir, sub))
		var here []string
		for _, f := range files {
			name := f.Name()
			plain := strings.TrimSuffix(name, ".xz")
			if info, err := f.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 0 &&
				(strings.HasSuffix(plain, ".log") || name == "stderr.txt") {
				here = append(here, filepath.Join(sub, name))
			}
		}
		sort.Strings(here)
		names = append(names, here...)
	}
	return names
}
