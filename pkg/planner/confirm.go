package planner

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Sides are the folders of the two tests of a confirmation: the baseline, and the test
// that is compared with it.
var Sides = [2]string{"first", "second"}

// Side is one of the two tests of a confirmation.
type Side struct {
	Scenario *scenario.Scenario // its hooks are the test's
	System   *config.System
	Test     scenario.Test
	Images   map[string]plan.Staged // as in Options
}

// Confirmation is two tests and how often each runs.
type Confirmation struct {
	Name  string // of the scenario's directory
	Sides [2]Side
	Pairs int  // an even number, so that a steady drift cancels
	Jobs  bool // each run is a job of its own, instead of one allocation
}

// Confirm plans pairs of runs of two tests in the order ABBA. A pair is the runs of one
// iteration, and each run starts its own servers. The runs share one allocation if they
// ask for the same nodes; otherwise, each run is a job that waits for the one before.
// Unless the scenario continues after failures, nothing runs once a run of the first pair
// has failed. Repeats and dependencies of the tests are left out, with a note.
func Confirm(c Confirmation, o Options) (*Set, error) {
	root := Execution(c.Name, o)
	var complaints source.Complaints
	var sides [2][]*plan.Plan
	var notes []string
	for i, s := range c.Sides {
		o := o
		o.Images = s.Images
		plans, side, err := s.plan(c.Name, path.Join(root, Sides[i]), c.Pairs, o)
		complaints.Add(err)
		sides[i], notes = plans, append(notes, side...)
	}
	if complaints.Err() != nil {
		return nil, complaints.Err()
	}
	b := builder{o: o, root: root}
	for i := range c.Pairs {
		a, z := sides[0][i], sides[1][i]
		if i%2 == 1 {
			a, z = z, a
		}
		b.set.Plans = append(b.set.Plans, a, z)
	}
	goOn := c.Sides[0].Scenario.GoOn || c.Sides[1].Scenario.GoOn
	why := ""
	if c.Jobs {
		why = "--jobs asks for a job per run"
	} else {
		why = unlikeJobs(sides[0][0], sides[1][0])
	}
	if why == "" {
		chain(b.set.Plans, goOn, false)
		if err := b.batch(plan.Sequence, 0, b.set.Plans); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		b.set.Batches = nil
		chain(b.set.Plans, goOn, true)
		first, _, _ := strings.Cut(why, "\n")
		notes = append(notes, fmt.Sprintf("not in one allocation, because %s: each run is a job of its own, one after the other, on the nodes that Slurm assigns", first))
	}
	for _, p := range b.set.Plans {
		p.Notes = slices.Concat(notes, p.Notes)
	}
	return &b.set, nil
}

// plan makes the runs of one side.
func (s Side) plan(name, root string, runs int, o Options) (plans []*plan.Plan, notes []string, err error) {
	t := s.Test
	if sw, err := Sweep(t); err != nil || sw.Active() {
		if err == nil {
			err = source.Errorf(t.Pos, "test %q is a sweep, but confirm compares single points", t.ID).
				Hintf("write one value in place of each list")
		}
		return nil, nil, err
	}
	for _, left := range []struct {
		key string
		is  bool
	}{{"iterations", t.Iterations > 1}, {"repeat", t.Repeat.Times > 1}, {"dependencies", len(t.Dependencies) > 0}} {
		if left.is {
			notes = append(notes,
				fmt.Sprintf("%s: %s of test %q has no effect on a confirmation", t.Pos, left.key, t.ID))
		}
	}
	t.Iterations, t.Repeat, t.Dependencies = runs, scenario.Repeat{}, nil
	own := *s.Scenario
	own.Name, own.Tests = name, []scenario.Test{t}
	b := builder{scenario: &own, system: s.System, o: o, root: root, first: map[string][]string{},
		last: map[string][]string{}, taken: map[string]bool{}}
	plans, err = b.test(t)
	return plans, slices.Concat(notes, own.Warnings), err
}

// unlikeJobs says why runs of two plans do not belong into one allocation, "" if they
// do.
func unlikeJobs(a, b *plan.Plan) string {
	for _, x := range []struct {
		what string
		a, b any
	}{
		{"nodes", a.Job.Nodes, b.Job.Nodes},
		{"named nodes", strings.Join(a.Job.NodeList, ","), strings.Join(b.Job.NodeList, ",")},
		{"GPUs of each node", a.Job.GPUsPerNode, b.Job.GPUsPerNode},
	} {
		if x.a != x.b {
			return fmt.Sprintf("the first test needs %v %s, the second %v", x.a, x.what, x.b)
		}
	}
	return ""
}

// chain orders runs. Each waits for the good end of the first two, and, in jobs of
// their own, for the end of the one before.
func chain(plans []*plan.Plan, goOn, jobs bool) {
	for i, p := range plans {
		p.Job.After = nil
		for _, first := range plans[:min(i, 2)] {
			if !goOn {
				p.Job.After = append(p.Job.After, plan.After{Type: "afterok", Dir: first.Dir})
			}
		}
		if i > 0 && jobs && (goOn || i > 2) {
			p.Job.After = append(p.Job.After, plan.After{Type: "afterany", Dir: plans[i-1].Dir})
		}
	}
}
