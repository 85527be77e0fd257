package campaign

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hostlist"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
)

// Held is an allocation of Slurm that the shell of this command holds, such as that of salloc.
type Held struct {
	Job   string
	Hosts []string // in Slurm's order, in which steps count nodes
	GPUs  int      // on a node, 0 if Slurm says nothing
}

// held is the allocation in which the runs of a scenario are steps; nil where they run on this
// machine itself: there is none, or this machine is one of its nodes and no test needs more.
func (c *Client) held(s *scenario.Scenario, f Options) (*Held, error) {
	job := c.env("SLURM_JOB_ID")
	hosts, err := hostlist.Expand(c.env("SLURM_JOB_NODELIST"))
	if !f.Here || f.Serve != nil || job == "" || err != nil || len(hosts) == 0 {
		return nil, nil
	}
	own, err := c.isNode(hosts)
	if err != nil || own && (len(hosts) == 1 || !spans(s)) {
		return nil, err
	}
	h := &Held{Job: job, Hosts: hosts}
	h.GPUs, _ = strconv.Atoi(c.env("SLURM_GPUS_ON_NODE"))
	return h, nil
}

// spans reports whether a test needs several nodes, as far as it says so.
func spans(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.All(), func(t scenario.Test) bool {
		n, err := t.Nodes()
		return err != nil || n > 1 || len(t.NodeLists) > 0
	})
}

// isNode reports whether this machine is one of some nodes.
func (c *Client) isNode(nodes []string) (bool, error) {
	host, err := os.Hostname()
	if err != nil {
		return false, err
	}
	short, _, _ := strings.Cut(host, ".")
	return slices.Contains(nodes, cmp.Or(c.env("SLURMD_NODENAME"), short)) || slices.Contains(nodes, host), nil
}

// fits refuses a run that the allocation has no room for. Its steps take the first nodes, and leave
// the others idle.
func (h *Held) fits(p *plan.Plan) error {
	job := &p.Job
	switch n := len(h.Hosts); {
	case len(job.Until) > 0:
		return as(Definition, fmt.Errorf("test %s goes on beside others until they end, and job %s can run one at a time\n\thint: profllm slurm submit SCENARIO",
			p.Test, h.Job))
	case job.Nodes > n:
		return as(Definition, fmt.Errorf("test %s needs %s, and job %s has %d\n\thint: salloc --nodes=%d, or profllm slurm submit SCENARIO",
			p.Test, quantity.Count(job.Nodes, "node"), h.Job, n, job.Nodes))
	case len(job.NodeList) > 0 && !slices.Equal(job.NodeList, h.Hosts[:job.Nodes]):
		return as(Definition, fmt.Errorf("test %s names %s, and the first nodes of job %s are %s\n\thint: write num_nodes = %d instead of nodes, or salloc --nodelist=%s",
			p.Test, hostlist.Format(job.NodeList), h.Job, hostlist.Format(h.Hosts[:job.Nodes]), job.Nodes,
			hostlist.Format(job.NodeList)))
	case h.GPUs > 0 && job.GPUsPerNode > h.GPUs:
		return as(Definition, fmt.Errorf("test %s needs %s on each node, and job %s has %d\n\thint: salloc --gpus-per-node=%d",
			p.Test, quantity.Count(job.GPUsPerNode, "GPU"), h.Job, h.GPUs, job.GPUsPerNode))
	}
	return nil
}

// programs refuses a machine without the programs of Slurm that the script calls.
func (h *Held) programs() error {
	for _, name := range []string{"srun", "squeue", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			return as(Usage, fmt.Errorf("this shell holds job %s, but has no %s: %w", h.Job, name, err))
		}
	}
	return nil
}
