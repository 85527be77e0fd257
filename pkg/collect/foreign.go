package collect

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// addForeign names what left files that lie here by themselves.
func addForeign(e *evidence, d *draft) {
	if !foreign(e) {
		return
	}
	d.facts.Planned.NoBenchmark = d.empty && d.record.Accuracy != nil // an evaluation's files, and no client's
	d.record.Provenance.Foreign = foreignProgram(d.record)
	if d.searched {
		d.record.Provenance.Foreign = searchProgram
		d.record.Provenance.Simulated = d.record.Simulated
	}
}

// foreign reports whether files of a client lie here by themselves, neither in a run
// of profllm nor in one of CloudAI.
func foreign(e *evidence) bool {
	if e.plan != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(e.dir, cloudAIRun))
	return errors.Is(err, fs.ErrNotExist)
}

// cloudAIRun is CloudAI's record of a run.
const cloudAIRun = "test-run.toml"

// foreignProgram names what left the files.
func foreignProgram(r *result.Result) string {
	if r.Accuracy != nil {
		return cmp.Or(r.Config.Benchmark.Kind, r.Accuracy.Program, r.Accuracy.Task)
	}
	return r.Config.Benchmark.Kind
}

// foreignID names a run of CloudAI by its place, SCENARIO_TIME/TEST/ITERATION:
// the iteration alone would be the same for most.
func foreignID(dir string) string {
	elems := strings.Split(filepath.ToSlash(dir), "/")
	return strings.Join(elems[max(0, len(elems)-3):], "/")
}
