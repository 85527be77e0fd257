package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// Memory is a store of a few runs that nothing keeps.
type Memory struct {
	query.Engine
	runs map[string]*records.Run

	mu      sync.Mutex
	presets []Preset
}

// NewMemory holds the runs that have records.
func NewMemory(runs []records.Run) *Memory {
	m := &Memory{runs: map[string]*records.Run{}}
	var naive query.Naive
	for i := range runs {
		if r := &runs[i]; r.Result != nil && m.runs[r.Result.RunID] == nil {
			m.runs[r.Result.RunID] = r
			naive = append(naive, query.Run{ID: r.Result.RunID, Cells: field.Of(r)})
		}
	}
	m.Engine = naive
	return m
}

// Run gives back one run.
func (m *Memory) Run(_ context.Context, id string) (*Stored, error) {
	r := m.runs[id]
	if r == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	data, err := result.Encode(r.Result)
	return &Stored{*r, json.RawMessage(data)}, err
}

// Runs gives back several.
func (m *Memory) Runs(_ context.Context, ids []string) ([]records.Run, error) {
	var list []records.Run
	for _, id := range ids {
		r := m.runs[id]
		if r == nil {
			return nil, fmt.Errorf("%w: %s", ErrNoRun, id)
		}
		list = append(list, *r)
	}
	return list, nil
}

// Presets lists the saved filters by name.
func (m *Memory) Presets(context.Context) ([]Preset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.presets), nil
}

// SetPreset saves a filter.
func (m *Memory) SetPreset(_ context.Context, p Preset) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.presets = slices.DeleteFunc(m.presets, func(x Preset) bool { return x.Name == p.Name })
	m.presets = append(m.presets, p)
	slices.SortFunc(m.presets, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// DeletePreset forgets a filter.
func (m *Memory) DeletePreset(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.presets = slices.DeleteFunc(m.presets, func(x Preset) bool { return x.Name == name })
	return nil
}
