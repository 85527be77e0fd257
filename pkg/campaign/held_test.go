package campaign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// covers: SRV-18
func TestFitsHeldAllocation(t *testing.T) {
	h := &Held{Job: "7", Hosts: []string{"n1", "n2", "n3"}, GPUs: 4}
	for want, job := range map[string]plan.Job{
		"": {Nodes: 2, GPUsPerNode: 4, NodeList: []string{"n1", "n2"}},
		"test t needs 4 nodes, and job 7 has 3\n\thint: salloc --nodes=4, or profllm slurm submit SCENARIO":                                       {Nodes: 4},
		"test t names n[2-3], and the first nodes of job 7 are n[1-2]\n\thint: write num_nodes = 2 instead of nodes, or salloc --nodelist=n[2-3]": {Nodes: 2, NodeList: []string{"n2", "n3"}},
		"test t needs 8 GPUs on each node, and job 7 has 4\n\thint: salloc --gpus-per-node=8":                                                     {Nodes: 1, GPUsPerNode: 8},
		"test t goes on beside others until they end, and job 7 can run one at a time\n\thint: profllm slurm submit SCENARIO":                     {Nodes: 1, Until: []string{"/r"}},
	} {
		err := h.fits(&plan.Plan{Test: "t", Job: job})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}

// A run is a part of the allocation where this machine is none of its nodes, or not enough.
func TestHeldAllocationOfAShell(t *testing.T) {
	test := func(nodes string) *scenario.Scenario {
		table, err := source.Parse("s.toml", []byte("num_nodes = "+nodes))
		require.NoError(t, err)
		var one scenario.Test
		one.NumNodes = table.Get("num_nodes")
		return &scenario.Scenario{Tests: []scenario.Test{one}}
	}
	for _, c := range []struct {
		environ []string
		nodes   string
		held    bool
	}{
		{nil, "2", false},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]"}, "1", true},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1"}, "1", true},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n2"}, "1", false},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n2"}, "2", true},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n2", "SLURMD_NODENAME=n2"}, "2", false},
	} {
		h, err := (&Client{Environ: c.environ}).held(test(c.nodes), Options{Here: true})
		require.NoError(t, err)
		require.Equal(t, c.held, h != nil, "%v, %s nodes", c.environ, c.nodes)
	}
}
