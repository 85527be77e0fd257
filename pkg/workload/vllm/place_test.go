package vllm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/tier"
)

// places shows where each server is: name, nodes, GPUs.
func places(s plan.Service) string {
	var list []string
	for _, r := range s.Roles {
		if r.Engine {
			list = append(list, r.Name+" "+r.Nodes.String()+":"+plan.FormatGPUs(r.GPUs))
		}
	}
	return strings.Join(list, ", ")
}

func TestReplicasArePlaced(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        string
		nodes, gpus int
		want, err   string
	}{
		{"one node each", "prefill={replicas=2}\ndecode={replicas=3}", 5, 4,
			"prefill_0 0:0,1,2,3, prefill_1 1:0,1,2,3, decode_0 2:0,1,2,3, decode_1 3:0,1,2,3, decode_2 4:0,1,2,3", ""},
		{"one of a kind keeps its name", "prefill={}\ndecode={replicas=2}", 3, 1, "prefill 0:0, decode_0 1:0, decode_1 2:0", ""},
		{"several nodes each", "prefill={replicas=2,num_nodes=2}\ndecode={num_nodes=4}", 8, 2, "prefill_0 0-1:0,1, prefill_1 2-3:0,1, decode 4-7:0,1", ""},
		{"all on one node", "prefill={replicas=2}\ndecode={replicas=2}", 1, 4, "prefill_0 0:0, prefill_1 0:1, decode_0 0:2, decode_1 0:3", ""},
		{"one and three on a node", "prefill={}\ndecode={replicas=3}", 1, 8, "prefill 0:0,1, decode_0 0:2,3, decode_1 0:4,5, decode_2 0:6,7", ""},
		{"one node, by ids", "prefill={gpu_ids='0,1'}\ndecode={replicas=3,gpu_ids='2-7'}", 1, 8, "prefill 0:0,1, decode_0 0:2,3, decode_1 0:4,5, decode_2 0:6,7", ""},
		{"two on a node", "prefill={replicas=4,tensor_parallel_size=2}\ndecode={replicas=2,tensor_parallel_size=2}", 3, 4,
			"prefill_0 0:0,1, prefill_1 0:2,3, prefill_2 1:0,1, prefill_3 1:2,3, decode_0 2:0,1, decode_1 2:2,3", ""},
		{"two on a node, by ids", "prefill={replicas=2,gpu_ids='4-7',tensor_parallel_size=2}\ndecode={gpu_ids='0-3'}", 2, 8, "prefill_0 0:4,5, prefill_1 0:6,7, decode 1:0,1,2,3", ""},
		{"only one kind shares", "prefill={replicas=4,tensor_parallel_size=2}\ndecode={replicas=3,tensor_parallel_size=4}", 5, 4,
			"prefill_0 0:0,1, prefill_1 0:2,3, prefill_2 1:0,1, prefill_3 1:2,3, decode_0 2:0,1,2,3, decode_1 3:0,1,2,3, decode_2 4:0,1,2,3", ""},

		{"too few nodes", "prefill={replicas=2,tensor_parallel_size=4}\ndecode={replicas=3,tensor_parallel_size=4}", 4, 4, "",
			"t.toml:1:10: 2 x prefill on 1 node each and 3 x decode on 1 node each need 5 nodes, but the test has 4 nodes\n\thint: set num_nodes = 5"},
		{"too few, could share", "prefill={replicas=4,tensor_parallel_size=2}\ndecode={replicas=4,tensor_parallel_size=2}", 3, 4, "", "set num_nodes = 8, or 4 with several instances on a node"},
		{"two ways", "prefill={replicas=4,tensor_parallel_size=2}\ndecode={replicas=4,tensor_parallel_size=2}", 6, 4, "", "fit on 6 nodes in two ways: 2 + 4 or 4 + 2 nodes"},
		{"an uneven node", "prefill={replicas=2}\ndecode={replicas=3}", 1, 4, "", "the 4 GPUs of the node cannot be split evenly among 2 x prefill and 3 x decode"},
		{"uneven ids", "prefill={replicas=2,gpu_ids='0-2'}\ndecode={gpu_ids='3'}", 1, 4, "", "prefill.gpu_ids names 3 GPUs, which cannot be split evenly among 2 instances"},
		{"large instances on one node", "prefill={replicas=2,num_nodes=2}\ndecode={}", 1, 4, "", "an instance of prefill needs 2 nodes each and one of decode 1 node each, but the test has 1 node"},
		{"none", "prefill={replicas=0}", 2, 4, "", "prefill.replicas must be a number of instances, 1 to 64, not 0"},
		{"a list", "prefill={replicas=[1,2]}", 2, 4, "", "t.toml:1:10: a list makes a sweep"},
		{"aggregated", "decode={replicas=2}", 2, 4, "", "decode.replicas is 2, but there is no [cmd_args.prefill]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := serve(t, c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: c.gpus})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, places(s))
		})
	}
}

