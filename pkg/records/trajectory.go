package records

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sweep"
)

// trajectoryFiles stand beside the steps of a sweep; the first that is there counts.
var trajectoryFiles = []string{"trajectory.csv", "trajectory.jsonl"}

// rewards returns the rewards by step from the trajectory in a directory; none if there is no
// trajectory. What a point that failed has there was not measured.
func rewards(dir string) (map[int]float64, error) {
	for _, name := range trajectoryFiles {
		file := filepath.Join(dir, name)
		f, err := regular.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		t, err := sweep.Read(file, f)
		if err != nil {
			return nil, fmt.Errorf("no rewards: %w", err)
		}
		out := map[int]float64{}
		for _, row := range t.Rows {
			if row.Verdict == sweep.Passed && !math.IsNaN(row.Reward) && !math.IsInf(row.Reward, 0) {
				out[row.Step] = row.Reward
			}
		}
		return out, nil
	}
	return nil, nil
}

// reward adds the reward of a step.
func (l *loader) reward(r *Run) {
	known, ok := l.rewards[r.Series]
	if !ok {
		var err error
		if known, err = rewards(r.Series); err != nil {
			r.Remark = err.Error()
		}
		l.rewards[r.Series] = known
	}
	if v, ok := known[r.Case.Step]; ok {
		r.Reward = &v
	}
}
