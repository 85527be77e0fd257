package sglang

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// serve plans the service of a test whose [cmd_args] are given.
func serve(t *testing.T, args string, c plan.Cluster) (plan.Service, error) {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	test := scenario.Test{}
	test.CmdArgs = table
	w, err := New(test, false)
	if err != nil {
		return plan.Service{}, err
	}
	return w.Serve(c)
}

func roleOf(s plan.Service, name string) plan.Role {
	for _, r := range s.Roles {
		if r.Name == name {
			return r
		}
	}
	return plan.Role{}
}

func argv(r plan.Role) string {
	words := make([]string, len(r.Step.Argv))
	for i, w := range r.Step.Argv {
		words[i] = w.String()
	}
	return strings.Join(words, " ")
}

func env(r plan.Role, name string) string {
	for _, v := range r.Step.Env {
		if v.Name == name {
			return v.Value.String()
		}
	}
	return ""
}

func ports(s plan.Service) map[string]int {
	m := map[string]int{}
	for _, p := range s.Ports {
		m[p.Name] = p.At(0)
	}
	return m
}

func TestOneNode(t *testing.T) {
	s, err := serve(t, "[decode]\ntensor_parallel_size = 4\nmem_fraction_static = 0.75\nenable_metrics = true\ndisable_radix_cache = false", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Len(t, s.Roles, 1)
	r := roleOf(s, "serve")
	require.Equal(t, "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 --port ${port:serve} "+
		"--tensor-parallel-size 4 --mem-fraction-static 0.75 --enable-metrics", argv(r), "store_true options take no value")
	require.Equal(t, "0,1,2,3", env(r, "CUDA_VISIBLE_DEVICES"))
	require.Equal(t, "${addr:serve}", env(r, "SGLANG_HOST_IP"))
	require.Equal(t, "/health", r.Health.Path)
	require.Equal(t, []int{4, 1, 1}, []int{r.TP, r.PP, r.DP})
	require.Equal(t, map[string]int{"serve": 8300}, ports(s))
	require.Equal(t, "serve", s.EndpointRole)
	require.False(t, s.Disaggregated)
}

// One step over the nodes; each task adds its own rank and address.
func TestManyNodes(t *testing.T) {
	s, err := serve(t, "[decode]\ntp = 8", plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.NoError(t, err)
	r := roleOf(s, "serve")
	require.Equal(t, "profllm job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m sglang.launch_server "+
		"--model-path Qwen/Qwen3-8B --host 0.0.0.0 --port ${port:serve} --tp 8 --dist-init-addr ${addr:serve}:${port:serve_dist} --nnodes 2", argv(r))
	require.Equal(t, plan.Slice{Offset: 0, Count: 2}, r.Step.Nodes)
	require.Empty(t, env(r, "SGLANG_HOST_IP"), "not the head's address on every node")
	require.Equal(t, map[string]int{"serve": 8300, "serve_dist": 20000}, ports(s))
	require.Equal(t, 8, r.TP)
}

// covers: CD-14
func TestDisaggregated(t *testing.T) {
	s, err := serve(t, `model = "m"
[prefill]
num_nodes = 2
gpu_ids = "0-3"
tp = 8
disaggregation_transfer_backend = "mooncake"
[decode]
num_nodes = 1
gpu_ids = "0,1"
disaggregation_transfer_backend = "mooncake"
`, plan.Cluster{Nodes: 3, GPUsPerNode: 4})
	require.NoError(t, err)
	p, d, router := roleOf(s, "prefill"), roleOf(s, "decode"), roleOf(s, "proxy")
	require.Equal(t, "profllm job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m sglang.launch_server --model-path m --host 0.0.0.0 "+
		"--port ${port:prefill} --disaggregation-mode prefill --disaggregation-transfer-backend mooncake --disaggregation-bootstrap-port ${port:prefill_bootstrap} "+
		"--tp 8 --dist-init-addr ${addr:prefill}:${port:prefill_dist} --nnodes 2", argv(p))
	require.Equal(t, "python3 -m sglang.launch_server --model-path m --host 0.0.0.0 --port ${port:decode} --disaggregation-mode decode "+
		"--disaggregation-transfer-backend mooncake", argv(d))
	require.Equal(t, "python3 -m sglang_router.launch_router --pd-disaggregation --prefill http://${addr:prefill}:${port:prefill} ${port:prefill_bootstrap} "+
		"--decode http://${addr:decode}:${port:decode} --host 0.0.0.0 --port ${port:proxy} --prometheus-port ${port:proxy_metrics} --worker-startup-timeout-secs 300 --worker-startup-check-interval 2", argv(router))
	require.Equal(t, map[string]int{"proxy": 8300, "prefill": 8400, "prefill_bootstrap": 8998, "prefill_dist": 20000,
		"decode": 8500, "proxy_metrics": 29000}, ports(s))
	require.Equal(t, "0,1", env(d, "CUDA_VISIBLE_DEVICES"))
	require.Equal(t, []string{"0-1", "2", "0"}, []string{p.Nodes.String(), d.Nodes.String(), router.Nodes.String()})
	require.True(t, router.Step.Container)
	require.False(t, router.Engine)
	require.True(t, s.Disaggregated)
}

// Instances that share a node have their own ports there, in every slot, and the
// router knows every one of them.
//
// covers: CD-14, PL-G11
func TestReplicas(t *testing.T) {
	s, err := serve(t, "prefill={replicas=2,tp=2}\ndecode={replicas=2,tp=4}", plan.Cluster{Nodes: 3, GPUsPerNode: 4})
	require.NoError(t, err)
	var places []string
	for _, r := range s.Roles {
		places = append(places, r.Name+" "+r.Nodes.String()+":"+plan.FormatGPUs(r.GPUs))
	}
	require.Equal(t, []string{"prefill_0 0:0,1", "prefill_1 0:2,3", "decode_0 1:0,1,2,3", "decode_1 2:0,1,2,3",
		"proxy 0:"}, places)
	require.Contains(t, argv(roleOf(s, "proxy")),
		"--prefill http://${addr:prefill_0}:${port:prefill_0} ${port:prefill_0_bootstrap} "+
			"--prefill http://${addr:prefill_1}:${port:prefill_1} ${port:prefill_1_bootstrap} "+
			"--decode http://${addr:decode_0}:${port:decode_0} --decode http://${addr:decode_1}:${port:decode_1} --host")
	require.Contains(t, argv(roleOf(s, "prefill_1")),
		"--disaggregation-mode prefill --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port ${port:prefill_1_bootstrap}")
	d := roleOf(s, "decode_1")
	require.Equal(t, "decode", d.KindName())
	require.Equal(t, "${addr:prefill_1}", env(roleOf(s, "prefill_1"), "SGLANG_HOST_IP"))

	for _, c := range []struct {
		args        string
		nodes, gpus int
	}{
		{"prefill={replicas=2}\ndecode={replicas=2}", 1, 4},
		{"prefill={replicas=4}\ndecode={replicas=4}", 1, 8},
		{"prefill={replicas=16,tp=1}\ndecode={replicas=8,tp=1}", 3, 8},
		{"prefill={replicas=2,num_nodes=2}\ndecode={replicas=2,num_nodes=2}", 8, 8},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: c.gpus})
		require.NoError(t, err, c.args)
		p := plan.Plan{Roles: s.Roles, Ports: s.Ports}
		for slot := range plan.Slots {
			require.NoError(t, p.UsableSlot(slot), "%s, slot %d", c.args, slot)
		}
	}
}

