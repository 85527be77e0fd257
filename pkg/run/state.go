package run

import (
	"context"
	"time"
)

// Phases of a job's life, as profllm says them.
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
	Source   string    `json:"source"` // "squeue", "sacct", "sentinel", "local"
	At       time.Time `json:"at"`     // when the source said so
}

// Final reports whether the job can no longer change.
func (s State) Final() bool {
	switch s.State {
	case Queued, Running, Unknown, "":
		return false
	}
	return true
}

// A Scheduler runs scripts as jobs.
type Scheduler interface {
	// Submit hands over a script. A *RefusedError means that no job exists; any
	// other error leaves it open whether one does.
	Submit(ctx context.Context, r Request) (Submission, error)
	// States answers for all jobs with few queries. A job nobody knows is Unknown.
	States(ctx context.Context, ids []string) (map[string]State, error)
	// Cancel ends a job.
	Cancel(ctx context.Context, id string) error
}

// A Finder can look a job up by its name, which holds the run ID. Without it a
// lost answer cannot be recovered.
type Finder interface {
	FindJob(ctx context.Context, name string, since time.Time) (id string, found bool, err error)
}

// Request is one job to submit.
type Request struct {
	Script  string // path
	Name    string // --job-name
	Comment string // --comment
	Dir     string // the run directory
}

// RefusedError is a submission that certainly made no job.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "not submitted: " + e.Reason }
