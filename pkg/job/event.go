package job

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/run"
)

// Event is a line of events.jsonl: what happened inside the allocation, in order. Commands
// read the job's progress from these events, never from log text.
type Event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Role  string    `json:"role,omitempty"`
	Load  string    `json:"load,omitempty"`
	Phase string    `json:"phase,omitempty"`
	Node  string    `json:"node,omitempty"`
	Check string    `json:"check,omitempty"` // of the preflight
	Text  string    `json:"text,omitempty"`
	File  string    `json:"file,omitempty"` // below the run directory
	Line  int       `json:"line,omitempty"` // of File, 1 for the first

	Repeats *RepeatsOver `json:"repeats,omitempty"`
}

// RepeatsOver says why a series of repeats ended before its last.
type RepeatsOver struct {
	Group string  `json:"group"`
	Done  int     `json:"done"`            // repeats that ran
	Why   string  `json:"why"`             // result.Precise, result.OutOfTime, result.Hopeless
	Saved float64 `json:"saved_s"`         // that the others would have taken, by those that ran
	Nodes int     `json:"nodes,omitempty"` // of the job
}

// The events.
const (
	RoleReady     = "role-ready"
	AllReady      = "all-ready"
	LoadBegins    = "load-begins"
	RoleDied      = "role-died"
	ClientBegins  = "client-begins" // Text is its phase
	ClientEnded   = "client-ended"
	NotReady      = "not-ready"      // a role's time was over
	CheckFailed   = "check-failed"   // a phase ended with 0 and its log does not say so
	Stopping      = "stopping"       // from here on, ends of roles are ours
	CacheKept     = "cache-kept"     // a prefix cache could not be reset; Text says why
	HoldOver      = "hold-over"      // a run that only serves ends; Text says why
	UntilOver     = "until-over"     // the runs that this one accompanies are over
	RepeatsEnd    = "repeats-end"    // the load and those after it in its series do not run; Text says why
	TraceStarted  = "trace-started"  // of every engine that did not fail, for a load
	TraceStopping = "trace-stopping" // the engines write their traces
	TraceWritten  = "trace-written"  // File is a finished trace
	TraceStopped  = "trace-stopped"  // every engine has answered, or its time was over
	TraceFailed   = "trace-failed"   // an engine did not start or stop its profiler; Text says why
	SecretMasked  = "secret-masked"  // a process had written a secret to File; it is overwritten

	APIPassed = "api-check-passed" // Check is a check of the API before the first load
	APIFailed = "api-check-failed" // Text is the request, the expected answer, and what came

	Looked          = "preflight"        // every node was looked at; Text is the verdict
	PreflightFailed = "preflight-failed" // a check ends the job before servers start
	PreflightWarned = "preflight-warned"
	Leftover        = "leftover" // a node was not clean once the steps had ended
)

// event appends one line to the events of the script's own run, in a single write,
// behind whatever a full disk has cut.
func (j *Job) event(e Event) error {
	if err := j.owns(); err != nil {
		return err
	}
	e.Time = j.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := run.Append(j.path(run.EventFile))
	if err != nil {
		return err
	}
	if cut(f) {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// cut reports whether a file ends within a line.
func cut(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], st.Size()-1)
	return err == nil && last[0] != '\n'
}

// ReadEvents reads the events of a run directory. A line cut short by a crash is
// left out.
func ReadEvents(dir string) ([]Event, error) {
	events, _, err := ReadAllEvents(dir)
	return events, err
}

// ReadAllEvents is ReadEvents that also says which lines it left out, 1 for the first.
func ReadAllEvents(dir string) (events []Event, bad []int, err error) {
	data, err := run.ReadFile(filepath.Join(dir, run.EventFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var e Event
		switch err := json.Unmarshal(line, &e); {
		case err == nil && e.Event != "":
			events = append(events, e)
		case len(bytes.TrimSpace(line)) > 0:
			bad = append(bad, n)
		}
	}
	return events, bad, nil
}
