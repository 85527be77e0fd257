package runlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/collect"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/story"
	"github.com/profllm/profllm/pkg/tail"
)

// FirstCause is the failure of a run whose log can be shown, nil for a run that did not fail or is
// not over. A run that has no record is collected, and nothing is written.
func FirstCause(col *collect.Collector, dir string) *result.Failure {
	var r result.Result
	if run.ReadJSON(filepath.Join(dir, run.ResultFile), &r) == nil && hasLine(r.Failure) {
		return r.Failure
	}
	if !isOver(dir) {
		return nil
	}
	stories, err := story.OfRun(col, dir, dir) // of several loads, or not collected yet
	if err != nil {
		return nil
	}
	for _, s := range stories {
		if hasLine(s.Failure) {
			return s.Failure
		}
	}
	return nil
}

// hasLine reports whether a failure has a line that can be shown.
func hasLine(f *result.Failure) bool { return f != nil && f.File != "" && f.LineNumber > 0 }

// isOver reports whether a run is known to be over, without asking the scheduler.
func isOver(dir string) bool {
	var st run.State
	_ = run.ReadJSON(filepath.Join(dir, run.StateFile), &st) // none: nobody has asked
	if st.Final() {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, run.SentinelFile))
	return err == nil
}

// Around reads n lines around the line of a cause, two thirds of them before it. file is the log
// below dir as it lies there now: it may have been packed or unpacked since.
func Around(dir string, f *result.Failure, n int) (file string, lines []tail.Numbered, err error) {
	after := n / 3
	before := max(0, n-after-1)
	file = f.File
	lines, err = tail.Around(filepath.Join(dir, file), f.LineNumber, before, after)
	if errors.Is(err, fs.ErrNotExist) {
		if file = f.File + ".xz"; strings.HasSuffix(f.File, ".xz") {
			file = strings.TrimSuffix(f.File, ".xz")
		}
		lines, err = tail.Around(filepath.Join(dir, file), f.LineNumber, before, after)
	}
	return file, lines, err
}
