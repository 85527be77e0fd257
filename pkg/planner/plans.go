package planner

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/sweep"
)

// Options is what a plan needs beside the definitions. The same Options and
// files give the same plans.
type Options struct {
	Version   string
	Created   time.Time // also names the scenario's directory
	Output    string    // parent of the scenario's directory, absolute
	Binary    string    // profllm on the nodes, absolute
	WorkDir   string    // what relative paths of the site file mean, absolute
	Simulated bool      // rehearse: a simulated engine, without containers
	Launcher  string    // overrides every launcher, "" for none
	// ImageLauncher is the launcher of a test that names an image, where nobody chooses one; "" is
	// pyxis, or on a machine without a scheduler bare.
	ImageLauncher string
	Single        bool   // everything in one allocation, one run after the other
	Serve         *Serve // only servers, without a client; nil: everything

	// Images are the staged files that were found, by path (see Site). A plan uses one
	// in place of its image.
	Images map[string]plan.Staged

	Inventory plan.Inventory // states of the nodes, for node groups; nil: nobody asked Slurm

	// History is the results so far of the tests' sweeps, by test id.
	History map[string][]sweep.Observed
}

// Set is the content of one submission of a scenario.
type Set struct {
	Plans   []*plan.Plan
	Batches []*plan.Batch // of plans that are not submitted by themselves
	Skipped []Skipped
}

// Skipped is a point of a sweep that cannot work.
type Skipped struct {
	Test   string
	Step   int
	Label  string // what the sweep chose
	Values []plan.Assignment
	Err    error
}

// Root is the directory of one scenario execution.
func Root(s *scenario.Scenario, o Options) string {
	return Execution(s.Name, o)
}

// Execution is the directory of what is executed under a name.
func Execution(name string, o Options) string {
	return path.Join(o.Output, name+"_"+o.Created.Format("2006-01-02_15-04-05"))
}

// Plans plans every test, iteration and point of a sweep, in order. The
// complaints of all tests are returned together. A point of a sweep that cannot
// work is left out, as long as another can.
func Plans(s *scenario.Scenario, sys *config.System, o Options) (*Set, error) {
	if o.Serve != nil {
		var err error
		if s, err = o.Serve.served(s); err != nil {
			return nil, err
		}
	}
	b := builder{scenario: s, system: sys, o: o, root: Root(s, o), first: map[string][]string{},
		last: map[string][]string{}, taken: map[string]bool{}}
	var c source.Complaints
	for i := range s.Tests {
		t := s.Tests[b.order(i)]
		plans, err := b.test(t)
		c.Add(err)
		b.set.Plans = append(b.set.Plans, plans...)
	}
	if c.Err() == nil {
		b.setEndsWith()
		c.Add(b.batches())
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, p := range b.set.Plans {
		p.Notes = slices.Concat(s.Warnings, b.warnings, p.Notes)
	}
	return &b.set, nil
}

// builder makes the plans of one scenario.
type builder struct {
	scenario *scenario.Scenario
	system   *config.System
	o        Options
	root     string
	set      Set
	taken    map[string]bool // hosts that earlier runs chose
	warnings []string
	queue    []int               // tests in an order in which none comes before one it waits for
	first    map[string][]string // test id → directories of the runs that start first
	last     map[string][]string // test id → directories of the runs after which the test is over
}

// test plans one test: its iterations, or the points of its sweep.
func (b *builder) test(t scenario.Test) ([]*plan.Plan, error) {
	before := maps.Clone(b.taken) // iterations follow each other, and may have the same nodes
	after := b.waits(t)
	points, dims, err := b.points(t)
	if err != nil {
		return nil, err
	}
	if points != nil {
		plans, err := b.sweep(t, points, dims, after)
		b.first[t.ID], b.last[t.ID] = dirs(plans), dirs(plans)
		return plans, err
	}
	if t, err = catalog.Prepared(t); err != nil {
		return nil, err
	}
	var plans []*plan.Plan
	for i := range t.Iterations {
		in := b.input(t, path.Join(b.root, t.ID, fmt.Sprint(i)))
		in.Iteration, in.After, in.Taken = i, after, before
		if i > 0 {
			in.After = []plan.After{{Type: b.dependencyType(), Dir: plans[i-1].Dir}}
		}
		p, err := b.run(t, in, phases(t))
		if err != nil {
			return plans, err
		}
		plans = append(plans, p)
	}
	b.first[t.ID], b.last[t.ID] = dirs(plans[:1]), dirs(plans[len(plans)-1:])
	return plans, nil
}

func dirs(plans []*plan.Plan) []string {
	list := make([]string, len(plans))
	for i, p := range plans {
		list[i] = p.Dir
	}
	return list
}
