package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/hostlist"
)

// NewBatch makes one submission of several runs. The runs of an array ask for
// the same resources. A sequence asks for the largest of each, and for the sum of
// the time limits; runs that wait for each other keep their order. What cannot be
// joined, such as the queue or different named nodes, is an error.
func NewBatch(kind, dir, runID string, plans []*Plan) (*Batch, error) {
	if len(plans) == 0 {
		return nil, errors.New("a batch needs a run")
	}
	first := plans[0]
	b := &Batch{
		Schema: BatchSchema, RunID: runID, Version: first.Version, Created: first.Created, Scenario: first.Scenario,
		Dir: dir, Kind: kind, Binary: first.Binary, Job: first.Job,
	}
	b.Job.Name, b.Job.Comment = jobName(first.Name)+"."+runID, "profllm:"+runID
	b.Job.Until = nil
	for _, p := range plans {
		b.Runs = append(b.Runs, p.Dir)
		b.Limits = append(b.Limits, p.Job.TimeLimit)
		b.Job.Export = union(slices.Clone(b.Job.Export), p.Job.Export)
	}
	if kind == Sequence {
		return b, b.join(plans)
	}
	return b, nil
}

// join widens the job of a sequence until every run fits.
func (b *Batch) join(plans []*Plan) error {
	j := &b.Job
	j.TimeLimit, j.After, j.NodeList, j.Exclude, j.Grace = 0, nil, nil, nil, 0
	inside := map[string]bool{}
	limited := 0
	for _, p := range plans {
		inside[p.Dir] = true
		if p.Job.TimeLimit > 0 {
			limited++
		}
		j.TimeLimit += p.Job.TimeLimit
		j.Nodes = max(j.Nodes, p.Job.Nodes)
		j.GPUsPerNode = max(j.GPUsPerNode, p.Job.GPUsPerNode)
		j.NTasksPerNode = max(j.NTasksPerNode, p.Job.NTasksPerNode)
		j.Exclusive = j.Exclusive || p.Job.Exclusive
		j.NodeList = union(j.NodeList, p.Job.NodeList)
		j.Exclude = union(j.Exclude, p.Job.Exclude)
		if err := b.sameQueue(p); err != nil {
			return err
		}
	}
	for _, p := range plans {
		if err := b.sameNodes(p); err != nil {
			return err
		}
		for _, a := range p.Job.After {
			if !inside[a.Dir] && !slices.Contains(j.After, a) {
				j.After = append(j.After, a)
			}
		}
	}
	switch {
	case limited != 0 && limited != len(plans):
		return fmt.Errorf("%d of %d runs have a time limit, but in one allocation all runs need one, or none may have one", limited, len(plans))
	case len(j.NodeList) > 0 && j.Nodes > len(j.NodeList):
		return fmt.Errorf("a run needs %d nodes, but another run of the same allocation names %s\n\thint: name the nodes of every test, or of none", j.Nodes, strings.Join(j.NodeList, ","))
	}
	j.Grace = Seconds(grace(time.Duration(j.TimeLimit)))
	return nil
}

// union adds what list does not hold yet, in order.
func union(list, more []string) []string {
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

// sameNodes refuses a run that names nodes which it would not get: each run of a
// sequence uses the first nodes of the allocation, whichever these are.
func (b *Batch) sameNodes(p *Plan) error {
	if n := len(p.Job.NodeList); n > 0 && n < len(b.Job.NodeList) {
		return fmt.Errorf("test %q names the nodes %s, but the runs of the same allocation together name %s\n\thint: name the same nodes for all tests, or for none; a run uses the first nodes of its allocation",
			p.Test, strings.Join(p.Job.NodeList, ","), strings.Join(b.Job.NodeList, ","))
	}
	for _, list := range b.Job.Exclude {
		hosts, err := hostlist.Expand(list)
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if slices.Contains(p.Job.NodeList, host) {
				return fmt.Errorf("test %q names the node %s, but another run of the same allocation excludes it",
					p.Test, host)
			}
		}
	}
	return nil
}

// sameQueue refuses what one allocation cannot be asked for twice.
func (b *Batch) sameQueue(p *Plan) error {
	for _, x := range []struct{ what, a, b string }{
		{"partition", b.Job.Partition, p.Job.Partition}, {"account", b.Job.Account, p.Job.Account},
		{"QOS", b.Job.QOS, p.Job.QOS},
		{"reservation", b.Job.Reservation, p.Job.Reservation}, {"constraint", b.Job.Constraint, p.Job.Constraint},
		{"sbatch_args", strings.Join(b.Job.SbatchArgs, " "), strings.Join(p.Job.SbatchArgs, " ")},
	} {
		if x.a != x.b {
			return fmt.Errorf("test %q asks for %s %q, but another run of the same allocation asks for %q", p.Test,
				x.what, x.b, x.a)
		}
	}
	return nil
}

// DecodeBatch reads batch.json.
func DecodeBatch(data []byte) (*Batch, error) {
	var b Batch
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("decode batch: %w", err)
	}
	if b.Schema != BatchSchema {
		return nil, fmt.Errorf("decode batch: the schema is %q, but this program reads %q", b.Schema, BatchSchema)
	}
	return &b, nil
}
