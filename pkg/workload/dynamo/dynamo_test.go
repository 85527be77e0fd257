package dynamo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// test is a test whose [cmd_args] are given.
func test(t *testing.T, args string) scenario.Test {
	t.Helper()
	table, err := source.Parse("t.toml", []byte(args))
	require.NoError(t, err)
	s := scenario.Test{Table: source.NewTable(source.Pos{File: "t.toml", Line: 1})}
	s.CmdArgs = table
	return s
}

// serve plans the service of such a test.
func serve(t *testing.T, args string, c plan.Cluster) (plan.Service, error) {
	t.Helper()
	w, err := New(test(t, args), false)
	if err != nil {
		return plan.Service{}, err
	}
	c.Dir, c.RunID = "/run", "exp_1"
	return w.Serve(c)
}

func roleOf(t *testing.T, s plan.Service, name string) plan.Role {
	t.Helper()
	for _, r := range s.Roles {
		if r.Name == name {
			return r
		}
	}
	require.Fail(t, "no role "+name)
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

// workers are the nodes of each role's workers, such as "decode 0,1 prefill 2".
func workers(s plan.Service) string {
	nodes := map[string][]string{}
	var kinds []string
	for _, r := range s.Roles {
		if kind := r.KindName(); r.Engine {
			if nodes[kind] == nil {
				kinds = append(kinds, kind)
			}
			nodes[kind] = append(nodes[kind], fmt.Sprint(r.Nodes.Offset))
		}
	}
	var list []string
	for _, kind := range kinds {
		list = append(list, kind+" "+strings.Join(nodes[kind], ","))
	}
	return strings.Join(list, " ")
}

// sizes are the numbers of nodes of the roles, as a test has them.
func sizes(p, d int) string {
	return fmt.Sprintf("[dynamo.prefill_worker]\nnum-nodes = %d\n[dynamo.decode_worker]\nnum_nodes = %d\n", p, d)
}

// The table of the placements that CloudAI has.
//
// covers: U-10
func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		p, d, nodes int // nodes 0: the test names none
		want        string
		note        string
	}{
		{1, 1, 0, "decode 0 prefill 1", ""},
		{2, 2, 0, "decode 0,1 prefill 2,3", ""},
		{1, 1, 1, "decode 0 prefill 0", ""},
		{2, 2, 2, "decode 0,1 prefill 0,1", ""},
		{2, 2, 3, "decode 0,1 prefill 0,1", "no worker runs on 1 node"},
		{1, 2, 2, "decode 0,1 prefill 0", ""},
		{1, 1, 4, "decode 0 prefill 1", "no worker runs on 2 nodes"},
		{0, 1, 0, "worker 0", ""},
		{0, 2, 0, "worker 0,1", ""},
		{2, 2, 1, "error: 1 node cannot hold 2 nodes of decode and 2 nodes of prefill", ""},
		{0, 2, 1, "error: 1 node cannot hold 2 nodes of decode", ""},
		{1, 0, 0, "error: decode_worker.num_nodes is 0", ""},
	} {
		name := fmt.Sprintf("P%d D%d on %d", c.p, c.d, c.nodes)
		w, err := read(test(t, sizes(c.p, c.d)), false)
		require.NoError(t, err, name)
		nodes := c.nodes
		if nodes == 0 {
			nodes = w.Nodes()
		}
		s, err := serve(t, sizes(c.p, c.d), plan.Cluster{Nodes: nodes, GPUsPerNode: 8})
		if want, refused := strings.CutPrefix(c.want, "error: "); refused {
			require.ErrorContains(t, err, want, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, workers(s), name)
		require.Equal(t, 0, roleOf(t, s, frontend).Nodes.Offset, name)
		if c.note != "" {
			require.Contains(t, strings.Join(s.Notes, "\n"), c.note, name)
		} else {
			require.NotContains(t, strings.Join(s.Notes, "\n"), "no worker runs", name)
		}
	}
}

