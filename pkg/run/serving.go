package run

import (
	"path/filepath"
	"time"
)

// Serving says where the servers of a run are that only serves, see ServingFile.
type Serving struct {
	Schema string         `json:"schema"` // profllm.serving/1
	URL    string         `json:"url"`    // what clients are given: http://HOST:PORT/v1
	Model  string         `json:"model"`  // the name that clients ask for
	Dir    string         `json:"dir"`    // the run directory
	JobID  string         `json:"job_id"`
	Ready  time.Time      `json:"ready"`
	Until  *time.Time     `json:"until,omitempty"` // when they stop by themselves
	Ports  map[string]int `json:"ports"`           // all of the job, by name
	Roles  []ServingRole  `json:"roles"`

	// In the file that a user asks for with --ready-file: the command that keeps the servers up.
	PID          int    `json:"pid,omitempty"`
	ProcessStart string `json:"process_start,omitempty"`
}

// ServingRole is a server, or a proxy before servers.
type ServingRole struct {
	Name string `json:"name"`
	Host string `json:"host"`           // its first node
	URL  string `json:"url"`            // of the role itself
	GPUs []int  `json:"gpus,omitempty"` // on each of its nodes
}

// ServingSchema is the version written into serving.json.
const ServingSchema = "profllm.serving/1"

// ReadServing returns where the servers of a run are; nil while the given job has not said so.
func ReadServing(dir, jobID string) (*Serving, error) {
	var s Serving
	if ok, err := ReadRecord(filepath.Join(dir, ServingFile), &s); err != nil || !ok || s.JobID != jobID {
		return nil, err
	}
	return &s, nil
}

// RequestStop asks a run that only serves to end.
func RequestStop(dir string, now time.Time) error {
	return WriteFile(filepath.Join(dir, StopFile), []byte(now.UTC().Format(time.RFC3339)+"\n"), 0o644)
}
