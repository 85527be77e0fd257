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

// Read gathers what a run directory holds, but its results. A file that a crash
// left unreadable is as good as absent: the story is told with what there is.
func Read(dir string) (Evidence, error) {
	e := Evidence{Dir: dir}
	var err error
	if e.Plan, err = run.ReadPlan(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	e.Submission = read[run.Submission](dir, run.SubmitFile)
	e.State = read[run.State](dir, run.StateFile)
	e.Claim = read[run.Claim](dir, run.ClaimFile)
	e.Placement = read[run.Placement](dir, run.PlacementFile)
	e.Sentinel = read[run.Sentinel](dir, run.SentinelFile)
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

func read[T any](dir, name string) *T {
	v := new(T)
	if run.ReadJSON(filepath.Join(dir, name), v) != nil {
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