// An instance whose DP shares the ranks of TP needs no further GPU, so two of them
// fit on a node.
func TestReplicasWithDPAttention(t *testing.T) {
	const args = "prefill={replicas=2,tp=2,dp=2%s}\ndecode={tp=4}"
	_, err := serve(t, strings.Replace(args, "%s", "", 1), plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.ErrorContains(t, err, "need 3 nodes, but the test has 2")
	s, err := serve(t, strings.Replace(args, "%s", ",enable_dp_attention=true", 1),
		plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Equal(t, "2,3", env(roleOf(s, "prefill_1"), "CUDA_VISIBLE_DEVICES"))
}

func TestExtraCmdArgs(t *testing.T) {
	table, err := source.Parse("e.toml", []byte("chunked-prefill-size = '512'\nreplicas = '2'\ntp = '2'"))
	require.NoError(t, err)
	test := scenario.Test{}
	test.CmdArgs, test.ExtraCmdArgs = source.NewTable(source.Pos{}), table
	w, err := New(test, false)
	require.ErrorContains(t, err, "e.toml:2:1: extra_cmd_args.replicas: decode has that key too")
	s, err := w.Serve(plan.Cluster{Nodes: 1, GPUsPerNode: 2})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(s, "serve")), "--chunked-prefill-size 512 --tp 2")
	require.Contains(t, s.Notes[0], "passed to every `sglang.launch_server`")
}

