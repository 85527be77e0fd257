package planner

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// arrayLimit is how many tasks one job array gets: Slurm's default MaxArraySize
// is 1001, which is the highest index plus one (slurm.conf(5)).
const arrayLimit = 1000

// batches puts the runs of a sweep into job arrays, or all runs into one
// allocation.
func (b *builder) batches() error {
	if b.system.Kube() != nil {
		return b.noBatches()
	}
	if b.o.Single {
		b.serial()
		return b.batch(plan.Sequence, 0, b.set.Plans)
	}
	byTest := map[string][]*plan.Plan{}
	var order []string
	for _, p := range b.set.Plans {
		if p.Step > 0 {
			if byTest[p.Test] == nil {
				order = append(order, p.Test)
			}
			byTest[p.Test] = append(byTest[p.Test], p)
		}
	}
	var c source.Complaints
	for _, id := range order {
		plans := byTest[id]
		for _, t := range b.scenario.Tests {
			if t.ID != id || len(plans) == 1 {
				continue
			}
			switch t.Sweep.Mode {
			case "jobs":
			case "single":
				c.Add(b.batch(plan.Sequence, 0, plans))
			default:
				c.Add(b.arrays(plans, t.Sweep.MaxParallel))
			}
		}
	}
	return c.Err()
}

// noBatches refuses what puts several runs into one allocation: on Kubernetes each has a service of its own.
func (b *builder) noBatches() error {
	var c source.Complaints
	if b.o.Single {
		c.Add(source.Errorf(b.system.Pos, "--single: Kubernetes has no allocation for several runs").Hintf("leave it out"))
	}
	for _, t := range b.scenario.Tests {
		if t.Sweep.Mode == "single" {
			c.Add(source.Errorf(t.Table.Table("sweep").PosOf("mode"), "test %q: Kubernetes has no allocation for several runs", t.ID).
				Hintf("write mode = \"jobs\""))
		}
	}
	return c.Err()
}

// arrays makes a job array of the runs that ask for the same resources.
func (b *builder) arrays(plans []*plan.Plan, parallel int) error {
	groups := map[string][]*plan.Plan{}
	var order []string
	for _, p := range plans {
		job := p.Job
		job.Name, job.Comment, job.Until = "", "", nil
		data, err := json.Marshal(job)
		if err != nil {
			return err
		}
		key := string(data)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], p)
	}
	if parallel > 0 && len(order) > 1 {
		b.warnings = append(b.warnings,
			fmt.Sprintf("test %q: max_parallel = %d applies within each job array, but the points need %d different allocations, whose arrays run at the same time", plans[0].Test, parallel, len(order)))
	}
	var c source.Complaints
	for _, key := range order {
		for list := groups[key]; len(list) > 0; {
			n := min(len(list), arrayLimit)
			if n > 1 {
				c.Add(b.batch(plan.Array, parallel, list[:n]))
			}
			list = list[n:]
		}
	}
	return c.Err()
}

func (b *builder) batch(kind string, parallel int, plans []*plan.Plan) error {
	dir := path.Join(b.root, "batches", fmt.Sprint(len(b.set.Batches)+1))
	batch, err := plan.NewBatch(kind, dir, runID(b.o.Created, dir), plans)
	if err != nil {
		return err
	}
	batch.MaxParallel = parallel
	b.set.Batches = append(b.set.Batches, batch)
	return nil
}

// serial warns of an order between tests that one allocation does not keep: no
// two run at once, and each has its turn whatever became of those before.
func (b *builder) serial() {
	for _, t := range b.scenario.Tests {
		for _, d := range t.Dependencies {
			switch {
			case d.Type == scenario.EndPostComp:
				b.warnings = append(b.warnings,
					fmt.Sprintf("test %q should end with test %q, but in one allocation the two do not run at the same time", t.ID, d.ID))
			case d.Type == scenario.StartPostComp && !b.scenario.GoOn:
				b.warnings = append(b.warnings,
					fmt.Sprintf("test %q waits for test %q; in one allocation, it runs even if that test fails", t.ID,
						d.ID))
			}
		}
	}
}