// On each node every port of a run is another one, in every slot, and outside of
// Ray's range. The servers are told their own.
//
// covers: CD-14, PL-G11
func TestReplicasHaveTheirPorts(t *testing.T) {
	tier.Alone(t)
	for _, c := range []struct {
		args        string
		nodes, gpus int
	}{
		{"prefill={replicas=2}\ndecode={replicas=3}", 5, 4},
		{"prefill={replicas=2,num_nodes=2}\ndecode={replicas=2,num_nodes=2}", 8, 8},
		{"prefill={replicas=2}\ndecode={replicas=2}", 1, 4},
		{"prefill={replicas=4}\ndecode={replicas=4}", 1, 8},
		{"prefill={replicas=16,tensor_parallel_size=2}\ndecode={replicas=8,tensor_parallel_size=2}", 6, 8},
		{"prefill={replicas=64}\ndecode={replicas=64}", 128, 8},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: c.gpus})
		require.NoError(t, err)
		p := plan.Plan{Roles: s.Roles, Ports: s.Ports}
		for slot := range plan.Slots {
			require.NoError(t, p.UsableSlot(slot), "%s, slot %d", c.args, slot)
		}
		for _, r := range s.Roles {
			if !r.Engine {
				continue
			}
			require.Contains(t, argv(r), fmt.Sprintf("--port ${port:%s}", r.Name))
			require.Contains(t, r.Step.Env,
				plan.Var{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", Value: plan.Word{plan.Addr(r.Name)}})
			require.Contains(t, r.Step.Env,
				plan.Var{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(r.Name + "_nixl")}})
			require.Equal(t, r.Nodes.Count > 1, strings.Contains(argv(r), "--port ${port:"+r.Name+"_ray}"))
		}
	}
}

