package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// OpenRun is a run that is not known to be over.
type OpenRun struct {
	Dir string // "" if Why is about the directory as a whole
	Why string
}

// OpenRuns lists the runs of a scenario's or a run's directory that are not known to be over, from
// what is on disk. A directory that is neither is open as a whole.
func OpenRuns(dir string) ([]OpenRun, error) {
	dirs, err := Find(dir)
	if err != nil {
		return nil, err
	}
	if !found(filepath.Join(dir, ScenarioFile)) && (len(dirs) == 0 || dirs[0] != dir) {
		return []OpenRun{{Why: "it is neither the directory of a scenario nor that of a run"}}, nil
	}
	var list []OpenRun
	var book Book
	for _, d := range dirs {
		if why := book.whyOpen(d); why != "" {
			list = append(list, OpenRun{d, why})
		}
	}
	return list, nil
}

// whyOpen says why a run is not known to be over, "" if it is. It is about the job that was
// submitted last.
func (b *Book) whyOpen(dir string) string {
	if found(filepath.Join(dir, ImportFile)) {
		return "" // another program's, and over before it was imported
	}
	if !HasPlan(dir) {
		return "it has no plan, and nothing says whether it is over"
	}
	sub, err := b.ReadSubmission(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the run was not submitted, or its state is unknown"
	case err != nil:
		return err.Error()
	case sub.Refused != "":
		return ""
	}
	var st State
	if ReadJSON(filepath.Join(dir, StateFile), &st) == nil && st.JobID == sub.JobID && st.Final() {
		return ""
	}
	var end Sentinel
	if ReadJSON(filepath.Join(dir, SentinelFile), &end) == nil && end.JobID == sub.JobID {
		return ""
	}
	return fmt.Sprintf("it is not known whether job %s is over", sub.JobID)
}

// SecretsBelow returns a directory of secrets that a run at or below dir still keeps, "" for none.
func SecretsBelow(dir string) (string, error) {
	dirs, err := Find(dir)
	for _, d := range dirs {
		if KeepsSecrets(d) {
			return filepath.Join(d, SecretDir), err
		}
	}
	return "", err
}
