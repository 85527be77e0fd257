// Package vllm turns a vLLM test into roles: one server, one server over many
// nodes on Ray, or prefill and decode servers behind a proxy.
//
// It writes commands and decides slices, GPUs, ports and readiness endpoints. It
// measures nothing and knows no scheduler.
package vllm

import (
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of a vLLM test.
type Config struct {
	DockerImageURL   string        `toml:"docker_image_url"`   // Image: host#org/name:tag, or a path to a .sqsh file.
	Model            string        `toml:"model"`              // Hugging Face id or path; default Qwen/Qwen3-0.6B.
	Port             int           `toml:"port"`               // Base of the client-facing port; default 8300. Prefill is 100 above, decode 200.
	Host             string        `toml:"host"`               // Address the servers bind; default 0.0.0.0.
	BenchHost        string        `toml:"bench_host"`         // Address the clients use; default the serving head node.
	Healthcheck      *string       `toml:"healthcheck"`        // Readiness path of the server, or of the proxy (CloudAI's legacy rule).
	ServeHealthcheck *string       `toml:"serve_healthcheck"`  // Readiness path of the servers; default /health.
	ProxyHealthcheck *string       `toml:"proxy_healthcheck"`  // Readiness path of the proxy; default /healthcheck.
	ServeWaitSeconds *int          `toml:"serve_wait_seconds"` // Time to become ready, each role; default 300.
	Prefill          *source.Table `toml:"prefill"`            // Present: disaggregated serving; the prefill role.
	Decode           *source.Table `toml:"decode"`             // The decode role, or the arguments of the single server.
	ProxyScript      *string       `toml:"proxy_script"`       // A proxy in the container; default profllm's own.
}

// role holds the keys of [cmd_args.prefill] and [cmd_args.decode] that are not
// options of the engine.
type role struct {
	GPUIDs      *source.Value `toml:"gpu_ids"`      // Local GPU ids on each node: "0,1" or "0-3".
	NumNodes    *source.Value `toml:"num_nodes"`    // Size of the role in nodes; with replicas, of one instance.
	Replicas    *source.Value `toml:"replicas"`     // Instances of the role behind the proxy (profllm); default 1.
	NIXLThreads *source.Value `toml:"nixl_threads"` // num_threads of the NIXL connector.
	RayHead     *source.Table `toml:"ray_head"`     // Options of `ray start` on the head.
	RayWorker   *source.Table `toml:"ray_worker"`   // Options of `ray start` on the workers.

	kind     string
	table    *source.Table
	engine   *source.Table // options of `vllm serve`
	gpus     []int         // explicit ids, nil if absent
	nodes    int           // explicit size of an instance, 0 if absent
	replicas int
}

// Defaults of CloudAI's vLLM workload.
const (
	defaultModel = "Qwen/Qwen3-0.6B"
	defaultPort  = 8300
	defaultHost  = "0.0.0.0"
	defaultWait  = 300 * time.Second

	roleStride = 100  // between the ports of proxy, prefill and decode
	nixlPort   = 5557 // side channel of the first engine
	rayPort    = 6379 // GCS of the first role; Ray's own default
)

// Workload is a decoded vLLM test.
type Workload struct {
	cfg             Config
	pos             source.Pos
	args            *source.Table
	prefill, decode role
	wait            time.Duration
	notes           []string
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	w := &Workload{args: t.CmdArgs, pos: t.Pos}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	w.defaults()
	w.prefill = decodeRole("prefill", w.cfg.Prefill, &c)
	w.decode = decodeRole("decode", w.cfg.Decode, &c)
	w.extra(t.ExtraCmdArgs, &c)
	w.check(needImage, &c)
	return w, c.Err()
}

func (w *Workload) defaults() {
	if w.cfg.Model == "" {
		w.cfg.Model = defaultModel
	}
	if w.cfg.Port == 0 {
		w.cfg.Port = defaultPort
	}
	if w.cfg.Host == "" {
		w.cfg.Host = defaultHost
	}
	w.wait = defaultWait
	if w.cfg.ServeWaitSeconds != nil {
		w.wait = time.Duration(*w.cfg.ServeWaitSeconds) * time.Second
	}
}

func (w *Workload) disaggregated() bool { return w.cfg.Prefill != nil }

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.cfg.Model, Disaggregated: w.disaggregated(),
		ClientHost: w.cfg.BenchHost, ClientNodes: plan.Slice{Offset: 0, Count: 1}, Config: map[string]any{}, Notes: w.notes,
		// vLLM has the endpoint in its development mode only (vllm/envs.py, 0.32).
		Cache: plan.Cache{Path: "/reset_prefix_cache", Env: []plan.Var{{Name: "VLLM_SERVER_DEV_MODE", Value: plan.Text("1")}}},
	}
	all := cl.VisibleGPUs
	if all == nil {
		all = plan.CountGPUs(max(cl.GPUsPerNode, 1))
	}
	if !w.disaggregated() {
		if cl.VisibleGPUs == nil && w.decode.gpus != nil {
			all = w.decode.gpus
		}
		w.aggregated(&s, plan.Slice{Offset: 0, Count: cl.Nodes}, all)
		return s, nil
	}
	list, err := w.place(cl.Nodes, all)
	if err != nil {
		return s, err
	}
	w.split(&s, list, all)
	return s, nil
}

