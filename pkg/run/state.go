package run

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

// States of a job, in profllm's words.
const (
	Queued    = "queued"
	Running   = "running"
	Succeeded = "succeeded"
	Failed    = "failed"
	Cancelled = "cancelled"
	Timeout   = "timeout"
	NodeFail  = "node_fail"
	Preempted = "preempted"
	OOM       = "oom"
	Unknown   = "unknown"
)

// State is what is known of a job, from whom, and since when.
type State struct {
	Schema   string    `json:"schema"` // profllm.state/1
	JobID    string    `json:"job_id"`
	State    string    `json:"state"`               // one of the constants above
	Note     string    `json:"note,omitempty"`      // "held", "ending", …
	Reason   string    `json:"reason,omitempty"`    // why it waits, in Slurm's word
	Raw      string    `json:"raw,omitempty"`       // the scheduler's word
	ExitCode string    `json:"exit_code,omitempty"` // "code:signal"
	Start    string    `json:"start,omitempty"`
	End      string    `json:"end,omitempty"`
	Elapsed  float64   `json:"elapsed_s,omitempty"`
	NodeList string    `json:"nodelist,omitempty"`
	Source   string    `json:"source"`         // "squeue", "sacct", "scontrol", "kubectl", "sentinel", "local"
	At       time.Time `json:"at"`             // when the source said so
	Since    time.Time `json:"since,omitzero"` // when state and note were first seen together
	Up       string    `json:"up,omitempty"`   // Uptime at the time At, of a state that may not last
	// NoTurn says that the run never ran because its job ended during an earlier run.
	NoTurn bool   `json:"no_turn,omitempty"`
	Name   string `json:"-"` // of the job, as the scheduler has it
}

// JudgedInvalid reports whether nothing of the job failed, but a result is invalid.
func (s State) JudgedInvalid() bool {
	return s.State == Failed && s.ExitCode == strconv.Itoa(JudgedInvalid)+":0"
}

// Final reports whether the job can no longer change.
func (st State) Final() bool {
	switch st.State {
	case Queued, Running, Unknown, "":
		return false
	}
	return true
}

// A Scheduler runs scripts as jobs.
type Scheduler interface {
	// Submit submits a script. A *RefusedError means that no job exists; after any other
	// error, a job may exist.
	Submit(ctx context.Context, r Request) (Submission, error)
	// States returns the states of all jobs with few queries. A job that the scheduler
	// does not know is Unknown.
	States(ctx context.Context, ids []string) (map[string]State, error)
	// Cancel ends a job.
	Cancel(ctx context.Context, id string) error
}

// A Shower can ask about jobs that are in no list of the scheduler.
type Shower interface {
	// Show leaves out jobs that are not known.
	Show(ctx context.Context, ids []string) (map[string]State, error)
}

// A Finder can look up a job by its name, which contains the run ID. Without a Finder, a
// lost reply cannot be recovered.
type Finder interface {
	// besides are the ids of jobs to ignore. The id of an array is that of the whole
	// array.
	FindJob(ctx context.Context, name string, since time.Time, besides ...string) (id string, found bool, err error)
}

// Request is one job to submit.
type Request struct {
	Script  string   // path
	Name    string   // --job-name
	Comment string   // --comment
	Dir     string   // of the run or batch
	Waits   []string // --dependency: afterok:60:61, after:62_3; all must hold
	Export  Export   // what the job is given of the submitting shell
}

// RefusedError is a submission that certainly created no job.
type RefusedError struct {
	Reason string
	Failed bool // because a run that failed has to succeed first
	Parent bool // because of a run that it waits for, failed or not
}

func (e *RefusedError) Error() string { return "not submitted: " + e.Reason }

// Notes on which commands act.
const (
	NeverRan    = "never ran" // ended without having started
	Ending      = "ending"    // still holds its nodes
	Held        = "held"      // waits for somebody to release it
	NeverStarts = "never starts"
	Forgotten   = "forgotten"           // unknown, and the scheduler answered; without it nobody answered
	Lost        = "lost"                // failed, because nobody has known it for LostAfter
	Unfetched   = "results not fetched" // of a Job of Kubernetes that has ended
	Killed      = "killed"              // of a local job: the process that watched over it is gone, and said nothing
)

// RunState is what the scheduler's answer about a submission's job means for the run in
// dir. A controller that lost its last seconds gives the forgotten ids to other jobs. So
// if the job's name does not contain the run id, the id now belongs to another job, and
// the run's own job is gone.
func (s Submission) RunState(st State, dir string) State {
	if st.Name != "" && !strings.Contains(st.Name, s.RunID) {
		st = State{
			Schema: st.Schema, JobID: st.JobID, State: Unknown, Note: Forgotten, Source: st.Source, At: st.At,
			Reason: fmt.Sprintf("Slurm has forgotten the job; its id %s now belongs to job %q", st.JobID, st.Name),
		}
	}
	st.Name = ""
	return st.WithSentinel(dir, s.Kind)
}

