package planner

import (
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
)

// order returns the index of the i-th test to plan.
func (b *builder) order(i int) int {
	if b.queue == nil {
		index, seen := map[string]int{}, map[string]bool{}
		for j, t := range b.scenario.Tests {
			index[t.ID] = j
		}
		var visit func(id string)
		visit = func(id string) {
			j, ok := index[id]
			if !ok || seen[id] {
				return
			}
			seen[id] = true
			for _, d := range b.scenario.Tests[j].Dependencies {
				if d.Type != scenario.EndPostComp {
					visit(d.ID)
				}
			}
			b.queue = append(b.queue, j)
		}
		for _, t := range b.scenario.Tests {
			visit(t.ID)
		}
	}
	return b.queue[i]
}

// dependencyType is Slurm's word for "when that job is over": a failed run ends what waits
// for it, unless the scenario says otherwise.
func (b *builder) dependencyType() string {
	if b.scenario.GoOn {
		return "afterany"
	}
	return "afterok"
}

// waits translates a test's dependencies that say when it starts.
func (b *builder) waits(t scenario.Test) []plan.After {
	var after []plan.After
	for _, d := range t.Dependencies {
		switch d.Type {
		case scenario.StartPostComp:
			for _, dir := range b.last[d.ID] {
				after = append(after, plan.After{Type: b.dependencyType(), Dir: dir})
			}
		case scenario.StartPostInit:
			for _, dir := range b.first[d.ID] {
				after = append(after, plan.After{Type: "after", Dir: dir})
			}
		}
	}
	return after
}

// setEndsWith says which runs end with others. That is no order, so it is known only
// when every test is planned: the runs of a sweep are those of its points.
func (b *builder) setEndsWith() {
	dirs := map[string][]string{}
	for _, t := range b.scenario.Tests {
		for _, d := range t.Dependencies {
			if d.Type == scenario.EndPostComp {
				dirs[t.ID] = append(dirs[t.ID], b.last[d.ID]...)
			}
		}
	}
	for _, p := range b.set.Plans {
		p.Job.Until = dirs[p.Test]
	}
}