// aggregated adds the single role "serve" on the whole allocation.
func (w *Workload) aggregated(s *plan.Service, nodes plan.Slice, gpus []int) {
	health := "/health"
	if w.cfg.Healthcheck != nil {
		health = *w.cfg.Healthcheck
	}
	if w.cfg.ServeHealthcheck != nil {
		health = *w.cfg.ServeHealthcheck
	}
	one := instance{role: w.decode, name: "serve", nodes: nodes, gpus: gpus}
	one.kind = "serve"
	argv := append(w.serveFixed(), serving.Options(w.decode.engine, serving.Negatable)...)
	argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber("serve")})
	s.Ports = append(s.Ports, plan.Port{Name: "serve", Base: w.cfg.Port, Step: 1, Count: 1, Role: "serve"})
	w.addServer(s, one, plan.Endpoint{Port: "serve", Path: health}, argv, nil, rayPort)
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "serve"}, "serve"
}

// split adds prefill, decode and the proxy before them. Instances on different
// nodes have the same ports; those that share one lie behind each other.
func (w *Workload) split(s *plan.Service, list []instance, all []int) {
	health := "/health"
	if w.cfg.ServeHealthcheck != nil {
		health = *w.cfg.ServeHealthcheck
	}
	// The side channels lie behind each other, one port for each GPU id, as
	// CloudAI counts them; a slot moves all of them.
	total := len(all)
	if w.prefill.gpus != nil {
		total = len(w.prefill.gpus) + len(w.decode.gpus)
	}
	s.Ports = append(s.Ports, plan.Port{Name: "proxy", Base: w.cfg.Port, Step: 1, Count: 1, Role: list[0].name})
	for _, one := range list {
		kind, kv := 0, "kv_producer"
		if one.kind == "decode" {
			kind, kv = 1, "kv_consumer"
		}
		http := plan.Port{Name: one.name, Base: w.cfg.Port + (kind+1)*roleStride + one.place*2*roleStride, Step: 1, Count: 1, Role: one.name}
		nixl := plan.Port{Name: one.name + "_nixl", Base: nixlPort + kind*total + one.first, Step: 2 * total, Count: len(one.gpus), Role: one.name}
		s.Ports = append(s.Ports, http, nixl)
		argv := append(w.serveFixed(), plan.Text("--port"), plan.Word{plan.PortNumber(one.name)})
		if !one.engine.Has("kv_transfer_config") {
			argv = append(argv, plan.Text("--kv-transfer-config"), plan.Text(connector(kv, one.NIXLThreads)))
		}
		argv = append(argv, serving.Options(one.engine, serving.Negatable)...)
		env := []plan.Var{
			{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", Value: plan.Word{plan.Addr(one.name)}},
			{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(nixl.Name)}},
		}
		w.addServer(s, one, plan.Endpoint{Port: one.name, Path: health}, argv, env, rayPort+kind*1000)
	}
	w.addProxy(s, list)
}

func (w *Workload) serveFixed() []plan.Word {
	return plan.Texts("vllm", "serve", w.cfg.Model, "--host", w.cfg.Host)
}

func connector(kvRole string, threads *source.Value) string {
	extra := ""
	if threads != nil {
		extra = fmt.Sprintf(`,"kv_connector_extra_config":{"num_threads":%v}`, threads.Plain())
	}
	return `{"kv_connector":"NixlConnector","kv_role":"` + kvRole + `"` + extra + `}`
}

