package records

import (
	"encoding/json"
	"time"

	"github.com/profllm/profllm/pkg/result"
)

// measurement is the same for records of one measurement, whatever they are called: the
// client started at the same moment, and every count and latency is the same to the last
// digit. It is "" where nobody wrote down the moment to a fraction of a second.
func measurement(r *Run) string {
	if r.Result == nil {
		return ""
	}
	m := &r.Result.Results
	started := r.Result.Timestamp
	switch {
	case m.Client != nil && m.Client.Started != nil:
		started = *m.Client.Started
	case r.Result.Provenance.From() != "":
		return "" // the time of a file, or of its import
	}
	if started.Nanosecond() == 0 || m.Duration == nil || len(m.Latency) == 0 {
		return ""
	}
	same := result.Metrics{Counts: m.Counts, Latency: m.Latency}
	same.GPUs = nil // of the plan
	text, err := json.Marshal(&same)
	if err != nil {
		return ""
	}
	return started.UTC().Format(time.RFC3339Nano) + string(text)
}

// Setup is the same for records of one run: what was asked for, and which repeat it is. Run ids
// have 24 random bits, so that two runs of a large sweep may have the same.
func Setup(r *result.Result) string {
	index := 0
	if r.Repeats != nil {
		index = r.Repeats.Index
	}
	text, _ := json.Marshal([]any{r.Suite, r.Config.Settings, index}) // maps in the order of their keys
	return string(text)
}

// Copies knows the runs that were counted.
type Copies map[string]bool

// Has says why a run is not counted again, "" if it was not seen before.
func (c Copies) Has(r *Run) string {
	switch {
	case r.Result.RunID != "" && c[named(r)]:
		return "a copy: another run has the same run id"
	case measurement(r) != "" && c["of "+measurement(r)]:
		return "a copy: another run has the same client start time and exactly the same numbers"
	}
	return ""
}

// Add counts a run that has a record.
func (c Copies) Add(r *Run) { c[named(r)], c["of "+measurement(r)] = true, true }

// named is a run by its id. Two runs with the same are told apart by their settings.
func named(r *Run) string { return "id " + r.Result.RunID + " " + Setup(r.Result) }