// LocalPrefix begins the id of a job without a scheduler: a rehearsal's job on one
// machine.
const LocalPrefix = "local-"

// KubePrefix begins the id of a Job of Kubernetes: kube-NAMESPACE.NAME.UID, with the first digits
// of its uid.
const KubePrefix = "kube-"

// HeldVar has the id of a job that runs as steps of an allocation which somebody holds, in the
// environment of all of its processes. SLURM_JOB_ID is that of the allocation there.
const HeldVar = "PROFLLM_HELD_JOB"

// WithSentinel corrects a job's state by the run directory: a COMPLETED job without a sentinel
// has failed, and a job that Slurm has forgotten ended as the sentinel says. In a
// sequence, each run has a state of its own.
func (st State) WithSentinel(dir, kind string) State {
	var sentinel Sentinel
	have := ReadJSON(filepath.Join(dir, SentinelFile), &sentinel) == nil && sentinel.JobID == st.JobID
	if kind == plan.Sequence && st.State != Queued && st.State != "" {
		return st.inTurn(dir, have, sentinel.Code)
	}
	switch {
	case st.State == Succeeded && !have:
		st.State, st.Note = Failed, "the job left no sentinel"
	case st.State == Succeeded && sentinel.Code != 0:
		st.State, st.Note = Failed, fmt.Sprintf("the sentinel says exit code %d", sentinel.Code)
	case have && (st.State == Unknown || st.State == Failed && st.Note == Killed):
		st = st.bySentinel(sentinel.Code)
	case st.State == Cancelled && st.Note == NeverRan && claimedBy(dir, st.JobID):
		st.State, st.Note, st.Reason = Unknown, Forgotten, "the job started, but Slurm has no record of it"
	case st.State == Cancelled && st.Note == "" && !claimedBy(dir, st.JobID):
		st.Note = NeverRan
	}
	return st
}

// inTurn is the state of one run of a sequence, whose job's state st is.
func (st State) inTurn(dir string, have bool, code int) State {
	began := claimedBy(dir, st.JobID)
	switch {
	// cut short with its job
	case have && code == Terminated && st.Final() && st.State != Succeeded && st.State != Failed:
	case have && code == Terminated && st.State == Running:
		if st.Note == "" { // the job is about to end, or was queued again and begins this run anew
			st.Note = "cut short; its job continues"
		}
	case have:
		st = st.bySentinel(code)
		switch code { // as Slurm would say it of this part
		case 0:
			st.Raw = "COMPLETED"
		case TimedOut:
			st.State, st.Raw = Timeout, "TIMEOUT"
		default:
			st.Raw = "FAILED"
		}
	case began && (!st.Final() || st.State != Succeeded && st.State != Failed), !st.Final() && st.State == Unknown:
	case began:
		st.State, st.Note = Failed, "the run left no sentinel"
	default:
		why := Blocked(dir, st.JobID, nil)
		switch {
		case why != "":
		case !st.Final():
			st.State, st.Note = Queued, "waits for its turn"
			return st
		default:
			why = fmt.Sprintf("the job of the sequence ended (%s) before this run's turn", st.State)
			st.NoTurn = true
		}
		st.State, st.Note, st.Reason = Cancelled, NeverRan, why
	}
	return st
}

// MissedTurn reports whether the run never ran because its job ended during an earlier run. Files
// from before NoTurn say so by the end of their reason only.
func (st State) MissedTurn() bool {
	return st.NoTurn || st.Note == NeverRan && strings.HasSuffix(st.Reason, " before this run's turn")
}

// The exit codes of a script that was ended: by TERM, with its job; in a sequence,
// by XCPU, at the run's own time limit.
const (
	Terminated = 143
	TimedOut   = 124
)

// EndedFromOutside reports whether the exit code of a script says that the script was
// ended by TERM or at its own time limit.
func EndedFromOutside(code int) bool { return code == Terminated || code == TimedOut }

func (st State) bySentinel(code int) State {
	st.State, st.Note, st.Reason = Succeeded, "", ""
	st.Source, st.ExitCode = "sentinel", fmt.Sprintf("%d:0", code)
	if code != 0 {
		st.State = Failed
	}
	return st
}

// Vanished reports whether a job that Slurm has forgotten for a while left no trace in its
// run directory, as when a controller dies within seconds of a submission. The run may be
// submitted again: if the first job begins after all, the claim keeps the two jobs from
// executing the run twice.
func (st State) Vanished(dir string) bool {
	return st.State == Unknown && st.Note == Forgotten && st.At.Sub(st.Since) >= AskAfter && !claimedBy(dir, st.JobID)
}

func claimedBy(dir, job string) bool {
	var claim Claim
	return ReadJSON(filepath.Join(dir, ClaimFile), &claim) == nil && claim.JobID == job
}
