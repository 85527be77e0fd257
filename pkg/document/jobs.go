package document

import (
	"slices"

	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// Jobs is the answer of submit, resume and rehearse.
type Jobs struct {
	Head
	Root    string      `json:"root"`              // the scenario's directory
	Jobs    []JobEntry  `json:"jobs"`              // in the order of submission, with those submitted earlier
	Left    []LeftEntry `json:"left,omitempty"`    // resume: why runs are submitted again, or are not
	Results []Row       `json:"results,omitempty"` // with --wait, --watch and of rehearse: the records, as of collect
}

// JobEntry is a job that was submitted, or found.
type JobEntry struct {
	JobID   string   `json:"job_id"`
	Dir     string   `json:"dir"`               // of the run, or of the batch of runs
	Runs    []string `json:"runs"`              // directories of the runs that the job executes
	Adopted bool     `json:"adopted,omitempty"` // an interrupted command had submitted it
	Waits   []string `json:"waits,omitempty"`   // what it waits for, as afterok:60
}

// LeftEntry counts runs.
type LeftEntry struct {
	Runs int    `json:"runs"`
	Why  string `json:"why"`
}

// NewJobs begins the document of a command.
func NewJobs(verb string) *Jobs { return &Jobs{Head: NewHead(verb), Jobs: []JobEntry{}} }

// Submitted adds a job.
func (d *Jobs) Submitted(o run.Outcome) {
	s := o.Submission
	d.Jobs = append(d.Jobs, JobEntry{s.JobID, o.Dir, slices.Clone(o.Unit.Runs()), s.Adopted, s.Waits})
}

// Add adds a record.
func (d *Jobs) Add(r Row) error {
	d.Results = append(d.Results, r)
	return nil
}

// States is the answer of status and cancel.
type States struct {
	Head
	Runs []StateEntry `json:"runs"`
}

// StateEntry is a run and its job.
type StateEntry struct {
	Dir        string         `json:"dir"`
	Submission run.Submission `json:"submission"` // as in submit.json; without job_id if there is no job
	State      run.State      `json:"state"`      // as in state.json
}

// Confirm is the answer of confirm while its runs are not over.
type Confirm struct {
	Head
	Root string `json:"root"`
	Runs int    `json:"runs"`
	Over int    `json:"over"`
	Open string `json:"open"` // what they wait for
	Next string `json:"next"` // the command that answers
}

// Logs is the answer of logs.
type Logs struct {
	Head
	Dir   string          `json:"dir"`             // of the run
	Cause *result.Failure `json:"cause,omitempty"` // if the lines around the cause of a failure are shown
	Logs  []LogEntry      `json:"logs"`
}

// LogEntry is an excerpt of a log.
type LogEntry struct {
	Name  string    `json:"name"` // role or client and rank, as decode-0; job for the script
	File  string    `json:"file"`
	Lines []LogLine `json:"lines"`
}

// LogLine is a line of a log, without secrets.
type LogLine struct {
	Number int    `json:"number,omitempty"` // in the log, 1 for the first; only around a cause
	Text   string `json:"text"`
	Cause  bool   `json:"cause,omitempty"` // this line shows the cause
}