// covers: C.1, CD-11
func TestGPUSplit(t *testing.T) {
	for _, c := range []struct {
		visible         []int
		args            string
		prefill, decode string
		err             string
	}{
		{[]int{0}, "[prefill]", "", "", "1 node with 1 GPU cannot serve prefill and decode"},
		{[]int{0, 1, 2}, "[prefill]", "0", "1,2", ""},
		{nil, "[prefill]", "0,1", "2,3", ""},
		{[]int{0, 1}, "prefill={gpu_ids='0-1'}\ndecode={gpu_ids='2, 3'}", "0,1", "2,3", ""},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: 1, GPUsPerNode: 4, VisibleGPUs: c.visible})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.prefill, plan.FormatGPUs(roleOf(s, "prefill").GPUs))
		require.Equal(t, c.decode, plan.FormatGPUs(roleOf(s, "decode").GPUs))
	}
}

// covers: CD-13
func TestRoleSizes(t *testing.T) {
	for _, c := range []struct {
		args            string
		nodes           int
		prefill, decode string
		err             string
	}{
		{"[prefill]", 1, "0", "0", ""},
		{"prefill={num_nodes=1}\ndecode={num_nodes=1}", 1, "0", "0", ""},
		{"[prefill]", 2, "0", "1", ""},
		{"prefill={num_nodes=1}\ndecode={num_nodes='3'}", 4, "0", "1-3", ""},
		{"[prefill]", 3, "", "", "the test has 3 nodes, but neither prefill.num_nodes nor decode.num_nodes is set"},
		{"[prefill]\nnum_nodes=2", 4, "", "", "t.toml:2:1: prefill.num_nodes is set, but decode.num_nodes is not"},
		{"[prefill]\n[decode]\nnum_nodes=2", 4, "", "", "t.toml:3:1: decode.num_nodes is set, but prefill.num_nodes is not"},
		{"[prefill]\nnum_nodes=2\n[decode]\nnum_nodes=3", 4, "", "", "prefill has 2 nodes and decode 3 nodes, together 5, but the test has 4"},
		{"prefill={num_nodes=0}\ndecode={num_nodes=1}", 1, "", "", "prefill.num_nodes must be a number of nodes, 1 or more, not 0"},
		{"prefill={num_nodes=[1,2]}", 2, "", "", "a list makes a sweep"},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: c.nodes, GPUsPerNode: 4})
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.args)
			continue
		}
		require.NoError(t, err, c.args)
		require.Equal(t, c.prefill, roleOf(s, "prefill").Nodes.String())
		require.Equal(t, c.decode, roleOf(s, "decode").Nodes.String())
	}
}

func TestParallelSizes(t *testing.T) {
	for args, want := range map[string][]int{
		"":                                    {1, 1, 1},
		"tp = 8\npp_size = 2\ndp-size = 3":    {8, 2, 3},
		"tp_size = 8\ndata_parallel_size = 2": {8, 1, 2},
		"tp = 8\ndp = 8\nenable_dp_attention = true":  {8, 1, 1},
		"tp = 8\ndp = 8\nenable_dp_attention = false": {8, 1, 8},
	} {
		s, err := serve(t, "[decode]\n"+args, plan.Cluster{Nodes: 1, GPUsPerNode: 8})
		require.NoError(t, err)
		r := roleOf(s, "serve")
		require.Equal(t, want, []int{r.TP, r.PP, r.DP}, args)
	}
}

func TestHealthRules(t *testing.T) {
	path := func(args, name string) string {
		s, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err)
		return roleOf(s, name).Health.Path
	}
	require.Equal(t, "/health", path("", "serve"))
	require.Equal(t, "/v1/models", path("healthcheck='/v1/models'", "serve"))
	require.Equal(t, "/y", path("healthcheck='/x'\nserve_healthcheck='/y'", "serve"))
	require.Equal(t, "/health", path("healthcheck='/x'\nprefill={}", "decode"))
	require.Equal(t, "/y", path("serve_healthcheck='/y'\nprefill={}", "prefill"))
	require.Equal(t, "/readiness", path("prefill={}", "proxy"))
	require.Equal(t, "/x", path("healthcheck='/x'\nprefill={}", "proxy"))
	require.Equal(t, "/health_generate", path("prefill={}\nrouter={mini-lb=true}", "proxy"))
	require.Equal(t, "/readiness", path("prefill={}\nrouter={mini_lb=false}", "proxy"))
}