// A test that names no nodes asks for those of its roles; one that says num_nodes = 1 shares it.
//
// covers: U-10
func TestNodesOfARoleEach(t *testing.T) {
	prepared, err := Prepared(test(t, sizes(2, 3)))
	require.NoError(t, err)
	n, err := prepared.Nodes()
	require.NoError(t, err)
	require.Equal(t, 5, n)
	one := test(t, sizes(1, 1))
	one.NumNodes = &source.Value{Any: int64(1)}
	one.Table.Set("num_nodes", one.NumNodes)
	prepared, err = Prepared(one)
	require.NoError(t, err)
	n, err = prepared.Nodes()
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// How the GPUs of a node are shared out.
//
// covers: P-8, U-13
func TestSlices(t *testing.T) {
	alone := func(tp int, more string) string {
		return fmt.Sprintf("[dynamo.prefill_worker]\nnum_nodes = 0\n[dynamo.decode_worker]\n%s\n[dynamo.decode_worker.args]\ntensor-parallel-size = %d\n", more, tp)
	}
	shared := func(d, p int) string {
		return fmt.Sprintf("[dynamo.prefill_worker.args]\ntensor_parallel_size = %d\n[dynamo.decode_worker.args]\ntensor-parallel-size = %d\n", p, d)
	}
	for _, c := range []struct {
		args, want string
	}{
		{alone(4, ""), "worker=0,1,2,3,4,5,6,7"},
		{alone(4, "multiple-workers-per-node = true"), "worker_0=0,1,2,3 worker_1=4,5,6,7"},
		{alone(3, "multiple-workers-per-node = true"), "worker_0=0,1,2 worker_1=3,4,5"},
		{alone(2, "workers_per_node = 3"), "worker_0=0,1 worker_1=2,3 worker_2=4,5"},
		{shared(4, 2), "decode=0,1,2,3 prefill=4,5"},
		{alone(16, "multiple-workers-per-node = true"), "error: worker needs 16 GPUs on each node"},
		{alone(16, ""), "error: worker needs 16 GPUs on each node"},
		{shared(6, 4), "error: prefill needs 4 GPUs on each node (1 worker with TP 4 x PP 1 x DP 1), but 2 of 8 are free"},
	} {
		s, err := serve(t, c.args, plan.Cluster{Nodes: 1, GPUsPerNode: 8})
		if want, refused := strings.CutPrefix(c.want, "error: "); refused {
			require.ErrorContains(t, err, want, c.args)
			continue
		}
		require.NoError(t, err, c.args)
		var got []string
		for _, r := range s.Roles {
			if r.Engine {
				got = append(got, r.Name+"="+env(r, "CUDA_VISIBLE_DEVICES"))
			}
		}
		require.Equal(t, c.want, strings.Join(got, " "), c.args)
	}
}

// The GPUs that the environment names are shared out, from wherever they begin.
func TestSlicesOfVisibleGPUs(t *testing.T) {
	s, err := serve(t, "[dynamo]\n[dynamo.prefill_worker.args]\ntp = 1",
		plan.Cluster{Nodes: 1, VisibleGPUs: []int{4, 6, 7}})
	require.NoError(t, err)
	require.Equal(t, "4", env(roleOf(t, s, "decode"), "CUDA_VISIBLE_DEVICES"))
	require.Equal(t, "6", env(roleOf(t, s, "prefill"), "CUDA_VISIBLE_DEVICES"))
}

// Every port of a node is another one, however many workers share it.
//
// covers: U-21
func TestPortsAreDistinct(t *testing.T) {
	for _, backend := range []string{"vllm", "sglang", "mocker"} {
		s, err := serve(t, fmt.Sprintf("[dynamo]\nbackend = %q\ndiscovery = \"etcd\"\nevent_plane = \"nats\"\n[dynamo.prefill_worker]\nworkers_per_node = 16\n"+
			"[dynamo.prefill_worker.args]\ntensor-parallel-size = 1\n[dynamo.decode_worker]\nworkers_per_node = 16\n",
			backend),
			plan.Cluster{Nodes: 1, GPUsPerNode: 32})
		require.NoError(t, err)
		seen := map[int]string{}
		for _, p := range s.Ports {
			for n := p.At(0); n < p.At(0)+p.Count; n++ {
				require.Empty(t, seen[n], "%s: %s and %s are both %d", backend, p.Name, seen[n], n)
				seen[n] = p.Name
			}
		}
		require.Contains(t, argv(roleOf(t, s, etcd)), "--advertise-client-urls http://${addr:etcd}:${port:etcd}")
		require.Contains(t, argv(roleOf(t, s, etcd)), "--data-dir /run/etcd")
	}
}

// A role is told by the flag that the version has.
//
// covers: P-21, P-22
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		backend, version, prefill, decode, aggregated string
	}{
		{"vllm", "1.6.1", "python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --disaggregation-mode prefill --kv-transfer-config " +
			`{"kv_connector":"NixlConnector","kv_role":"kv_both"}`,
			"python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --disaggregation-mode decode --kv-transfer-config " +
				`{"kv_connector":"NixlConnector","kv_role":"kv_both"}`,
			"python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B"},
		{"vllm", "0.9.0", "python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --is-prefill-worker",
			"python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B", "python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B"},
		{"sglang", "1.6.1", "python3 -m dynamo.sglang --model-path Qwen/Qwen3-0.6B --served-model-name Qwen/Qwen3-0.6B " +
			"--disaggregation-mode prefill --disaggregation-bootstrap-port ${port:prefill_bootstrap}",
			"python3 -m dynamo.sglang --model-path Qwen/Qwen3-0.6B --served-model-name Qwen/Qwen3-0.6B --disaggregation-mode decode",
			"python3 -m dynamo.sglang --model-path Qwen/Qwen3-0.6B --served-model-name Qwen/Qwen3-0.6B"},
		{"mocker", "1.6.1", "python3 -m dynamo.mocker --model-path Qwen/Qwen3-0.6B --model-name Qwen/Qwen3-0.6B " +
			"--disaggregation-mode prefill --bootstrap-ports ${port:prefill_bootstrap}",
			"python3 -m dynamo.mocker --model-path Qwen/Qwen3-0.6B --model-name Qwen/Qwen3-0.6B --disaggregation-mode decode",
			"python3 -m dynamo.mocker --model-path Qwen/Qwen3-0.6B --model-name Qwen/Qwen3-0.6B"},
	} {
		head := fmt.Sprintf("[dynamo]\nbackend = %q\nversion = %q\n", c.backend, c.version)
		s, err := serve(t, head+sizes(1, 1), plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Equal(t, c.prefill, argv(roleOf(t, s, "prefill")), c.backend)
		require.Equal(t, c.decode, argv(roleOf(t, s, "decode")), c.backend)
		s, err = serve(t, head+sizes(0, 1), plan.Cluster{Nodes: 1, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Equal(t, c.aggregated, argv(roleOf(t, s, "worker")), c.backend)
	}
}

// The commands of CloudAI's files work for the version that the image names, whose options have
// changed.
//
// covers: P-24
func TestCommandsByVersion(t *testing.T) {
	args := func(tag string) string {
		return fmt.Sprintf("docker_image_url = \"nvcr.io/nvidia/ai-dynamo/vllm-runtime:%s\"\n[dynamo]\n"+
			"ingress-cmd = \"python -m dynamo.frontend --router-mode kv --router-reset-states\"\n"+
			"[dynamo.prefill_worker]\ncmd = \"python3 -m dynamo.vllm --is-prefill-worker\"\n", tag)
	}
	s, err := serve(t, args("1.1.1"), plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "python -m dynamo.frontend --router-mode kv --router-reset-states --http-port ${port:frontend}",
		argv(roleOf(t, s, frontend)))
	require.Contains(t, argv(roleOf(t, s, "prefill")),
		"dynamo.vllm --model Qwen/Qwen3-0.6B --disaggregation-mode prefill")
	require.Equal(t, "nats", env(roleOf(t, s, "prefill"), "DYN_EVENT_PLANE"), "the default of 1.1")
	require.Equal(t, "nats://${addr:nats}:${port:nats}", env(roleOf(t, s, "prefill"), "NATS_SERVER"))

	s, err = serve(t, args("1.6.1"), plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, "python -m dynamo.frontend --router-mode kv --http-port ${port:frontend}",
		argv(roleOf(t, s, frontend)))
	require.Contains(t, strings.Join(s.Notes, "\n"),
		"--router-reset-states is left out: Dynamo 1.6.1 has no such option")
	require.Equal(t, "zmq", env(roleOf(t, s, "prefill"), "DYN_EVENT_PLANE"))
	require.Empty(t, env(roleOf(t, s, "prefill"), "NATS_SERVER"))

	_, err = serve(t, strings.Replace(args("1.6.1"), "--router-reset-states", "--durable-kv-events", 1),
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "Dynamo 1.6.1 has no option --durable-kv-events")
}

// Only what the planes need is started.
//
// covers: P-19
func TestPlanes(t *testing.T) {
	for _, c := range []struct {
		head  string
		nodes int
		want  string
	}{
		{"", 1, ""}, {"", 2, "etcd"},
		{"discovery = \"file\"\n", 2, ""},
		{"event_plane = \"nats\"\n", 1, "nats"},
		{"request_plane = \"nats\"\ndiscovery = \"etcd\"\n", 1, "etcd nats"},
		{"version = \"1.1.1\"\n", 1, "etcd nats"},
		{"version = \"0.7.0\"\n", 1, "etcd nats"},
	} {
		s, err := serve(t, "[dynamo]\n"+c.head, plan.Cluster{Nodes: c.nodes, GPUsPerNode: 4})
		require.NoError(t, err, c.head)
		var helpers []string
		for _, r := range s.Roles {
			if r.Helper {
				helpers = append(helpers, r.Name)
			}
		}
		require.Equal(t, c.want, strings.Join(helpers, " "), "%q", c.head)
	}
	_, err := serve(t, "[dynamo]\ndiscovery = \"files\"\n", plan.Cluster{Nodes: 1, GPUsPerNode: 2})
	require.ErrorContains(t, err, `unknown discovery "files"`)
}

// A frontend is ready once all instances have registered.
func TestReadiness(t *testing.T) {
	s, err := serve(t, "[dynamo]\nbackend = \"mocker\"\n[dynamo.prefill_worker]\nworkers_per_node = 2\n"+
		"[dynamo.decode_worker]\nworkers_per_node = 3\n[dynamo.decode_worker.args]\nnum-workers = 2",
		plan.Cluster{Nodes: 1})
	require.NoError(t, err)
	require.Equal(t, plan.Endpoint{Port: frontend, Path: "/health",
		Instances: map[string]int{"prefill": 2, "backend": 6}, Model: "Qwen/Qwen3-0.6B"}, roleOf(t, s, frontend).Health)
	require.True(t, s.SimulatedEngine)
}

// Sizes and commands that cannot be are refused, wherever they stand.
func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"[dynamo.decode_worker.args]\ntensor-parallel-size = 4611686018427387904": "decode_worker.args.tensor_parallel_size is 4611686018427387904, must be 1 to 65536",
		"[dynamo.decode_worker.args]\ntp = -4":                                    "decode_worker.args.tp is -4, must be 1 to 65536",
		"[dynamo.decode_worker.args]\npp = \"two\"":                               "decode_worker.args.pp is \"two\", must be 1 to 65536",
		"[dynamo.decode_worker.args]\ntp = 2\ntensor_parallel_size = 4":           "which are one option",
		"[dynamo.decode_worker]\nworkers_per_node = 1000000":                      "must be 1 to 16",
		"[dynamo.decode_worker]\nnum_nodes = -1":                                  "must be a number of nodes",
		"[dynamo.decode_worker]\nextra_args = 5":                                  "decode_worker.extra_args must be a text",
		"[dynamo.decode_worker]\nextra_args = \"--tensor-parallel-size 2\"":       "decode_worker.extra_args has --tensor-parallel-size",
		"[dynamo.decode_worker]\ncmd = \"python3 -m dynamo.vllm --model x\"":      "decode_worker.cmd has --model",
		"[dynamo.decode_worker]\ncmd = \"A=1 python3\"":                           "has no program",
		"[dynamo]\netcd_cmd = \"etcd 'x\"":                                        "the command \"etcd 'x\"",
		"[dynamo]\ningress_cmd = \" \"":                                           "has no program",
		"[dynamo]\nversion = \"main\"":                                            "dynamo.version \"main\" is no version",
		"[dynamo]\nversion = \"0.7.0\"\ndiscovery = \"file\"":                     "Dynamo 0.7.0 has no choice of discovery",
	} {
		_, err := serve(t, args, plan.Cluster{Nodes: 2, GPUsPerNode: 8})
		require.ErrorContains(t, err, want, args)
	}
	s, err := serve(t, "[dynamo]\nversion = \"v1.1.1\"", plan.Cluster{Nodes: 2, GPUsPerNode: 8})
	require.NoError(t, err)
	require.Equal(t, "1.1.1", s.Config[frontend].(map[string]any)["version"])
	s, err = serve(t, "[dynamo]\n", plan.Cluster{Nodes: 2})
	require.NoError(t, err, "a site that does not say how many GPUs a node has")
	require.Contains(t, strings.Join(s.Notes, "\n"), "the image says no version of Dynamo")
}

