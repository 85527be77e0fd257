// Package run is the life of a run between its plan and its result: the run
// directory, crash-safe submission, and what is known of the job's state.
//
// Whatever happens is a file in the run directory, written whole or not at all,
// so a command that is killed at any instruction loses nothing and the next one
// goes on. The package starts no process itself; a Scheduler does.
package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/profllm/profllm/pkg/plan"
)

// Files of a run directory. The names of CloudAI are kept where it has one.
const (
	PlanFile      = "plan.json"
	ScriptFile    = "job.sh"
	IntentFile    = "intent.json"
	SubmitFile    = "submit.json"
	StateFile     = "state.json"
	ClaimFile     = "claim.json"
	PlacementFile = "placement.json"
	SentinelFile  = "finish.json"
	ResultFile    = "result.json"
	EventFile     = "events.jsonl"
	BatchFile     = "batch.json" // of a batch, in the place of plan.json
	RunsFile      = "runs.txt"   // beside it: its run directories, one a line
	LoadFile      = "load.json"  // in the directory of a load that lies outside of its run's
	RawDir        = "raw"
	LogDir        = "logs"
	AttemptDir    = "attempts"    // what earlier attempts left
	DefinitionDir = "definitions" // of a scenario: the files it was planned from
	BatchDir      = "batches"     // of a scenario: 1, 2, ...
	PreTestDir    = "pre_test"    // hooks of the run, runs of their own
	PostTestDir   = "post_test"

	ScenarioFile = "scenario.json"

	// partial is in the name of a directory that Create has not finished.
	partial = ".partial-"
)

// Intent says that a submission may have happened. It is on disk before sbatch
// starts: intent.json for the first attempt, intent-2.json for the second. Each
// is made by exactly one command, which alone may submit that attempt.
type Intent struct {
	Schema     string    `json:"schema"` // profllm.intent/1
	RunID      string    `json:"run_id"`
	JobName    string    `json:"job_name"`
	Time       time.Time `json:"time"`
	Attempt    int       `json:"attempt"` // from 1
	Host       string    `json:"host"`    // of the command that submits
	PID        int       `json:"pid"`
	ProcessAge string    `json:"process_start"`
}

// Submission says what the scheduler answered.
type Submission struct {
	Schema  string    `json:"schema"` // profllm.submit/1
	RunID   string    `json:"run_id"`
	JobID   string    `json:"job_id,omitempty"`
	Time    time.Time `json:"time"`
	Adopted bool      `json:"adopted,omitempty"` // found by its name after a lost answer
	Refused string    `json:"refused,omitempty"` // the reason why no job exists
	Attempt int       `json:"attempt,omitempty"` // the last intent that this answers; 0: all
	Cleared []string  `json:"cleared,omitempty"` // inherited variables that sbatch would have obeyed
	Waits   []string  `json:"waits,omitempty"`   // what the job waits for, as afterok:60

	// Of a run that a batch carries; in no file.
	Batch string `json:"batch,omitempty"` // its directory
	Kind  string `json:"kind,omitempty"`  // plan.Array or plan.Sequence
}

// Claim names the one job that executes a run, and where its script runs.
type Claim struct {
	Schema   string    `json:"schema"` // profllm.claim/1
	JobID    string    `json:"job_id"`
	Node     string    `json:"node,omitempty"`
	Restarts int       `json:"restarts,omitempty"`
	Time     time.Time `json:"time"`
}

// Placement is what became of the plan inside the allocation.
type Placement struct {
	Schema string         `json:"schema"` // profllm.placement/1
	JobID  string         `json:"job_id"`
	Nodes  []Node         `json:"nodes"` // in allocation order
	Slot   int            `json:"slot"`
	Ports  map[string]int `json:"ports"`
}

// Node is one host of the allocation.
type Node struct {
	Host string `json:"host"`
	Addr string `json:"addr"`
}

