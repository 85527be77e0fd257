package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
)

// Whatever is served, the plan has the roles of the measurement, and one step that measures nothing.
//
// covers: SRV-15
func TestServePlans(t *testing.T) {
	const disaggregated = "[Tests.cmd_args.prefill]\nnum_nodes = 1\n[Tests.cmd_args.decode]\nnum_nodes = 1\n"
	for name, c := range map[string]struct{ head, keys string }{
		"one":           {"test_template_name = \"vllm\"\n", ""},
		"Ray":           {"test_template_name = \"vllm\"\nnum_nodes = 2\n", "[Tests.cmd_args.decode]\ntensor_parallel_size = 8\n"},
		"disaggregated": {"test_template_name = \"vllm\"\nnum_nodes = 2\n", disaggregated},
		"SGLang":        {"test_template_name = \"sglang\"\nnum_nodes = 2\n", disaggregated},
	} {
		t.Run(name, func(t *testing.T) {
			test := "[[Tests]]\nid = \"t\"\n" + c.head + "%[Tests.cmd_args]\nmodel = \"m\"\n" + c.keys
			const client = "iterations = 2\nrepeat = 2\nbench_cmd_args = { max_concurrency = 4, num_prompts = 400 }\nlauncher = \"bare\"\n"
			measured, err := inline(t, "", strings.Replace(test, "%", client, 1), options)
			require.NoError(t, err)
			o := options
			o.Serve = &planner.Serve{For: time.Hour}
			served, err := inline(t, "", strings.Replace(test, "%", client, 1), o)
			require.NoError(t, err)
			require.Len(t, served, 1)
			p := served[0]
			require.NoError(t, p.Sound())
			require.Len(t, p.Roles, len(measured[0].Roles))
			for i, r := range p.Roles {
				require.Equal(t, measured[0].Roles[i].Nodes, r.Nodes)
				require.Equal(t, measured[0].Roles[i].Health, r.Health)
			}
			require.Equal(t, measured[0].Ports, p.Ports)
			require.Equal(t, &plan.Serve{For: plan.Seconds(time.Hour)}, p.Serve)
			require.Len(t, p.Loads, 1)
			require.Empty(t, p.Loads[0].Client, "nothing is measured")
			require.Empty(t, p.Loads[0].Benchmark)
			require.Len(t, p.Loads[0].Clients, 1)
			hold := p.Loads[0].Clients[0]
			require.Equal(t, plan.HoldStep, hold.Name)
			require.False(t, hold.Container)
			require.Equal(t, p.Dir, hold.Argv[4].String())
			require.Regexp(t, `^http://\$\{addr:\w+\}:\$\{port:\w+\}/v1$`, hold.Argv[6].String())
			require.Equal(t, "1h0m0s", hold.Argv[8].String())
		})
	}
}

// The nodes of a client that is not there stay free: the servers lie as in the measurement.
func TestServeClientNodes(t *testing.T) {
	o := options
	o.Serve = &planner.Serve{}
	plans, err := inline(t, "launcher = \"bare\"\n", "[[Tests]]\nid = \"t\"\ntest_template_name = \"vllm\"\n"+
		"num_nodes = 3\nclient = \"profllm\"\nclient_nodes = 2\n", o)
	require.NoError(t, err)
	require.Equal(t, 3, plans[0].Job.Nodes)
	require.Equal(t, plan.Slice{Offset: 0, Count: 1}, plans[0].Roles[0].Nodes)
	require.Equal(t, plan.Slice{Offset: 1, Count: 1}, plans[0].Loads[0].Clients[0].Nodes)
}

// Lists of a client are no sweep of a server, and a test of several is chosen by its id.
func TestServeChooses(t *testing.T) {
	const tests = `[[Tests]]
id = "a"
test_template_name = "vllm"
launcher = "bare"
agent = "random"
agent_steps = 3
[Tests.cmd_args]
[Tests.bench_cmd_args]
max_concurrency = [1, 2, 3]
[[Tests]]
id = "b"
test_template_name = "vllm"
launcher = "bare"
dependencies = [{ type = "start_post_comp", id = "a" }]
[Tests.cmd_args.decode]
max_num_seqs = [1, 2]
`
	o := options
	o.Serve = &planner.Serve{Test: "a"}
	plans, err := inline(t, "", tests, o)
	require.NoError(t, err)
	require.Len(t, plans, 1)
	require.Equal(t, "a", plans[0].Test)
	require.Zero(t, plans[0].Step)
	require.Nil(t, plans[0].Loads[0].Values)
	o.Serve = &planner.Serve{Test: "b"}
	_, err = inline(t, "", tests, o)
	require.ErrorContains(t, err, `test "b" is a sweep of its server`)
	require.ErrorContains(t, err, "write one value for decode.max_num_seqs")
	o.Serve = &planner.Serve{}
	_, err = inline(t, "", tests, o)
	require.ErrorContains(t, err, "--test a, or --test b")
}
