package run

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

// Files of a run directory. Where CloudAI has a name for a file, profllm uses it.
const (
	PlanFile      = "plan.json"
	ScriptFile    = "job.sh"
	ManifestFile  = "manifest.yaml" // in place of the script, of a run on Kubernetes
	IntentFile    = "intent.json"
	SubmitFile    = "submit.json"
	StateFile     = "state.json"
	ClaimFile     = "claim.json"
	PlacementFile = "placement.json"
	PreflightFile = "preflight.json"
	ClusterFile   = "cluster.json" // where a run on Kubernetes lives, from before it is submitted
	KubeDir       = "kubernetes"   // the objects of such a run, as they were at its end
	NodesFile     = "nodes.txt"    // what the nodes said, before and after
	SentinelFile  = "finish.json"
	ResultFile    = "result.json"
	EventFile     = "events.jsonl"
	ServingFile   = "serving.json" // of a run that only serves: where, once its servers are ready
	StopFile      = "stop"         // asks such a run to end
	BatchFile     = "batch.json"   // of a batch, in the place of plan.json
	RunsFile      = "runs.txt"     // beside it: its run directories, one a line
	ImportFile    = "import.json"  // in the place of plan.json: what another program measured
	LoadFile      = "load.json"    // in the directory of a load that lies outside of its run's
	RawDir        = "raw"
	TelemetryDir  = "telemetry"
	LogDir        = "logs"
	LeftDir       = "left"          // what nodes found after an end by force
	AttemptDir    = "attempts"      // what earlier attempts left
	DefinitionDir = "definitions"   // of a scenario: the files it was planned from
	ScenarioCopy  = "scenario.toml" // in DefinitionDir; it finds the others from its own place
	SystemCopy    = "system.toml"
	BatchDir      = "batches"  // of a scenario: 1, 2, ...
	PreTestDir    = "pre_test" // hooks of the run, runs of their own
	PostTestDir   = "post_test"

	ScenarioFile = "scenario.json"

	// partial is in the name of a directory that Create has not finished.
	partial = ".partial-"
)

// JobStep is the name of the log of what runs the steps of a job: its script, or the container of
// its Job.
const JobStep = "job"

// Intent says that a submission may have happened. It is on disk before sbatch starts:
// intent.json for the first attempt, intent-2.json for the second. Exactly one command
// creates each intent, and only that command may submit the attempt.
type Intent struct {
	Schema       string    `json:"schema"` // profllm.intent/1
	RunID        string    `json:"run_id"`
	JobName      string    `json:"job_name"`
	Time         time.Time `json:"time"`
	Attempt      int       `json:"attempt"` // from 1
	Host         string    `json:"host"`    // of the command that submits
	PID          int       `json:"pid"`
	ProcessStart string    `json:"process_start"`
}

// Submission says what the scheduler answered.
type Submission struct {
	Schema string    `json:"schema"` // profllm.submit/1
	RunID  string    `json:"run_id"`
	JobID  string    `json:"job_id,omitempty"`
	Time   time.Time `json:"time"`
	// of Slurm, whose steps those of the job are; "" if the job is none of this machine in one
	Allocation string `json:"allocation,omitempty"`
	Adopted    bool   `json:"adopted,omitempty"` // found by its name after a lost answer
	Refused    string `json:"refused,omitempty"` // the reason why no job exists
	// ParentFailed says that the submission was refused because a parent run has failed.
	ParentFailed bool     `json:"parent_failed,omitempty"`
	Attempt      int      `json:"attempt,omitempty"` // the last intent that this answers; 0: all
	Cleared      []string `json:"cleared,omitempty"` // inherited variables that sbatch would have obeyed
	Waits        []string `json:"waits,omitempty"`   // what the job waits for, as afterok:60

	// Of a run that a batch carries; in no file.
	Batch string `json:"batch,omitempty"` // its directory
	Kind  string `json:"kind,omitempty"`  // plan.Array or plan.Sequence
}

// Claim names the one job that executes a run, and the node on which its script runs.
type Claim struct {
	Schema string `json:"schema"` // profllm.claim/1
	JobID  string `json:"job_id"`
	Node   string `json:"node,omitempty"`
	// of Slurm, whose steps the job's are, if it is not the job
	Allocation string `json:"allocation,omitempty"`
	// steps that the allocation had before the run: those of whoever holds it
	Others   []string  `json:"others,omitempty"`
	Restarts int       `json:"restarts,omitempty"`
	Time     time.Time `json:"time"`
}

// Placement is where the plan's roles run inside the allocation.
type Placement struct {
	Schema string         `json:"schema"` // profllm.placement/1
	JobID  string         `json:"job_id"`
	Nodes  []Node         `json:"nodes"` // in allocation order
	Slot   int            `json:"slot"`
	Ports  map[string]int `json:"ports"`
	// Roles are the nodes of the pods of each role on Kubernetes, where the slices of the plan say
	// nothing; nil elsewhere.
	Roles map[string][]string `json:"roles,omitempty"`
	// Simulator is the settings of the simulated programs in the job's environment; nil for a
	// real engine. Those that the test sets itself are in the plan.
	Simulator map[string]string `json:"simulator,omitempty"`
}

