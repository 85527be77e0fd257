package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rewards reads the rewards by step from a trajectory.csv, of CloudAI or ours:
// the columns step and reward count, the others are not looked at. A row that
// cannot be read is left out.
func rewards(r io.Reader) (map[int]float64, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord = -1
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	step, reward := slices.Index(header, "step"), slices.Index(header, "reward")
	if step < 0 || reward < 0 {
		return nil, fmt.Errorf("header %q has no columns step and reward", header)
	}
	out := map[int]float64{}
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		var bad *csv.ParseError
		if err != nil && !errors.As(err, &bad) {
			return out, err
		}
		if len(row) <= max(step, reward) {
			continue
		}
		n, errStep := strconv.Atoi(strings.TrimSpace(row[step]))
		v, errReward := strconv.ParseFloat(strings.TrimSpace(row[reward]), 64)
		if errStep == nil && errReward == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[n] = v
		}
	}
}

// reward returns the reward of a step from the trajectory beside the steps.
func (l *loader) reward(dir string, step int) *float64 {
	known, ok := l.rewards[dir]
	if !ok {
		if f, err := os.Open(filepath.Join(dir, trajectoryFile)); err == nil {
			known, _ = rewards(f) // a file of another kind has no rewards
			f.Close()
		}
		l.rewards[dir] = known
	}
	if v, ok := known[step]; ok {
		return &v
	}
	return nil
}
