package report

import (
	"fmt"
	"slices"
)

// addPhases makes a table of the phases of each run that differ in a setting, as of the
// points of a sweep.
func (r *Report) addPhases(objective Metric) {
	type id struct {
		job  string
		step int
		kind Kind
	}
	kinds := map[string]Kind{} // of a phase that has a record, for those that have none
	for _, e := range r.Runs {
		if e.run.Result != nil {
			kinds[e.run.job] = e.Kind
		}
	}
	var order []id
	groups := map[id][]*Entry{}
	for i := range r.Runs {
		e := &r.Runs[i]
		if e.Case.Phase == "" {
			continue
		}
		k := id{e.run.job, e.Case.Step, e.Kind}
		if e.run.Result == nil {
			k.kind = kinds[k.job]
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], e)
	}
	for _, k := range order {
		slices.SortStableFunc(groups[k], func(a, b *Entry) int { return a.run.place - b.run.place })
		if keys := phaseSettings(groups[k]); len(keys) > 0 {
			r.Phases = append(r.Phases, newPhases(groups[k], keys, objective))
		}
	}
}

// phaseSettings are the settings in which the phases of a run differ.
func phaseSettings(entries []*Entry) []string {
	var runs []*Run
	for _, e := range entries {
		if e.run.Settings != nil {
			runs = append(runs, e.run)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return differing(runs)
}

// newPhases is the table of one run.
func newPhases(entries []*Entry, keys []string, objective Metric) Sweep {
	first := entries[0]
	s := Sweep{Name: first.Case.Test, Objective: objective, phases: true}
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
	s.axes = [][]int{all}
	s.markBest(entries)
	return s
}
