package vllm

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// The sizes of an engine are computed once, and the plan has them: of experts too, for which there
// is no option. Sizes that fit no node are refused, with those that do.
//
// covers: PAR-1, PAR-3, PAR-7
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		nodes          int
		args           string
		tp, pp, dp, ep int
		rank, err      string
	}{
		{2, "tensor_parallel_size=8\ndata_parallel_size=2\ndata_parallel_backend='mp'\nenable_expert_parallel=true", 8, 1, 2, 16, "--data-parallel-size-local 1", ""},
		{2, "tensor_parallel_size=2\ndata_parallel_size=8\ndata_parallel_hybrid_lb=true\nenable_expert_parallel=true", 2, 1, 4, 16, "--data-parallel-size-local 4", ""},
		{2, "tensor_parallel_size=8\npipeline_parallel_size=2\ndistributed_executor_backend='mp'", 8, 2, 1, 0, "--nnodes 2", ""},
		{2, "tensor_parallel_size=16\ndistributed_executor_backend='mp'", 16, 1, 1, 0, "--nnodes 2", ""},
		{1, "", 1, 1, 1, 0, "", ""},
		{2, "tensor_parallel_size=3\ndistributed_executor_backend='mp'", 0, 0, 0, 0, "", "decode needs 3 GPUs (TP 3 x PP 1 x DP 1), which cannot be divided among 2 nodes\n\thint: choose sizes whose product is a multiple of 2; 16 use every GPU; tensor_parallel_size can be 2, 4, 8, 16"},
		{2, "tensor_parallel_size=3\npipeline_parallel_size=3\ndistributed_executor_backend='mp'", 0, 0, 0, 0, "", "16 use every GPU"},
		{3, "tensor_parallel_size=6\ndata_parallel_size=4\ndata_parallel_backend='mp'", 0, 0, 0, 0, "", "decode.data_parallel_size 4 cannot be spread evenly over 3 nodes\n\thint: set a multiple of 3"},
		{2, "tensor_parallel_size=6\ndata_parallel_size=4\ndata_parallel_backend='mp'", 0, 0, 0, 0, "", "2 ranks of 6 GPUs each (TP 6 x PP 1) on every node, but a node has 8 GPUs"},
	} {
		s, err := serve(t, "[decode]\n"+c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: 8})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.args)
		r := s.Roles[0]
		require.Equal(t, []int{c.tp, c.pp, c.dp, c.ep}, []int{r.TP, r.PP, r.DP, r.EP}, c.args)
		require.Contains(t, argv(r), c.rank)
		require.NotRegexp(t, `expert-parallel(-size)? \d`, argv(r), "experts have no number")
		data, err := (&plan.Plan{Schema: plan.Schema, Roles: s.Roles}).Encode()
		require.NoError(t, err)
		back, err := plan.Decode(data)
		require.NoError(t, err)
		require.Equal(t, []int{c.tp, c.pp, c.dp, c.ep}, []int{back.Roles[0].TP, back.Roles[0].PP, back.Roles[0].DP, back.Roles[0].EP})
	}
}

// What the plan says of a server is what its command says: sizes, port, address, GPUs.
//
// covers: PAR-8
func TestPlannedValuesAreInTheCommand(t *testing.T) {
	const sized = "tensor_parallel_size=2\n"
	for _, c := range []struct {
		args  string
		nodes int
	}{
		{"[decode]\n", 1},
		{"[decode]\ntensor_parallel_size=4\npipeline_parallel_size=2", 1},
		{"[decode]\ndata_parallel_size=4\n" + sized, 1},
		{"[decode]\n\"tensor-parallel-size\"=8\npipeline_parallel_size=2", 2},
		{"[decode]\ndata_parallel_size=4\n" + sized, 2},
		{"[decode]\ndata_parallel_size=2\ntensor_parallel_size=16", 4},
		{"[decode]\ndata_parallel_size=4\ndata_parallel_backend='mp'\n" + sized, 2},
		{"[decode]\ntensor_parallel_size=8\npipeline_parallel_size=2\ndistributed_executor_backend='mp'", 2},
		{"[decode]\ndata_parallel_size=4\ndata_parallel_hybrid_lb=true\n" + sized, 2},
		{"[decode]\ndata_parallel_size=4\ndata_parallel_external_lb=true\n" + sized, 2},
		{"[prefill]\n" + sized + "[decode]\ndata_parallel_size=2\n" + sized, 1},
		{"[prefill]\nreplicas=2\n" + sized + "[decode]\nreplicas=2\n" + sized, 1},
		{"[prefill]\nnum_nodes=2\ntensor_parallel_size=16\n[decode]\nnum_nodes=2\ndata_parallel_size=2\ndata_parallel_backend='mp'\ntensor_parallel_size=8", 4},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: 8})
		require.NoError(t, err, c.args)
		p := plan.Plan{Roles: s.Roles}
		for _, r := range s.Roles {
			if !r.Engine {
				continue
			}
			said := options(t, r)
			ranks := max(r.DP, 1)
			if r.Group {
				ranks *= p.Replicas(r.KindName())
			}
			for option, planned := range map[string]int{"--tensor-parallel-size": r.TP, "--pipeline-parallel-size": r.PP, "--data-parallel-size": ranks} {
				require.Equal(t, strconv.Itoa(max(planned, 1)), said(option, "1"), "%s of %s: %s", option, r.Name, c.args)
			}
			require.Equal(t, "${port:"+r.Health.Port+"}", said("--port", ""))
			require.Equal(t, "0.0.0.0", said("--host", ""))
			require.Equal(t, plan.FormatGPUs(r.GPUs), env(r, "CUDA_VISIBLE_DEVICES"))
			require.LessOrEqual(t, r.World(), len(r.GPUs)*r.Nodes.Count)
			if r.Nodes.Count == 1 {
				require.Equal(t, "${addr:"+r.Name+"}", env(r, "VLLM_HOST_IP"))
			}
		}
	}
}

// options looks an option up in the command of a server, as vLLM's parser does.
func options(t *testing.T, r plan.Role) func(name, unset string) string {
	t.Helper()
	_, command, found := strings.Cut(argv(r), "vllm serve ")
	require.True(t, found)
	words := strings.Fields(command)
	release := arguments.Serve.Newest()
	ports := map[string]string{} // what the parser takes for a port, and the word
	for i, word := range words {
		if strings.HasPrefix(word, "${port:") {
			words[i] = strconv.Itoa(40000 + i)
			ports[words[i]] = word
		}
	}
	parsed, err := release.Parse(words)
	require.NoError(t, err)
	return func(name, unset string) string {
		value := unset
		for i, word := range parsed {
			if after, ok := strings.CutPrefix(word, name+"="); ok {
				value = after
			} else if word == name {
				value = parsed[i+1]
			}
		}
		if word, is := ports[value]; is {
			return word
		}
		return value
	}
}

// In every container the command of a node is found: its own start rank and number of ranks are
// computed inside.
//
// covers: SRV-17
func TestRanksAreComputedInsideTheStep(t *testing.T) {
	s, err := serve(t, "[decode]\ndata_parallel_size=4\ndata_parallel_backend='mp'", plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.NoError(t, err)
	r := roleOf(s, "serve")
	require.True(t, r.Step.Container)
	require.Zero(t, r.Step.Inner, "all of it is the command in the container")
	require.True(t, strings.HasPrefix(argv(r), "profllm job rank --others=--headless --option=--data-parallel-start-rank --each=2"))
	require.Contains(t, argv(r), "--data-parallel-size-local 2")
}
