package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/validity"
)

// unsteady says which loads are so short that their results will be called
// no-steady-state, at the place of the first; "" for none. made are the loads as
// they are planned.
func unsteady(t scenario.Test, loads []load, made []plan.LoadInput) string {
	const most = 3 // a sweep may have hundreds
	var pos source.Pos
	var said []string
	for i, l := range made {
		e := l.Expect
		least := validity.Limits(t.Accept).SteadyFrom(e.Concurrency)
		if e.Concurrency == 0 || e.RequestRate > 0 || e.NumPrompts == 0 || e.NumPrompts >= least {
			continue
		}
		count, _ := loadKeys(t, loads[i].bench)
		text := fmt.Sprintf("%d requests, %d at a time (%s = %d or more is accepted)", e.NumPrompts,
			e.Concurrency, count, least)
		if slices.Contains(said, text) {
			continue
		}
		if said = append(said, text); len(said) == 1 {
			pos = t.Pos
			if loads[i].bench != nil {
				pos = loads[i].bench.PosOf(count)
			}
		}
	}
	if len(said) == 0 {
		return ""
	}
	if n := len(said) - most; n > 0 {
		said = append(said[:most], fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s: the results will be no-steady-state: %s", pos, strings.Join(said, ", "))
}