func TestRouterOptions(t *testing.T) {
	two := plan.Cluster{Nodes: 2, GPUsPerNode: 4}
	s, err := serve(t, "prefill={}\nrouter={policy='round_robin', decode-policy='power_of_two', disable_retries=true}", two)
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(s, "proxy")),
		" --worker-startup-check-interval 2 --policy round_robin --decode-policy power_of_two --disable-retries")
	for args, want := range map[string]string{
		"prefill={}\nrouter={port=1}":             "t.toml:2:9: router.port: profllm sets this option itself\n\thint: set cmd_args.port",
		"prefill={}\nrouter={prometheus-port=1}":  "router.prometheus-port: profllm sets this option itself",
		"decode={tp=1}\nrouter={policy='random'}": "router.policy: without [cmd_args.prefill] there is no router",
	} {
		_, err := serve(t, args, two)
		require.ErrorContains(t, err, want)
	}
}

func TestModulesAndPorts(t *testing.T) {
	s, err := serve(t, "serve_module='a.b'\nrouter_module='c'\nbench_module='d'\nport=9000\nprefill={disaggregation_bootstrap_port=12000}", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(s, "decode")), "python3 -m a.b ")
	require.Contains(t, argv(roleOf(s, "proxy")), "python3 -m c ")
	require.Equal(t, map[string]int{"proxy": 9000, "proxy_metrics": 29000, "prefill": 9100, "prefill_bootstrap": 12000, "decode": 9200},
		ports(s))
}

// covers: CD-39, CD-45
func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"engine_version='banana'":                         "cmd_args.engine_version \"banana\" is no version: it must begin with a number",
		"engine_version='v'":                              "cmd_args.engine_version \"v\" is no version: it must begin with a number",
		"bench_host='http://x'":                           "cmd_args.bench_host \"http://x\" must be a host name, without scheme or path",
		"serve_healthcheck='health'":                      "serve_healthcheck \"health\" must begin with a slash",
		"prefill={gpu_ids='0'}":                           "prefill.gpu_ids is set, but decode.gpu_ids is not",
		"prefill={}\ndecode={gpu_ids='0'}":                "decode.gpu_ids is set, but prefill.gpu_ids is not",
		"decode={gpu_ids='GPU-1'}":                        "is not a GPU id or a range",
		"decode={gpu_ids=0}":                              "decode.gpu_ids must be a string",
		"port=80":                                         "cmd_args.port is 80",
		"decode={port=1}":                                 "decode.port: profllm sets the port of every server itself\n\thint: set cmd_args.port",
		"decode={replicas=2}":                             "decode.replicas is 2, but there is no [cmd_args.prefill]",
		"decode={tp-size='many'}":                         "decode.tp-size must be an integer, 1 or more, not \"many\"",
		"decode={node-rank=1}":                            "decode.node-rank: profllm sets the node-rank of every server itself",
		"prefill={disaggregation_mode='decode'}":          "prefill.disaggregation_mode: profllm sets the disaggregation_mode",
		"prefill={disaggregation_bootstrap_port=80}":      "prefill.disaggregation_bootstrap_port is 80, must be 1024-65435",
		"prefill={disaggregation_transfer_backend=['a']}": "a list makes a sweep",
		"serve_wait_seconds=0":                            "serve_wait_seconds is 0",
		"proxy_script='x'":                                `unknown key "proxy_script"`,
		"modle='x'":                                       `unknown key "modle"`,
	} {
		_, err := serve(t, args, plan.Cluster{Nodes: 1, GPUsPerNode: 4})
		require.ErrorContains(t, err, want, args)
	}
	image := scenario.Test{}
	image.CmdArgs = source.NewTable(source.Pos{})
	_, err := New(image, true)
	require.ErrorContains(t, err, "docker_image_url is required")
}

// SGLang's prefill and decode agree on how KV blocks move, or wait for each other.
func TestTransferBackends(t *testing.T) {
	for _, c := range []struct{ prefill, decode, err string }{
		{"mooncake", "mooncake", ""},
		{"", "nixl", ""},
		{"mooncake", "nixl", `t.toml:2:1: prefill transfers KV blocks with "mooncake", but decode with "nixl"`},
		{"", "mooncake", `t.toml:3:1: prefill transfers KV blocks with "nixl", but decode with "mooncake"`},
	} {
		args := "[prefill]\n"
		if c.prefill != "" {
			args += "disaggregation_transfer_backend = \"" + c.prefill + "\"\n"
		}
		args += "[decode]\n"
		if c.decode != "" {
			args += "disaggregation_transfer_backend = \"" + c.decode + "\"\n"
		}
		_, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.err)
	}
}