func TestProxyKnowsEveryInstance(t *testing.T) {
	const args = "prefill={}\ndecode={replicas=2}\n"
	s, err := serve(t, args, plan.Cluster{Nodes: 3, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "profllm proxy --host 0.0.0.0 --port ${port:proxy} --prefill http://${addr:prefill}:${port:prefill} "+
		"--decode http://${addr:decode_0}:${port:decode_0} --decode http://${addr:decode_1}:${port:decode_1}", argv(roleOf(s, "proxy")))
	s, err = serve(t, args+"proxy_script='/x.py'", plan.Cluster{Nodes: 3, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "python3 /x.py --host 0.0.0.0 --port ${port:proxy} --prefiller-hosts ${addr:prefill} --prefiller-ports ${port:prefill} "+
		"--decoder-hosts ${addr:decode_0} ${addr:decode_1} --decoder-ports ${port:decode_0} ${port:decode_1}", argv(roleOf(s, "proxy")))
	d, p := roleOf(s, "decode_1"), roleOf(s, "prefill")
	require.Equal(t, "decode", d.KindName())
	require.Equal(t, 1, d.Replica)
	require.Equal(t, "prefill", p.KindName())
	require.Len(t, s.Config, 2, "by kind")
}

// An option that is set twice is refused, in either spelling and with both places; what profllm sets
// itself is refused too.
//
// covers: SRV-8
func TestExtraCmdArgs(t *testing.T) {
	extra := func(args, more string) (plan.Service, error) {
		table, err := source.Parse("t.toml", []byte(args))
		require.NoError(t, err)
		test := scenario.Test{}
		test.CmdArgs = table
		test.ExtraCmdArgs, err = source.Parse("e.toml", []byte(more))
		require.NoError(t, err)
		w, err := New(test, false)
		if err != nil {
			return plan.Service{}, err
		}
		return w.Serve(plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	}
	s, err := extra("[prefill]\n[decode]\nmax_model_len=4", "\"--enforce-eager\" = ''\ntensor_parallel_size = '4'\n")
	require.NoError(t, err)
	for _, name := range []string{"prefill", "decode"} {
		require.Contains(t, argv(roleOf(s, name)), "--enforce-eager --tensor-parallel-size 4")
		require.Equal(t, 4, roleOf(s, name).TP)
	}
	require.Len(t, s.Notes, 1)
	require.Contains(t, s.Notes[0], "extra_cmd_args are passed to every `vllm serve`; CloudAI ignores them")
	s, err = extra("unchecked_options = 'tensor_paralel_size'\n[prefill]\ntensor-paralel-size=4\ndata_parallel_rank=0\n[decode]\ntensor-parallel-size=4", "")
	require.NoError(t, err)
	require.Equal(t, []string{"t.toml:3:1: prefill.tensor-paralel-size goes to the engine as it is and does not size the role; did you mean tensor_parallel_size?"}, s.Notes)
	for more, want := range map[string]string{
		"max-model-len = '8'": "e.toml:1:1: extra_cmd_args.max-model-len: decode has that key too (t.toml:2:1)",
		"tp = '8'":            "e.toml:1:1: decode.tp is an option of another engine; `vllm serve` has no such option\n\thint: write tensor_parallel_size",
		"port = '8'":          "decode.port: profllm sets the port",
		"replicas = '2'":      "decode has that key too",
		"x = 1":               "extra_cmd_args.x must be a string, not the integer 1",
	} {
		_, err := extra("[decode]\nmax_model_len=4", more)
		require.ErrorContains(t, err, want, more)
	}
	s, err = extra("", "")
	require.NoError(t, err)
	require.Empty(t, s.Notes)
}

// The checks that CloudAI makes of the points of a sweep only.
//
// covers: CD-45
func TestConstraints(t *testing.T) {
	const base = "[decode]\nall2all_backend = 'flashinfer_all2allv'\n"
	for more, want := range map[string]string{
		"data_parallel_size = 2\nenable_expert_parallel = true":  "does not work with data_parallel_size 2 and enable_expert_parallel",
		"data-parallel-size = 2\nenable_expert_parallel = ''":    "does not work with data_parallel_size 2",
		"data_parallel_size = 1\nenable_expert_parallel = true":  "",
		"data_parallel_size = 2\nenable_expert_parallel = false": "",
		"data_parallel_size = 2":                                 "",
		"tensor_parallel_size = [1, 2]":                          "a list makes a sweep",
		"tensor_parallel_size = 0":                               "decode.tensor_parallel_size must be an integer, 1 or more, not 0",
		"tensor_parallel_size = 8.0":                             "decode.tensor_parallel_size must be an integer, 1 or more, not the float 8.0\n\thint: write tensor_parallel_size = 8, without a point",
		"num_nodes = 2.0":                                        "decode.num_nodes must be a number of nodes, 1 or more, not the float 2.0\n\thint: write num_nodes = 2, without a point",
		"tensor_parallel_size = 'all'":                           "must be an integer, 1 or more, not \"all\"",
		"nixl_threads = 'x'":                                     "decode.nixl_threads must be a number of threads, not \"x\"",
		"gpu_ids = ['0', '0,1']":                                 "a list makes a sweep",
		"gpu_ids = '0,'":                                         "is not a GPU id or a range",
	} {
		_, err := serve(t, base+more, plan.Cluster{Nodes: 1, GPUsPerNode: 4})
		if want == "" {
			require.NoError(t, err, more)
			continue
		}
		require.ErrorContains(t, err, want, more)
	}
}

// What a test file leaves to its defaults is not what the user set, and what it
// sets of Ray is added to what a cluster needs.
//
// covers: CD-7
func TestDefaultsAreNotSetByTheUser(t *testing.T) {
	plan1 := func(file, over string) plan.Service {
		s, err := scenario.Load(scenario.File{Name: "s.toml",
			Data: []byte("name='s'\n[[Tests]]\nid='a'\ntest_name='t'\nnum_nodes=2\n" + over)},
			[]scenario.File{{Name: "t.toml",
				Data: []byte("name='t'\ndescription=''\ntest_template_name='vllm'\n[cmd_args]\n" + file)}},
			scenario.HookFiles{})
		require.NoError(t, err)
		w, err := New(s.Tests[0], false)
		require.NoError(t, err)
		service, err := w.Serve(plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err)
		return service
	}
	// (a) the proxy's path follows healthcheck as long as nobody sets proxy_healthcheck
	require.Equal(t, "/mine", roleOf(plan1("healthcheck='/mine'\n[cmd_args.prefill]\n", ""), "proxy").Health.Path)
	require.Equal(t, "/mine", roleOf(plan1("healthcheck='/mine'\n", "[Tests.cmd_args.prefill]\n"), "proxy").Health.Path)
	require.Equal(t, "/other",
		roleOf(plan1("healthcheck='/mine'\nproxy_healthcheck='/other'\n", "[Tests.cmd_args.prefill]\n"), "proxy").
			Health.Path)
	// (b) options of ray start in a test file: only what is written, so that --head, --port,
	// --address, --block stay
	words := argv(roleOf(plan1("[cmd_args.decode.ray_head]\nnum_gpus=4\n[cmd_args.decode.ray_worker]\nnum_gpus=4\n",
		"[Tests.cmd_args.decode.ray_head]\ndisable_usage_stats=true\n"), "serve"))
	require.Contains(t, words, "--head-arg=--num-gpus=4 --head-arg=--disable-usage-stats --worker-arg=--num-gpus=4 --")
	require.Equal(t, 3, strings.Count(words, "-arg="))
}

// A misspelt key of a role is no option of the engine: the job would fail, or be planned
// without the key.
func TestMisspeltKeysOfARole(t *testing.T) {
	t.Parallel()
	read := func(role, args string) (plan.Workload, error) {
		table, err := source.Parse("t.toml", []byte(args+"[prefill]\n[decode]\n"+role))
		require.NoError(t, err)
		test := scenario.Test{}
		test.CmdArgs = table
		return New(test, false)
	}
	for role, near := range map[string]string{
		"replica = 4": "replicas", "num-node = 2": "num_nodes", "gpu_id = '0'": "gpu_ids", "nixl_thread = 2": "nixl_threads",
	} {
		_, err := read(role, "")
		require.ErrorContains(t, err,
			"t.toml:3:1: decode."+strings.Fields(role)[0]+" is neither a key of profllm nor a known option of `vllm serve`", role)
		require.ErrorContains(t, err, "hint: did you mean "+near+"?", role)
	}
	for role, near := range map[string]string{
		"max_num_seqz = 4": "max_num_seqs", "gpu-memory-utilisation = 0.9": "gpu_memory_utilization", "no_enable_prefix_cachin = true": "", // argparse takes the beginning of a name

		"max_num_batched = 8": "", "enforce_eager = true": "", "compilation_config.mode = 3": "", "tensor_parallel = 2": "tensor_parallel_size",
	} {
		w, err := read(role, "")
		if near != "" {
			require.ErrorContains(t, err,
				" is not a known option of `vllm serve`\n\thint: did you mean "+near+"? If your release has it, add it to cmd_args.unchecked_options", role)
			w, err = read(role, "unchecked_options = '"+strings.ReplaceAll(strings.Fields(role)[0], "_", "-")+"'\n")
		}
		require.NoError(t, err, role)
		s, err := w.Serve(plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err, role)
		if near == "" {
			require.Empty(t, s.Notes, role)
			continue
		}
		require.Len(t, s.Notes, 1, role)
		require.Contains(t, s.Notes[0], "goes to the engine as it is", role)
		require.Contains(t, s.Notes[0], "did you mean "+near+"?", role)
	}
}

// What `vllm serve` would refuse is refused before the start, in its own words.
//
// covers: CFG-2, CFG-3
func TestOptionsOfARelease(t *testing.T) {
	t.Parallel()
	read := func(args, role string) error {
		table, err := source.Parse("t.toml", []byte(args+"[decode]\n"+role))
		require.NoError(t, err)
		test := scenario.Test{}
		test.CmdArgs = table
		_, err = New(test, false)
		return err
	}
	for _, c := range []struct{ args, role, want string }{
		{"", "dtype = 'bfloat17'", "t.toml:2:1: decode.dtype: vLLM 0.33.0 says: argument --dtype: invalid choice: 'bfloat17' " +
			"(choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', 'half')\n\thint: did you mean bfloat16?"},
		{"", "max_num_seqs = 'lots'", "argument --max-num-seqs: invalid int value: 'lots'"},
		{"", "gpu_memory_utilization = 1.5", "input should be less than or equal to 1, not 1.5"},
		{"", "an_option_of_a_fork = 1", "t.toml:2:1: decode.an_option_of_a_fork is an option of no release of vLLM that profllm knows"},
		{"unchecked_options = '--an-option-of-a-fork'\n", "an_option_of_a_fork = 1", ""},
		{"", "swap_space = 4", ""},
		{"engine_version = '0.32.0'\n", "swap_space = 4", "vLLM 0.18.0 removed it"},
		{"docker_image_url = 'vllm/vllm-openai:v0.32.0'\n", "swap_space = 4", "vLLM 0.18.0 removed it"},
		{"docker_image_url = 'docker.io#vllm/vllm-openai:v0.10.2-x86_64'\n", "swap_space = 4", ""},
		{"docker_image_url = 'nvcr.io#nvidia/vllm:25.09-py3'\n", "swap_space = 4", ""},
		{"engine_version = '0.10.2'\ndocker_image_url = 'vllm/vllm-openai:v0.32.0'\n", "swap_space = 4", ""},
		{"engine_version = '0.10'\n", "structured_outputs_config = { backend = 'auto' }", "vLLM has it since 0.11.0"},
		{"docker_image_url = 'vllm/vllm-openai:nightly'\n", "an_option_of_a_fork = 1", ""},
		{"engine_version = '0.99'\n", "an_option_of_a_fork = 1", ""},
		{"", "headless = false", "--headless has no negation: remove it"},
		{"", "n = 1", "ambiguous option: --n could match"},
		{"", "max_num_seqs = 16\nmax-num-batched-tokens = 8", "t.toml:3:1: decode.max-num-batched-tokens: vLLM does not start with these options: " +
			"max_num_batched_tokens 8 is below max_num_seqs 16"},
		{"", "'eplb_config.num_redundant_experts' = 2", "num_redundant_experts is 2, but enable_eplb is off"},
		{"", "eplb_config = { num_redundant_experts = 2 }\nenable_eplb = true\nenable_expert_parallel = true\ntensor_parallel_size = 2", ""},
		{"", "enable_expert_parallel = true\npipeline_parallel_size = 2", ""},
	} {
		err := read(c.args, c.role)
		if c.want == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorContains(t, err, c.want, c)
		require.Less(t, len(err.Error()), 400, c)
	}
}
