package dynamo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// What CloudAI checks between the points of a sweep only is checked for every run.
//
// covers: P-9
func TestConstraints(t *testing.T) {
	const order = "[dynamo.prefill_worker.args]\ntensor_parallel_size = 4\n[dynamo.decode_worker.args]\ntensor_parallel_size = 2\n"
	build := func(args, constraints string) (*Workload, error) {
		s := test(t, args)
		if constraints != "" {
			table, err := source.Parse("c.toml", []byte(constraints))
			require.NoError(t, err)
			s.Constraints = table
		}
		return read(s, false)
	}
	_, err := build(order, "")
	require.ErrorContains(t, err, "t.toml:2:1: prefill has a larger tensor parallel size (4) than decode (2)")
	require.ErrorContains(t, err, "constraints.prefill_tp_le_decode_tp = false")
	w, err := build(order, "prefill_tp_le_decode_tp = false")
	require.NoError(t, err)
	require.Contains(t, strings.Join(w.notes, "\n"), "prefill has a larger tensor parallel size (4) than decode (2)")
	_, err = build("[dynamo.prefill_worker]\nnum_nodes = 0\n"+order, "")
	require.NoError(t, err, "nobody prefills")

	wide := "[dynamo]\nbackend = \"sglang_dsr1\"\n" + sizes(2, 1)
	w, err = build(wide, "")
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 3, GPUsPerNode: 8})
	require.ErrorContains(t, err, "prefill has a larger tensor parallel size (16) than decode (8)",
		"sizes that the nodes say")
	w, err = build(wide, "prefill_tp_le_decode_tp = false")
	require.NoError(t, err)
	s, err := w.Serve(plan.Cluster{Nodes: 3, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.Notes, "\n"), "prefill has a larger tensor parallel size (16) than decode (8)")

	w, err = build(wide, "")
	require.NoError(t, err)
	_, err = w.Deploy(plan.Cluster{GPUsPerNode: 8})
	require.ErrorContains(t, err, "prefill has a larger tensor parallel size (16) than decode (8)", "on Kubernetes too")

	_, err = build(order, "prefill_tp = true")
	require.ErrorContains(t, err, "c.toml:1:1: unknown key")
	w, err = build("[dynamo.decode_worker.args]\ntensor_parallel_size = 16", "tp_times_pp_le_gpus_per_node = false")
	require.NoError(t, err)
	require.Contains(t, strings.Join(w.notes, "\n"), "a worker must fit its nodes")
	_, err = w.Serve(plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.ErrorContains(t, err, "decode needs 16 GPUs on each node")
	w, err = build("[dynamo.prefill_worker.args]\ntp = 4\n[dynamo.decode_worker.args]\ntp = 6", "")
	require.NoError(t, err)
	_, err = w.Serve(plan.Cluster{Nodes: 1, GPUsPerNode: 8})
	require.ErrorContains(t, err, "prefill needs 4 GPUs on each node", "both share the node")
}

// Other models of workers have no effect, and are named.
func TestModelsOfWorkers(t *testing.T) {
	s, err := serve(t, "[dynamo]\nmodel = \"org/m\"\n[dynamo.decode_worker.args]\nserved_model_name = \"mine\"\nmodel = \"org/m\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.Notes, "\n"),
		"served_model_name has no effect: every process serves dynamo.model, org/m")
	require.Equal(t, 1, strings.Count(strings.Join(s.Notes, "\n"), "every process serves"))
	require.NotContains(t, argv(roleOf(t, s, "decode")), "mine")
}
