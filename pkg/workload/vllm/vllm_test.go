package vllm

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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

// covers: C.1, CD-11
func TestGPUSplit(t *testing.T) {
	for _, c := range []struct {
		name            string
		visible         []int
		perNode         int
		args            string
		prefill, decode string
		err             string
	}{
		{name: "one visible", visible: []int{0}, args: "[prefill]", err: "1 node with 1 GPU cannot serve prefill and decode"},
		{name: "two", visible: []int{0, 1}, args: "[prefill]", prefill: "0", decode: "1"},
		{name: "three", visible: []int{0, 1, 2}, args: "[prefill]", prefill: "0", decode: "1,2"},
		{name: "five", visible: []int{0, 1, 2, 3, 4}, args: "[prefill]", prefill: "0,1", decode: "2,3,4"},
		{name: "seven per node", perNode: 7, args: "[prefill]", prefill: "0,1,2", decode: "3,4,5,6"},
		{name: "nothing known", args: "[prefill]", err: "1 node with 1 GPU cannot serve"},
		{name: "explicit beats visible", visible: []int{0, 1}, args: "prefill={gpu_ids='0-1'}\ndecode={gpu_ids='2, 3'}", prefill: "0,1", decode: "2,3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := serve(t, c.args, plan.Cluster{Nodes: 1, GPUsPerNode: c.perNode, VisibleGPUs: c.visible})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.prefill, plan.FormatGPUs(roleOf(s, "prefill").GPUs))
			require.Equal(t, c.decode, plan.FormatGPUs(roleOf(s, "decode").GPUs))
		})
	}
}

// covers: C.1
func TestAggregatedGPUs(t *testing.T) {
	for _, c := range []struct {
		visible []int
		args    string
		want    string
	}{
		{[]int{0, 1}, "", "0,1"},
		{nil, "", "0,1,2,3,4,5,6,7"},
		{nil, "decode={gpu_ids='2,3'}", "2,3"},
		{[]int{0, 1}, "decode={gpu_ids='2,3'}", "0,1"},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: 1, GPUsPerNode: 8, VisibleGPUs: c.visible})
		require.NoError(t, err)
		r := roleOf(s, "serve")
		require.Equal(t, c.want, plan.FormatGPUs(r.GPUs))
		require.Contains(t, r.Step.Env, plan.Var{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(c.want)},
			"set inside the step")
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
		require.Equal(t, roleOf(s, "prefill").Nodes.Offset, roleOf(s, "proxy").Nodes.Offset)
	}
}

// covers: C.6, CD-9, SRV-7
func TestEngineArguments(t *testing.T) {
	s, err := serve(t, `unchecked_options = "enable_x, y, flag, n, f, quoted, user_quoted, table, list"
[decode]
enable_x = true
y = false
flag = ""
n = 4
f = 0.9
quoted = '''{"a": 1}'''
user_quoted = "'{\"a\": 1}'"
table = { b = 1, a = { c = "x <y>" } }
list = [1, "two"]
`, plan.Cluster{Nodes: 1, GPUsPerNode: 1})
	require.NoError(t, err)
	words := roleOf(s, "serve").Step.Argv
	var got []string
	for _, w := range words[5 : len(words)-2] {
		text, ok := w.Literal()
		require.True(t, ok)
		got = append(got, text)
	}
	require.Equal(t, []string{
		"--enable-x", "--no-y", "--flag", "--n", "4", "--f", "0.9", "--quoted", `{"a": 1}`, "--user-quoted", `{"a": 1}`,
		"--table", `{"b":1,"a":{"c":"x <y>"}}`, "--list", "1", "two",
	}, got)
}