// On a machine that others use too, a worker takes the GPUs that it needs.
func TestFrugal(t *testing.T) {
	s, err := serve(t, "[dynamo.prefill_worker]\nnum_nodes = 0", plan.Cluster{Nodes: 1, GPUsPerNode: 4, Shared: true})
	require.NoError(t, err)
	require.Equal(t, "0", env(roleOf(t, s, "worker"), "CUDA_VISIBLE_DEVICES"))
	s, err = serve(t, "[dynamo]\nbackend = \"sglang\"\n[dynamo.prefill_worker]\nnum_nodes = 0\n[dynamo.decode_worker.args]\ntp = 4\ndp = 4\nenable-dp-attention = true",
		plan.Cluster{Nodes: 1, GPUsPerNode: 4})
	require.NoError(t, err, "dp shares the ranks of tp")
	require.Equal(t, "0,1,2,3", env(roleOf(t, s, "worker"), "CUDA_VISIBLE_DEVICES"))
}

// A router that knows caches is told what they hold, and AIPerf reads the counters of every
// process.
//
// covers: P-13, U-34
func TestEventsAndCounters(t *testing.T) {
	const kv = "ingress_cmd = \"python3 -m dynamo.frontend --router-mode kv\"\n"
	s, err := serve(t, "[dynamo]\n"+kv+"[dynamo.dcgm_exporter]\nenabled = true\n[dynamo.prefill_worker]\nworkers_per_node = 2\nnum_nodes = 2\n"+
		"[dynamo.decode_worker]\nworkers_per_node = 2\nnum_nodes = 2", plan.Cluster{Nodes: 4, GPUsPerNode: 2})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "prefill_0")), `"endpoint":"tcp://*:${port:prefill_0_events}"`)
	require.NotContains(t, argv(roleOf(t, s, "decode_0")), "kv-events-config")
	require.Len(t, s.MetricsURLs, 1+8+4)
	seen := map[string]bool{}
	for _, u := range s.MetricsURLs {
		require.False(t, seen[u.String()], u)
		seen[u.String()] = true
	}
	s, err = serve(t, "[dynamo]\n[dynamo.dcgm_exporter]\nenabled = true\n"+sizes(2, 2),
		plan.Cluster{Nodes: 2, GPUsPerNode: 2})
	require.NoError(t, err)
	require.Len(t, s.MetricsURLs, 1+4+2, "two roles share two nodes, each of which has one exporter")
	s, err = serve(t, "[dynamo]\nbackend = \"sglang\"\n[dynamo.dcgm_exporter]\nenabled = true\n[dynamo.prefill_worker]\nnum_nodes = 0\n"+
		"[dynamo.decode_worker]\nnum_nodes = 2\nnodes_per_worker = 2\nargs.tp = 2", plan.Cluster{Nodes: 3, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Len(t, s.MetricsURLs, 1+1+2, "each node of a worker has an exporter; the third has no worker")
	require.Equal(t, []string{"http://${addr:dcgm_exporter}:${port:dcgm_exporter}/metrics",
		"http://${addr:dcgm_exporter+1}:${port:dcgm_exporter}/metrics"}, []string{s.MetricsURLs[2].String(), s.MetricsURLs[3].String()})
	s, err = serve(t, "[dynamo]\n", plan.Cluster{Nodes: 2, GPUsPerNode: 2})
	require.NoError(t, err)
	require.NotContains(t, argv(roleOf(t, s, "prefill")), "kv-events-config", "round robin asks for none")
}

// Prefill of the mocker that stands for several workers has a port for each.
func TestMockerPorts(t *testing.T) {
	s, err := serve(t, "[dynamo]\nbackend = \"mocker\"\n[dynamo.prefill_worker.args]\nnum-workers = 2",
		plan.Cluster{Nodes: 1})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "prefill")),
		"--bootstrap-ports ${port:prefill_bootstrap},${port:prefill_bootstrap_1}")
}