// addServer adds a role that runs `vllm serve`, on Ray when it has many nodes.
func (w *Workload) addServer(s *plan.Service, one instance, health plan.Endpoint, argv []plan.Word, env []plan.Var, ray int) {
	inner := 0
	if one.nodes.Count > 1 {
		if !one.engine.Has("distributed_executor_backend") && !one.engine.Has("distributed-executor-backend") {
			argv = append(argv, plan.Texts("--distributed-executor-backend", "ray")...)
		}
		port := plan.Port{Name: one.name + "_ray", Base: ray, Step: 1, Count: 1, Role: one.name}
		s.Ports = append(s.Ports, port)
		lead := w.rayArgs(one, port.Name)
		argv, inner = append(lead, argv...), len(lead)
	}
	env = append([]plan.Var{
		{Name: "PROFLLM_ROLE", Value: plan.Text(one.name)},
		{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(plan.FormatGPUs(one.gpus))},
	}, env...)
	if one.nodes.Count == 1 {
		env = append(env, plan.Var{Name: "VLLM_HOST_IP", Value: plan.Word{plan.Addr(one.name)}})
	}
	r := plan.Role{
		Name: one.name, Replica: one.replica, Nodes: one.nodes, GPUs: one.gpus, Engine: true, Health: health, Timeout: plan.Seconds(w.wait),
		TP: one.size(tp), PP: one.size(pp), DP: one.size(dp),
		Step: plan.Step{Name: one.name, Nodes: one.nodes, Container: true, Env: env, Argv: argv, Inner: inner, Log: path.Join("logs", one.name+"-%t.log")},
	}
	if one.kind != one.name {
		r.Kind = one.kind
	}
	s.Config[one.kind] = one.engine.Plain()
	s.Roles = append(s.Roles, r)
}

// rayArgs is the part before `vllm serve` that forms a Ray cluster over the
// role's nodes: rank 0 becomes the head and then the server, the others join.
func (w *Workload) rayArgs(r instance, port string) []plan.Word {
	argv := append([]plan.Word{plan.Self()}, plan.Texts("job", "ray", "--nodes", strconv.Itoa(r.nodes.Count), "--head")...)
	argv = append(argv, plan.Word{plan.Addr(r.name)}, plan.Text("--port"), plan.Word{plan.PortNumber(port)},
		plan.Text("--timeout"), plan.Text(w.wait.String()))
	for _, side := range []struct {
		flag  string
		table *source.Table
	}{{"--head-arg", r.RayHead}, {"--worker-arg", r.RayWorker}} {
		for _, option := range rayOptions(side.table) {
			argv = append(argv, plan.Text(side.flag+"="+option))
		}
	}
	return append(argv, plan.Text("--"))
}

// addProxy adds the proxy on the first prefill head: the test's script, or ours.
func (w *Workload) addProxy(s *plan.Service, list []instance) {
	health := "/healthcheck"
	switch {
	case w.cfg.ProxyHealthcheck != nil:
		health = *w.cfg.ProxyHealthcheck
	case w.cfg.Healthcheck != nil:
		health = *w.cfg.Healthcheck
	}
	node := plan.Slice{Offset: list[0].nodes.Offset, Count: 1}
	step := plan.Step{
		Name: "proxy", Nodes: node, Log: "logs/proxy-%t.log",
		Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text("proxy")}},
	}
	if w.cfg.ProxyScript == nil {
		step.Argv = append([]plan.Word{plan.Self()}, plan.Texts("proxy", "--host", w.cfg.Host, "--port")...)
	} else {
		step.Container = true
		step.Argv = plan.Texts("python3", *w.cfg.ProxyScript, "--host", w.cfg.Host, "--port")
	}
	step.Argv = append(step.Argv, plan.Word{plan.PortNumber("proxy")})
	for _, kind := range []struct{ name, script string }{{"prefill", "--prefiller"}, {"decode", "--decoder"}} {
		var urls, hosts, ports []plan.Word
		for _, one := range list {
			if one.kind == kind.name {
				urls = append(urls, plan.Text("--"+one.kind), plan.Concat("http://", plan.Addr(one.name), ":", plan.PortNumber(one.name)))
				hosts = append(hosts, plan.Word{plan.Addr(one.name)})
				ports = append(ports, plan.Word{plan.PortNumber(one.name)})
			}
		}
		if w.cfg.ProxyScript == nil {
			step.Argv = append(step.Argv, urls...)
			continue
		}
		// vLLM's toy_proxy_server.py takes lists: one host and one port for each instance.
		step.Argv = append(append(step.Argv, plan.Text(kind.script+"-hosts")), hosts...)
		step.Argv = append(append(step.Argv, plan.Text(kind.script+"-ports")), ports...)
	}
	s.Roles = append(s.Roles, plan.Role{
		Name: "proxy", Nodes: node, Health: plan.Endpoint{Port: "proxy", Path: health}, Timeout: plan.Seconds(w.wait), Step: step,
	})
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "proxy"}, "proxy"
}