func TestRayAndConnector(t *testing.T) {
	s, err := serve(t, `[prefill]
num_nodes = 2
nixl_threads = 4
ray_head = { num_gpus = 4, disable_usage_stats = true, port = 7000 }
[decode]
num_nodes = 1
kv_transfer_config = { kv_connector = "NixlConnector", kv_role = "kv_consumer", kv_buffer_device = "cpu" }
`, plan.Cluster{Nodes: 3, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Equal(t, `profllm job ray --nodes 2 --head ${addr:prefill} --port ${port:prefill_ray} --timeout 5m0s `+
		`--head-arg=--num-gpus=4 --head-arg=--disable-usage-stats --head-arg=--port=7000 -- `+
		`vllm serve Qwen/Qwen3-0.6B --host 0.0.0.0 --port ${port:prefill} `+
		`--kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_producer","kv_connector_extra_config":{"num_threads":4}} `+
		`--distributed-executor-backend ray`, argv(roleOf(s, "prefill")))
	require.Equal(t, 1, strings.Count(argv(roleOf(s, "decode")), "--kv-transfer-config"),
		"the user's connector replaces ours")
	require.NotContains(t, argv(roleOf(s, "decode")), "ray")
}

// Roles that cannot hand their KV blocks over are refused before the GPUs find out.
func TestTransfer(t *testing.T) {
	nixl, lmcache := `{ kv_connector = "NixlConnector", kv_role = "kv_both" }`, `{ kv_connector = "LMCacheConnectorV1", kv_role = "kv_both" }`
	multi := `'{"kv_connector":"MultiConnector","kv_role":"kv_producer","kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]}}'`
	for _, c := range []struct{ prefill, decode, proxy, err, note string }{
		{"", "", "", "", ""},
		{nixl, "", "", "", ""},
		{multi, multi, "", "t.toml:4:1: decode.kv_transfer_config: kv_role is \"kv_producer\", so no KV blocks would be transferred", ""},
		{multi, nixl, "", "", ""},
		{multi, lmcache, "", "", "t.toml:4:1: LMCacheConnectorV1 on both roles"},
		{lmcache, lmcache, "", "", "t.toml:4:1: LMCacheConnectorV1 on both roles does not use what the proxy hands over"},
		{lmcache, lmcache, "proxy.py", "", ""},
		{nixl, lmcache, "", "prefill transfers KV blocks with NixlConnector, but decode with LMCacheConnectorV1: they have no connector in common", ""},
		{lmcache, "", "", "prefill transfers KV blocks with LMCacheConnectorV1, but decode with NixlConnector", ""},
		{lmcache, "", "proxy.py", "they have no connector in common", ""},
		{`{ kv_connector = "P2pNcclConnector" }`, `{ kv_connector = "P2pNcclConnector" }`, "", "P2pNcclConnector needs vLLM's own proxy", ""},
		{`{ kv_connector = "P2pNcclConnector" }`, `{ kv_connector = "P2pNcclConnector" }`, "proxy.py", "", ""},
		{`{ kv_role = "kv_both" }`, "", "", "t.toml:2:1: prefill.kv_transfer_config: kv_connector is missing", ""},
		{`"NixlConnector"`, "", "", "must be a table or a JSON object with kv_connector, not NixlConnector", ""},
		{`{ kv_connector = "Ours" }`, `{ kv_connector = "Ours" }`, "", "", ""},
	} {
		args := "[prefill]\n"
		if c.prefill != "" {
			args += "kv_transfer_config = " + c.prefill + "\n"
		}
		args += "[decode]\n"
		if c.decode != "" {
			args += "kv_transfer_config = " + c.decode + "\n"
		}
		if c.proxy != "" {
			args = "proxy_script = \"" + c.proxy + "\"\n" + args
		}
		s, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		if c.err != "" {
			require.ErrorContains(t, err, c.err, args)
			continue
		}
		require.NoError(t, err, args)
		require.Equal(t, c.note != "", strings.Contains(strings.Join(s.Notes, "\n"), "on both roles"), args)
		require.Contains(t, strings.Join(s.Notes, "\n"), c.note)
	}
	_, err := serve(t, "[decode]\nkv_transfer_config = "+lmcache, plan.Cluster{Nodes: 1, GPUsPerNode: 1})
	require.NoError(t, err, "one server alone may use a store")
}

// A server over many nodes uses all of them, or is refused.
func TestServersOverNodes(t *testing.T) {
	for _, c := range []struct{ args, want, err string }{
		{"tensor_parallel_size=8", "--distributed-executor-backend ray", ""},
		{"tensor_parallel_size=2\ndata_parallel_size=4", "--distributed-executor-backend ray --data-parallel-backend ray --data-parallel-size-local 2", ""},
		{"data_parallel_size=8\ndata_parallel_backend='ray'", "--distributed-executor-backend ray --data-parallel-size-local 4", ""},
		{"data_parallel_size=3\ndata_parallel_size_local=2", "--distributed-executor-backend ray --data-parallel-backend ray", ""},
		{"distributed_executor_backend='ray'\ndata_parallel_size=2", "--data-parallel-backend ray --data-parallel-size-local 1", ""},
		{"distributed-executor-backend='uni'", "", `distributed_executor_backend is "uni"`},
		{"distributed-executor-backend='uni'\ntensor_parallel_size=2\ndata_parallel_size=2", "", `t.toml:2:1: decode.distributed_executor_backend is "uni", with which vLLM uses one node only, but the role has 2 nodes`},
		{"distributed_executor_backend='mp'\ndata_parallel_backend='ray'", "", `t.toml:3:1: decode.data_parallel_backend is "ray", with which`},
		{"data_parallel_size=3", "", "data_parallel_size 3 cannot be spread evenly over 2 nodes"},
		{"data_parallel_size=2\ntensor_parallel_size=6", "", "1 rank of 6 GPUs each (TP 6 x PP 1) on every node, but a node has 4 GPUs"},
	} {
		t.Run(c.args, func(t *testing.T) {
			s, err := serve(t, "[decode]\n"+c.args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(argv(roleOf(s, "serve")), "--port ${port:serve} "+c.want),
				argv(roleOf(s, "serve")))
			require.True(t, roleOf(s, "serve").Ray)
			one, err := serve(t, "[decode]\ndata_parallel_size=4\ndistributed_executor_backend='mp'",
				plan.Cluster{Nodes: 1, GPUsPerNode: 4})
			require.NoError(t, err)
			require.NotContains(t, argv(roleOf(one, "serve")), "ray")
		})
	}
}

// On Ray, a pipeline spans nodes, and so does each data-parallel rank that needs several whole nodes:
// vLLM has to be told so.
//
// covers: SRV-6
func TestRanksSpanNodes(t *testing.T) {
	four := plan.Cluster{Nodes: 4, GPUsPerNode: 4}
	s, err := serve(t, "[decode]\ntensor_parallel_size=4\npipeline_parallel_size=4", four)
	require.NoError(t, err)
	r := roleOf(s, "serve")
	require.True(t, r.Ray)
	require.Equal(t, 16, r.World())
	require.Contains(t, argv(r), "--pipeline-parallel-size 4")
	require.Empty(t, env(r, packStrategy))
	for _, args := range []string{"tensor_parallel_size=8", "tensor_parallel_size=4\npipeline_parallel_size=2"} {
		s, err = serve(t, "[decode]\ndata_parallel_size=2\n"+args, four)
		require.NoError(t, err)
		r = roleOf(s, "serve")
		require.Equal(t, "span", env(r, packStrategy))
		require.Contains(t, argv(r), "--data-parallel-backend ray")
		require.NotContains(t, argv(r), "--data-parallel-size-local")
		require.Equal(t, 16, r.World())
	}
	s, err = serve(t, "[decode]\ndata_parallel_size=4\ntensor_parallel_size=4", four)
	require.NoError(t, err)
	require.Empty(t, env(roleOf(s, "serve"), packStrategy), "each rank is on one node")
}

// Every role has the test's time to become ready, and is asked as often as the test says.
//
// covers: HLT-2
func TestReadinessKeys(t *testing.T) {
	s, err := serve(t, "serve_wait_seconds=3600\nserve_poll_seconds=10\nprefill={}", plan.Cluster{Nodes: 2, GPUsPerNode: 4})
	require.NoError(t, err)
	for _, name := range []string{"prefill", "decode", "proxy"} {
		require.Equal(t, plan.Seconds(time.Hour), roleOf(s, name).Timeout, name)
		require.Equal(t, plan.Seconds(10*time.Second), roleOf(s, name).Poll, name)
	}
	s, err = serve(t, "", plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err)
	require.Equal(t, plan.Seconds(5*time.Minute), roleOf(s, "serve").Timeout)
	require.Zero(t, roleOf(s, "serve").Poll)
}

// covers: CD-39, CD-45
func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"bench_host='http://x'":                                  "cmd_args.bench_host \"http://x\" must be a host name, without scheme or path",
		"serve_healthcheck='health'":                             "serve_healthcheck \"health\" must begin with a slash",
		"prefill={gpu_ids='0'}":                                  "prefill.gpu_ids is set, but decode.gpu_ids is not",
		"prefill={gpu_ids='0',num_nodes=1}\ndecode={gpu_ids=''}": "prefill.gpu_ids is set, but decode.gpu_ids is not",
		"decode={gpu_ids='GPU-1'}":                               "is not a GPU id or a range",
		"decode={gpu_ids='0,0'}":                                 "GPU 0 is named twice",
		"decode={gpu_ids=0}":                                     "decode.gpu_ids must be a string",
		"port=80":                                                "cmd_args.port is 80",
		"decode={port=1}":                                        "profllm sets the port of every server itself",
		"serve_poll_seconds=0.05":                                "serve_poll_seconds is 0.05, must be 0.1 to 60",
		"serve_wait_seconds=0":                                   "serve_wait_seconds is 0",
		"modle='x'":                                              `unknown key "modle"`,
		"prefill={}\ndecode={served_model_name='q'}":             "prefill and decode call the model differently",
	} {
		_, err := serve(t, args, plan.Cluster{Nodes: 1, GPUsPerNode: 4})
		require.ErrorContains(t, err, want, args)
	}
	image := scenario.Test{}
	image.CmdArgs = source.NewTable(source.Pos{})
	_, err := New(image, true)
	require.ErrorContains(t, err, "docker_image_url is required")
}