// Values reach a worker as one word each, whatever is in them.
//
// covers: P-3, U-3, U-4, U-8
func TestArguments(t *testing.T) {
	args := `[dynamo.prefill_worker]
num_nodes = 0
[dynamo.decode_worker]
extra-args = "--trust-remote-code --name 'a b'"
[dynamo.decode_worker.args]
kv-transfer-config = '{"kv_connector": "It''s $HOME [x] * "}'
enable-expert-parallel = true
enable_prefix_caching = false
lora_modules = ["a=b", "c d"]
hf-overrides = { rope = { factor = 2 }, names = ["x"] }
`
	args = strings.ReplaceAll(args, "''", "`")
	s, err := serve(t, args, plan.Cluster{Nodes: 1, GPUsPerNode: 1})
	require.NoError(t, err)
	var words []string
	for _, w := range roleOf(t, s, "worker").Step.Argv {
		words = append(words, w.String())
	}
	require.Equal(t, []string{"python3", "-m", "dynamo.vllm", "--model", "Qwen/Qwen3-0.6B",
		"--kv-transfer-config", "{\"kv_connector\": \"It`s $HOME [x] * \"}", "--enable-expert-parallel", "--no-enable-prefix-caching",
		"--lora-modules", "a=b", "c d", "--hf-overrides", `{"rope":{"factor":2},"names":["x"]}`,
		"--trust-remote-code", "--name", "a b"}, words)
	again, err := serve(t, args, plan.Cluster{Nodes: 1, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, s.Roles, again.Roles, "the order of options is that of the file")
}

// What CloudAI's files say of a role is not said twice, and a fixed port is the base of one that is
// free.
func TestRolesOfCloudAI(t *testing.T) {
	s, err := serve(t, "[dynamo]\nbackend = \"sglang\"\n[dynamo.prefill_worker.args]\ndisaggregation-mode = \"prefill\"\n"+
		"disaggregation-bootstrap-port = 12345\n[dynamo.decode_worker.args]\ndisaggregation-mode = \"decode\"\n"+
		"disaggregation-bootstrap-port = 12345\n", plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	got := argv(roleOf(t, s, "prefill"))
	require.Equal(t, 1, strings.Count(got, "--disaggregation-mode prefill"), got)
	require.Contains(t, got, "--disaggregation-bootstrap-port ${port:prefill_bootstrap}")
	require.NotContains(t, got, "12345")
	require.Equal(t, 1, strings.Count(argv(roleOf(t, s, "decode")), "--disaggregation-"))
	at := slices.IndexFunc(s.Ports, func(p plan.Port) bool { return p.Name == "prefill_bootstrap" })
	require.Equal(t, 12345, s.Ports[at].Base)
	_, err = serve(t, "[dynamo.decode_worker.args]\ndisaggregation-mode = \"prefill\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "decode_worker.args.disaggregation_mode: profllm sets this option itself")
}

// The model of the service wins over one among the arguments.
//
// covers: U-2, U-5
func TestModelWins(t *testing.T) {
	for backend, want := range map[string]string{
		"vllm": "--model org/m", "sglang": "--model-path org/m --served-model-name org/m", "mocker": "--model-path org/m --model-name org/m",
	} {
		s, err := serve(t, fmt.Sprintf("[dynamo]\nbackend = %q\nmodel = \"org/m\"\n[dynamo.prefill_worker]\nnum-nodes = 0\n"+
			"[dynamo.decode_worker.args]\nmodel = \"x\"\nmodel-path = \"y\"\nserved_model_name = \"z\"", backend),
			plan.Cluster{Nodes: 1, GPUsPerNode: 1})
		require.NoError(t, err)
		got := argv(roleOf(t, s, "worker"))
		require.Contains(t, got, want)
		require.Equal(t, 0, strings.Count(got, " x")+strings.Count(got, " y")+strings.Count(got, " z"), got)
	}
}

// Both spellings of a key are one key.
//
// covers: U-1
func TestSpellings(t *testing.T) {
	for _, key := range []string{"num-nodes", "num_nodes"} {
		s, err := serve(t, "[dynamo.prefill_worker]\n"+key+" = 0\n", plan.Cluster{Nodes: 1, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Equal(t, "worker 0", workers(s))
	}
	_, err := serve(t, "[dynamo.prefill_worker]\nnum-nodes = 0\nnum_nodes = 1\n",
		plan.Cluster{Nodes: 1, GPUsPerNode: 1})
	require.ErrorContains(t, err, "t.toml:3:1: num_nodes is written a second time, with another spelling (t.toml:2:1)")
}

// What nobody reads is a mistake, and the key that was meant is named.
func TestUnknownKeys(t *testing.T) {
	for args, want := range map[string]string{
		"[dynamo]\nmodle = \"x\"":                                `unknown key "modle"`,
		"[dynamo.prefill_worker]\nargz = 1":                      `unknown key "argz"`,
		"[dynamo]\n[lmcache]\na = 1\n[lmcache_controller]\ncm=1": `unknown key "cm"`,
		"[dynamo]\nbackend = \"vlm\"":                            `unknown backend "vlm"`,
		"[dynamo]\n[dynamo.dcgm_exporter]\nprt = 1":              `unknown key "prt"`,
		"[dynamo]\nconnector = \"foo\"":                          `unknown connector "foo"`,
	} {
		_, err := New(test(t, args), false)
		require.ErrorContains(t, err, want)
	}
}

// The three forms of connectors are one, and what Dynamo no longer takes by name is told in vLLM's
// words.
//
// covers: U-6
func TestConnectors(t *testing.T) {
	const both = `{"kv_connector":"PdConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":` +
		`"LMCacheConnectorV1","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]},` +
		`"kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"}`
	for _, form := range []string{`"lmcache nixl"`, `["lmcache", "nixl"]`, `"lmcache,nixl"`} {
		s, err := serve(t, "[dynamo.prefill_worker.args]\nconnector = "+form, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Contains(t, argv(roleOf(t, s, "prefill")), "--kv-transfer-config "+both)
		require.NotContains(t, argv(roleOf(t, s, "prefill")), "--connector")
		require.Contains(t, argv(roleOf(t, s, "decode")), "NixlConnector")
		s, err = serve(t, "[dynamo]\nversion = \"0.9.0\"\nconnector = "+form, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
		require.NoError(t, err)
		require.Contains(t, argv(roleOf(t, s, "decode")), "--connector lmcache nixl")
	}
	s, err := serve(t, "[dynamo.prefill_worker.args]\nconnector = \"nixl\"\nkv-transfer-config = \"{}\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.Notes, "\n"), "connector has no effect: kv_transfer_config says it")
}

const lmcache = `[dynamo]
[lmcache]
chunk_size = 256
zeta = "yes"
local_cpu = true
lmcache_worker_ports = [8788, 8789]
controller_pull_url = "{frontend_node}:8300"
braces = "{{frontend_node}}"
[lmcache.extra_config]
nixl_path = "{storage_cache_dir}"
out = "{results_dir}/x"
max = 6.5
[lmcache_controller]
cmd = "lmcache_controller --monitor-ports {\"pull\":8300}"
`

// LMCache's file keeps the order and the types of the table, and names what only the job knows by
// marks.
//
// covers: P-11, U-26, U-28
func TestLMCache(t *testing.T) {
	s, err := serve(t, lmcache, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, plan.File{Name: lmcacheFile, Text: plan.Text(`chunk_size: 256
zeta: "yes"
local_cpu: true
lmcache_worker_ports:
  - 8788
  - 8789
controller_pull_url: ${addr:frontend}:8300
braces: '{frontend_node}'
extra_config:
  nixl_path: /tmp/profllm-exp_1/lmcache
  out: /run/x
  max: 6.5
`)}, s.Files[0])
	require.Equal(t, "/run/files/"+lmcacheFile, env(roleOf(t, s, "prefill"), "LMCACHE_CONFIG_FILE"))
	require.Equal(t, `lmcache_controller --monitor-ports {"pull":8300}`, argv(roleOf(t, s, "lmcache_controller")))
	at := slices.IndexFunc(s.Setup, func(x plan.Step) bool { return x.Name == "lmcache_storage" })
	require.GreaterOrEqual(t, at, 0, "the folder is made")
	require.Equal(t, plan.Slice{Count: 2}, s.Setup[at].Nodes)

	s, err = serve(t, "storage_cache_dir = \"/mnt/fast\"\n"+lmcache, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	text, _ := s.Files[0].Text.Literal()
	require.Contains(t, text, "nixl_path: /mnt/fast/profllm-exp_1/lmcache\n")
	require.Contains(t, strings.Join(s.Notes, "\n"), "the run's folder below /mnt/fast stays on the nodes")
	require.Equal(t, []string{"/mnt/fast:/mnt/fast"}, s.Mounts, "containers see it")

	_, err = serve(t, strings.ReplaceAll(lmcache, "results_dir", "rezults")+"\n[lmcache.more]\na = \"{Also}\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "lmcache has unknown placeholders: Also, rezults")
}

// In a rehearsal, every program is a stand-in, at the places, with the ports and the options of the
// real one. No shell text runs that was written for the image.
func TestRehearsal(t *testing.T) {
	const args = "startup_cmd = \"mount /x\"\n[dynamo]\ningress_cmd = \"python -m dynamo.frontend\"\nnode_setup_cmd = \"ucx_info\"\n" +
		"[dynamo.dcgm_exporter]\nenabled = true\n[lmcache]\npath = \"{storage_cache_dir}\"\n[lmcache_controller]\ncmd = \"controller\"\n" +
		"[aiperf]\nsetup_cmd = \"pip install x\"\nbetween_phase_cmd = \"curl x\"\n"
	cl := plan.Cluster{Nodes: 2, GPUsPerNode: 1}
	real, err := serve(t, args, cl)
	require.NoError(t, err)
	cl.Simulated = true
	s, err := serve(t, args, cl)
	require.NoError(t, err)
	require.Equal(t, real.Ports, s.Ports)
	require.Len(t, s.Roles, len(real.Roles))
	for i, r := range s.Roles {
		want := argv(real.Roles[i])
		switch {
		case r.Helper:
			require.Regexp(t, `^profllm sim helper (--port \$\{port:\w+\} )*-- `+regexp.QuoteMeta(want)+"$", argv(r))
		case r.Engine:
			require.Contains(t, argv(r), "-- profllm sim python3 -m dynamo.vllm ", "startup_cmd may adapt the worker's files")
			require.Equal(t, want, strings.Replace(argv(r), "profllm sim ", "", 1))
		default:
			require.Equal(t, "profllm sim "+want, argv(r))
		}
		require.Equal(t, real.Roles[i].Health, r.Health)
	}
	require.Equal(t, "/run/discovery", env(roleOf(t, s, frontend), "DYN_FILE_KV"), "stand-ins of etcd store nothing")
	require.Empty(t, env(roleOf(t, real, frontend), "DYN_FILE_KV"))
	for _, step := range s.Setup {
		require.True(t, strings.HasPrefix(argv(plan.Role{Step: step}), "profllm sim bash -c "), step.Name)
	}
	require.Len(t, s.Setup, 2, "no folder for caches that keep nothing")
	notes := strings.Join(s.Notes, "\n")
	for _, key := range []string{"setup_cmd", "between_phase_cmd", "startup_cmd is parsed and", "node_setup_cmd is parsed and"} {
		require.Contains(t, notes, key+" does not run in a rehearsal")
	}
}

// The program that asks for accuracy is AIPerf's stand-in, without the text before it.
func TestRehearsedAccuracy(t *testing.T) {
	for entry, want := range map[string]string{
		"": "--x {model}", "entrypoint = \"/opt/bin/aiperf profile\"\n": "--x {model}",
		"entrypoint = \"python3 ask.py\"\n": "--accuracy-benchmark simulated --model {model} --url {url} --artifact-dir {artifact_dir}",
	} {
		p, err := Prepared(test(t, "[dynamo]\n[aiperf_accuracy]\n"+entry+"setup_cmd = \"pip install x\"\ncli = \"--x {model}\""))
		require.NoError(t, err)
		require.Equal(t, map[string]any{"entrypoint": "aiperf profile", "cli": want}, Rehearsed(p).Plain())
	}
}

// A controller without LMCache controls nobody.
func TestControllerAlone(t *testing.T) {
	s, err := serve(t, "[dynamo]\n[lmcache_controller]\ncmd = \"lmcache_controller\"",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, strings.Join(s.Notes, "\n"), "lmcache_controller has no effect")
	for _, r := range s.Roles {
		require.NotEqual(t, "lmcache_controller", r.Name)
	}
}

// HiCache is SGLang's.
func TestHiCache(t *testing.T) {
	const table = "[hicache.plugin.posix]\nactive = true\nuse_uring = \"false\"\n"
	s, err := serve(t, "[dynamo]\nbackend = \"sglang\"\n"+table, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Contains(t, argv(roleOf(t, s, "decode")), "--hicache-storage-backend-extra-config @/run/files/"+hicacheFile)
	text, _ := s.Files[0].Text.Literal()
	require.Contains(t, text, "[plugin.posix]")
	_, err = serve(t, "[dynamo]\n"+table, plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.ErrorContains(t, err, "hicache is a cache of SGLang, but the backend is vllm")
}

// What runs before the service, and the exporter beside it.
func TestBeside(t *testing.T) {
	s, err := serve(t, "startup_cmd = \"mount /x\"\nstartup_cmd_docker_image = \"i:1\"\n[dynamo]\nnode-setup-cmd = \"hostname | cat\"\n"+
		"[dynamo.dcgm_exporter]\nenabled = true\nimage-url = \"e:2\"\nport = 9500",
		plan.Cluster{Nodes: 2, GPUsPerNode: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"startup i:1 false", "node_setup  true"}, []string{
		fmt.Sprint(s.Setup[0].Name, " ", s.Setup[0].Image, " ", s.Setup[0].Optional),
		fmt.Sprint(s.Setup[1].Name, " ", s.Setup[1].Image, " ", s.Setup[1].Optional)})
	e := roleOf(t, s, exporterName)
	require.Equal(t, "e:2", e.Step.Image)
	require.Equal(t, plan.Slice{Count: 2}, e.Nodes)
	require.Equal(t, ":${port:dcgm_exporter}", env(e, "DCGM_EXPORTER_LISTEN"))
	require.Equal(t, plan.Endpoint{Port: exporterName, Path: "/metrics"}, e.Health)
}
