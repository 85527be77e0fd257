package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/records"
)

// addPhases makes a table of the phases of each run that differ in a setting, as of the
// points of a sweep.
func (r *Report) addPhases(objective metric.Metric, limits []Limit) {
	scope := func(e *Entry) string { return e.Run.Job }
	within := func(e *Entry) string { return strconv.Itoa(e.Case.Step) }
	for _, phases := range r.inGroups(func(e *Entry) bool { return e.Case.Phase != "" }, scope, within) {
		slices.SortStableFunc(phases, func(a, b *Entry) int { return a.Run.Place - b.Run.Place })
		if keys := phaseSettings(phases); len(keys) > 0 {
			r.Phases = append(r.Phases, newPhases(phases, keys, objective, limits))
		}
	}
}

// phaseSettings are the settings in which the phases of a run differ.
func phaseSettings(entries []*Entry) []string {
	var runs []*records.Run
	for _, e := range entries {
		if e.Run.Settings != nil {
			runs = append(runs, e.Run)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return records.Differing(runs)
}

// newPhases is the table of one run.
func newPhases(entries []*Entry, keys []string, objective metric.Metric, limits []Limit) Sweep {
	first := entries[0]
	s := Sweep{Name: first.Case.Test, Objective: objective, OfPhases: true}
	if first.Case.Point != "" {
		s.Name += " " + first.Case.Point
	} else if first.Case.Step > 0 {
		s.Name += fmt.Sprintf(" step=%d", first.Case.Step)
	}
	all := make([]int, len(keys)) // the phases are one after the other, not every combination
	for i := range all {
		all[i] = i
	}
	s.fill(entries, keys)
	s.Axes = [][]int{all}
	s.markBest(entries)
	s.Rooms = rooms(entries, &s, limits)
	return s
}