// Clients call the model what the servers were told to call it.
func TestServedName(t *testing.T) {
	for args, want := range map[string]string{
		"decode={}":                           "",
		"decode={served_model_name='qwen'}":   "qwen",
		"decode={'served-model-name'='qwen'}": "qwen",
		"prefill={served_model_name='q'}\ndecode={'served-model-name'='q'}": "q",
	} {
		s, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err, args)
		require.Equal(t, want, s.Served, args)
	}
}

func TestHealthRules(t *testing.T) {
	path := func(args, name string) string {
		s, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 4})
		require.NoError(t, err)
		return roleOf(s, name).Health.Path
	}
	require.Equal(t, "/health", path("", "serve"))
	require.Equal(t, "/x", path("healthcheck='/x'", "serve"))
	require.Equal(t, "/y", path("healthcheck='/x'\nserve_healthcheck='/y'", "serve"))
	require.Equal(t, "/health", path("healthcheck='/x'\nprefill={}", "decode"))
	require.Equal(t, "/healthcheck", path("prefill={}", "proxy"))
	require.Equal(t, "/x", path("healthcheck='/x'\nprefill={}", "proxy"))
	require.Equal(t, "/z", path("healthcheck='/x'\nproxy_healthcheck='/z'\nprefill={}", "proxy"))
}

