package job

import (
	"fmt"
	"slices"

	"github.com/profllm/profllm/pkg/run"
)

// Turn returns an error if a run of a sequence must not begin, because a run that it waits
// for has failed in this job.
func (j *Job) Turn(batch string) error {
	u, err := run.ReadUnit(batch)
	if err != nil {
		return nil // the run's own script says what cannot be read
	}
	before := u.Runs()
	before = before[:max(0, slices.Index(before, j.Dir))]
	if why := run.Blocked(j.Dir, j.id(), before); why != "" {
		return fmt.Errorf("%s never runs: %s", j.Dir, why)
	}
	return nil
}