// Sentinel is the last thing a job writes.
type Sentinel struct {
	Schema string    `json:"schema"` // profllm.finish/1
	JobID  string    `json:"job_id"`
	Time   time.Time `json:"time"`
	Code   int       `json:"code"` // of the job
	Phases []Phase   `json:"phases"`
	Roles  []Phase   `json:"roles,omitempty"` // exit codes of the roles' steps, most of them after we stopped them
}

// Phase is one thing the script did. Code is its exit code, or -1 when it was
// ended because a role had died.
type Phase struct {
	Name string `json:"name"`
	Code int    `json:"code"`
}

// Scenario is scenario.json: what was submitted together.
type Scenario struct {
	Schema     string    `json:"schema"` // profllm.scenario/1
	Name       string    `json:"name"`
	Digest     string    `json:"digest"` // of the definition files
	Created    time.Time `json:"created"`
	Runs       []string  `json:"runs"`            // directories below this one
	Units      []string  `json:"units,omitempty"` // what is submitted, in this order; absent: the runs
	Skipped    []Skipped `json:"skipped,omitempty"`
	Continues  string    `json:"continues,omitempty"` // the execution whose sweeps go on here
	Host       string    `json:"host"`                // of the command that submits
	PID        int       `json:"pid"`
	ProcessAge string    `json:"process_start"` // tells a PID from its reuse

	Definitions map[string][]byte `json:"-"` // copies of the files, by their names below DefinitionDir
}

// Skipped is a point of a sweep that cannot work: it was never run.
type Skipped struct {
	Test   string            `json:"test"`
	Step   int               `json:"step"`
	Values []plan.Assignment `json:"values"`
	Why    string            `json:"why"`
}

// WriteJSON replaces a file as a whole: temp, fsync, rename.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'), 0o644)
}

// WriteFile replaces a file as a whole. The temporary file lies beside it, not in
// TMPDIR, so that nothing is left elsewhere by a command that is killed.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return renameio.WriteFile(path, data, mode, renameio.WithTempDir(filepath.Dir(path)))
}

// CreateJSON writes a file that must not exist yet, so that of several commands
// exactly one succeeds; the others get fs.ErrExist. The file appears with its
// content, except on a file system without hard links.
func CreateJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := writeAll(temp, append(data, '\n')); err != nil {
		return err
	}
	err = os.Link(temp.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err = writeAll(f, append(data, '\n')); err != nil {
		os.Remove(path)
	}
	return err
}

// writeAll writes, syncs and closes a new file.
func writeAll(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// ReadJSON reads a file into v. A missing file is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// ReadPlan reads the plan of a run directory.
func ReadPlan(dir string) (*plan.Plan, error) {
	data, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, PlanFile), err)
	}
	return p, nil
}

// Find lists the run directories at or below the given paths, sorted: those
// that hold a plan, and CloudAI's, which hold test-run.toml or vllm-bench.json.
// What lies below a run, its attempts and hooks, is not a run of its own, and
// neither is the directory of one of its loads.
func Find(paths ...string) ([]string, error) {
	seen, loads := map[string]bool{}, map[string]bool{}
	var dirs []string
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path != root {
				return nil // a running job sets folders aside
			}
			if err != nil {
				return err
			}
			if d.IsDir() {
				if strings.Contains(d.Name(), partial) || path != root && partOfRun(path) {
					return fs.SkipDir
				}
				return nil
			}
			dir := filepath.Dir(path)
			switch d.Name() {
			case LoadFile: // comes before the others, since a folder is read in order
				loads[dir] = true
			case PlanFile, "test-run.toml", "vllm-bench.json":
				if filepath.Base(dir) != RawDir && !seen[dir] && !loads[dir] && (path != root || !exists(filepath.Join(dir, LoadFile))) {
					seen[dir] = true
					dirs = append(dirs, dir)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	sort.Strings(dirs)
	return dirs, nil
}

// partOfRun reports whether a folder belongs to the run above it.
func partOfRun(path string) bool {
	switch filepath.Base(path) {
	case AttemptDir, PreTestDir, PostTestDir:
		return exists(filepath.Join(filepath.Dir(path), PlanFile))
	}
	return false
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