// covers: C.8
func TestShapes(t *testing.T) {
	const dir = "../../planner/testdata/format/conf/"
	read := func(name string) scenario.File {
		data, err := os.ReadFile(dir + name)
		require.NoError(t, err)
		return scenario.File{Name: name, Data: data}
	}
	want := map[string]struct {
		roles, gpus, ports, health string
		ray                        int
	}{
		"one.node":             {"serve 0", "2,3,4,5", "serve 8700", "/health", 0},
		"one.server.two.nodes": {"serve 0-1", "0,1,2,3,4,5", "serve 8700, serve_ray 6379", "/health", 1},
		"apart":                {"prefill 0, decode 1, proxy 0", "0,1,2,3,4,5|0,1,2,3,4,5|", "proxy 8700, prefill 8800, prefill_nixl 5557, decode 8900, decode_nixl 5563", "/health /health /healthcheck", 0},
		"apart.one.node":       {"prefill 0, decode 0, proxy 0", "0|1,2|", "proxy 8700, prefill 8800, prefill_nixl 5557, decode 8900, decode_nixl 5560", "/health /health /alive", 0},
		"apart.five.nodes": {"prefill 0-2, decode 3-4, proxy 0", "0,1,2,3,4,5|0,1,2,3,4,5|",
			"proxy 8800, prefill 8900, prefill_nixl 5557, prefill_ray 6379, decode 9000, decode_nixl 5563, decode_ray 7379", "/health /health /healthcheck", 2},
		"named.nodes": {"prefill 0, decode 1-2, proxy 0", "0,1,2,3,4,5|0,1,2,3,4,5|",
			"proxy 8700, prefill 8800, prefill_nixl 5557, decode 8900, decode_nixl 5563, decode_ray 7379", "/health /health /healthcheck", 1},
	}
	s, err := scenario.Load(read("test_scenario/shapes.toml"), []scenario.File{read("test/anvil-vllm.toml")},
		scenario.HookFiles{})
	require.NoError(t, err)
	require.Len(t, s.Tests, len(want))
	for _, test := range s.Tests {
		w, err := New(test, true)
		require.NoError(t, err)
		nodes, err := test.Nodes()
		require.NoError(t, err)
		if len(test.NodeLists) > 0 {
			nodes = 3 // as many as it names
		}
		visible := []int{0, 1, 2, 3, 4, 5}
		if v, _ := test.Env.Get("CUDA_VISIBLE_DEVICES").Text(); v != "" {
			visible, err = plan.ParseGPUs(v)
			require.NoError(t, err)
		}
		service, err := w.Serve(plan.Cluster{Nodes: nodes, VisibleGPUs: visible})
		require.NoError(t, err)
		var roles, gpus, ports, health []string
		ray := 0
		for _, r := range service.Roles {
			roles = append(roles, r.Name+" "+r.Nodes.String())
			gpus = append(gpus, plan.FormatGPUs(r.GPUs))
			health = append(health, r.Health.Path)
			if strings.Contains(argv(r), "-backend ray") {
				ray++
			}
		}
		for _, p := range service.Ports {
			ports = append(ports, p.Name+" "+strconv.Itoa(p.At(0)))
		}
		w2 := want[test.ID]
		require.Equal(t, w2.roles, strings.Join(roles, ", "), test.ID)
		require.Equal(t, w2.gpus, strings.Join(gpus, "|"), test.ID)
		require.Equal(t, w2.ports, strings.Join(ports, ", "), test.ID)
		require.Equal(t, w2.health, strings.Join(health, " "), test.ID)
		require.Equal(t, w2.ray, ray, test.ID)
		decode := argv(service.Roles[min(1, len(service.Roles)-1)])
		require.Contains(t, decode+" ", "--enforce-eager ", "a bare flag")
		require.Contains(t, decode, `--hf-overrides {"rope_scaling":{"factor":2.0}}`, test.ID)
		require.Contains(t, decode, "--seed 17", "extra_cmd_args")
	}
}