// Node is one host of the allocation.
type Node struct {
	Host string `json:"host"`
	Addr string `json:"addr"`
}

// Sentinel is the last file that a job writes.
type Sentinel struct {
	Schema string    `json:"schema"` // profllm.finish/1
	JobID  string    `json:"job_id"`
	Time   time.Time `json:"time"`
	Code   int       `json:"code"` // of the job
	// Script is the exit code of the script before its phases and results were judged; nil
	// in files of older versions.
	Script *int    `json:"script,omitempty"`
	Phases []Phase `json:"phases"`
	Roles  []Phase `json:"roles,omitempty"` // exit codes of the roles' steps, most of them after we stopped them
}

// The exit codes by which a job says that its script ended with 0, and what was
// judged afterwards did not.
const (
	PhaseFailed   = 5 // a phase ended with another code
	JudgedInvalid = 6 // a result is invalid
)

// ScriptCode is the script's own exit code. Older versions kept only the job's exit code,
// in which a failed phase and an invalid result mean that the script ended with 0.
func (s *Sentinel) ScriptCode() int {
	switch {
	case s.Script != nil:
		return *s.Script
	case s.Code == JudgedInvalid, s.Code == PhaseFailed && s.failed():
		return 0
	}
	return s.Code
}

func (s *Sentinel) failed() bool {
	return slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Code != 0 })
}

// Phase is one phase of the script. Code is its exit code, or -1 if the phase was ended
// because a role had died.
type Phase struct {
	Name string `json:"name"`
	Code int    `json:"code"`
}

// Scenario is scenario.json: what was submitted together.
type Scenario struct {
	Schema       string    `json:"schema"` // profllm.scenario/1
	Name         string    `json:"name"`
	Digest       string    `json:"digest"` // of the definition files
	Created      time.Time `json:"created"`
	Runs         []string  `json:"runs"`            // directories below this one
	Units        []string  `json:"units,omitempty"` // what is submitted, in this order; absent: the runs
	Skipped      []Skipped `json:"skipped,omitempty"`
	Simulated    bool      `json:"simulated,omitempty"` // with the simulated engine
	Local        bool      `json:"local,omitempty"`     // its jobs are this machine's
	Verb         string    `json:"verb,omitempty"`      // of the command that runs it there; "": rehearse
	Continues    string    `json:"continues,omitempty"` // the execution whose sweeps go on here
	Launcher     string    `json:"launcher,omitempty"`  // that replaced every other, "" for none
	Single       bool      `json:"single,omitempty"`    // everything in one allocation
	WorkDir      string    `json:"work_dir,omitempty"`  // what relative paths of the system file mean; "" in older ones
	Host         string    `json:"host"`                // of the command that submits
	PID          int       `json:"pid"`
	ProcessStart string    `json:"process_start"` // tells a PID from its reuse

	Confirm *Confirmation `json:"confirm,omitempty"` // nil for anything else

	Definitions map[string]Copy `json:"-"` // copies of the files, by their names below DefinitionDir
}

// Copy is that of a definition file.
type Copy struct {
	Data []byte
	Mode fs.FileMode
}

// Confirmation is what was decided about two tests before they ran in turns.
type Confirmation struct {
	Pairs   int      `json:"pairs"`
	Metrics []string `json:"metrics,omitempty"` // what is judged; none: the usual ones
}

// Skipped is a point of a sweep that cannot work: it was never run.
type Skipped struct {
	Test   string            `json:"test"`
	Step   int               `json:"step"`
	Values []plan.Assignment `json:"values"`
	Why    string            `json:"why"`
}

// Import is import.json: a run that another program measured. Its record is computed from
// the copy of that program's file below RawDir.
type Import struct {
	Schema string `json:"schema"` // profllm.import/1
	RunID  string `json:"run_id"`
	Suite  string `json:"suite"`  // the folders that it was found in, below the path that was named
	Format string `json:"format"` // of pkg/interchange
	Path   string `json:"path"`   // of the file, likewise
	File   string `json:"file"`   // its copy, below RawDir
	Digest string `json:"digest"` // sha256:…
	Index  int    `json:"index"`  // which of the file's results, from 0

	Measured *Measured `json:"measured,omitempty"` // nil: the file was there already
}

// Measured says how profllm had a server measured that it did not start.
type Measured struct {
	Client    string         `json:"client"`    // the program
	URL       string         `json:"url"`       // of the server
	Host      string         `json:"host"`      // where the client ran
	Cache     string         `json:"cache"`     // the server's prefix cache before the load: emptied, or kept
	Arguments map[string]any `json:"arguments"` // of the client, by their names in definition files
	Expect    plan.Expect    `json:"expect"`
	Model     string         `json:"model"`
	Started   time.Time      `json:"started"`
	Simulated bool           `json:"simulated,omitempty"` // the server
	Error     string         `json:"error,omitempty"`     // why the client left no result; "" if it did
	Failure   string         `json:"failure,omitempty"`   // what a client that failed said beside its result
}

// ReadPlan reads the plan of a run directory.
func ReadPlan(dir string) (*plan.Plan, error) {
	data, err := ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, PlanFile), err)
	}
	return p, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
