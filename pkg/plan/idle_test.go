package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a job holds and nothing uses is told, with what to change.
func TestIdleNotes(t *testing.T) {
	engine := func(name string, at Slice, gpus []int, tp int) Role {
		return Role{Name: name, Nodes: at, GPUs: gpus, TP: tp, PP: 1, DP: 1, Engine: true}
	}
	all := []int{0, 1, 2, 3}
	p := &Plan{Job: Job{Nodes: 2, GPUsPerNode: 4}, Roles: []Role{engine("serve", Slice{0, 2}, all, 8)}}
	require.Equal(t, 8, p.Allocated())
	require.Equal(t, 8, p.Used())
	require.Empty(t, p.IdleNotes())

	p.Roles = []Role{engine("serve", Slice{0, 2}, all, 4)}
	require.Equal(t, 4, p.Used())
	require.Equal(t, []string{"4 of 8 GPUs of serve idle: TP 4 x PP 1 x DP 1 uses 4; raise TP, PP or DP, or give the role fewer nodes"}, p.IdleNotes())

	p.Roles = []Role{engine("serve", Slice{0, 1}, all, 4)}
	require.Equal(t, []string{"1 of 2 nodes idle (node 1): no server and no client runs there; lower num_nodes, or give a role more nodes"}, p.IdleNotes())
	p.Loads = []Load{{Clients: []Step{{Name: "bench", Nodes: Slice{1, 1}}}}}
	require.Equal(t, []string{"4 of 8 GPUs idle: no role has them; give them to a role with gpu_ids, or ask for fewer nodes"}, p.IdleNotes(), "the client has a node of its own")

	p.Loads = nil
	p.Roles = []Role{engine("prefill", Slice{0, 1}, all, 4), engine("decode", Slice{1, 1}, []int{0, 1}, 1)}
	require.Equal(t, []string{
		"1 of 2 GPUs of decode idle: TP 1 x PP 1 x DP 1 uses 1; raise TP, PP or DP, or leave them out of rates per GPU with gpu_ids",
		"2 of 8 GPUs idle: no role has them; give them to a role with gpu_ids, or ask for fewer nodes",
	}, p.IdleNotes())

	p.Job.GPUsPerNode = 0
	require.Zero(t, p.Allocated())
	require.Len(t, p.IdleNotes(), 1, "which GPUs the job gets is not known")
	require.Empty(t, (&Plan{Job: Job{Nodes: 4, GPUsPerNode: 8}}).IdleNotes(), "a command uses what it finds")
}

// A key is as short as it can be without being taken for another.
func TestShortKeys(t *testing.T) {
	require.Equal(t, []string{"num_nodes", "tensor_parallel_size", "max_concurrency"},
		ShortKeys([]string{NodesSetting, "cmd_args.decode.tensor_parallel_size", "bench_cmd_args.max_concurrency"}))
	require.Equal(t, []string{"prefill.num_nodes", "decode.num_nodes", "model"},
		ShortKeys([]string{"cmd_args.prefill.num_nodes", "cmd_args.decode.num_nodes", "cmd_args.model"}))
	require.Equal(t, []string{"cmd_args.seed", "bench_cmd_args.seed"},
		ShortKeys([]string{"cmd_args.seed", "bench_cmd_args.seed"}))
	require.Equal(t, []string{"cmd_args.seed", "decode.seed"},
		ShortKeys([]string{"cmd_args.seed", "cmd_args.decode.seed"}))
	require.Empty(t, ShortKeys(nil))
}
