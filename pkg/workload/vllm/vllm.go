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
	"strings"
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
	NumNodes    *source.Value `toml:"num_nodes"`    // Size of the role in nodes.
	NIXLThreads *source.Value `toml:"nixl_threads"` // num_threads of the NIXL connector.
	RayHead     *source.Table `toml:"ray_head"`     // Options of `ray start` on the head.
	RayWorker   *source.Table `toml:"ray_worker"`   // Options of `ray start` on the workers.

	name   string
	table  *source.Table
	engine *source.Table // options of `vllm serve`
	gpus   []int         // explicit ids, nil if absent
	nodes  int           // explicit size, 0 if absent
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

func decodeRole(name string, t *source.Table, c *source.Complaints) role {
	r := role{name: name, table: t, engine: source.NewTable(source.Pos{})}
	if t == nil {
		return r
	}
	own := source.Fields(role{})
	known := source.NewTable(t.Pos)
	for _, k := range own {
		if v := t.Get(k); v != nil {
			known.Set(k, v)
		}
	}
	c.Add(source.Decode(known, &r))
	r.engine = t.Without(own...)
	sweep := func(v *source.Value) bool {
		if v == nil {
			return false
		}
		if _, list := v.Any.([]*source.Value); list {
			c.Add(source.Errorf(v.Pos, "a list makes a sweep, and sweeps are not supported yet").Hintf("write one value"))
			return true
		}
		return false
	}
	if v := r.GPUIDs; v != nil && !sweep(v) {
		s, ok := v.Any.(string)
		if !ok {
			c.Addf(v.Pos, "%s.gpu_ids must be a string such as \"0,1\", not the %s %v", name, v.Kind(), v.Plain())
		} else if s != "" {
			ids, err := plan.ParseGPUs(s)
			if err != nil {
				c.Addf(v.Pos, "%s.gpu_ids: %v", name, err)
			}
			r.gpus = ids
		}
	}
	if v := r.NumNodes; v != nil && !sweep(v) {
		n, ok := v.Int()
		if !ok || n < 1 {
			c.Addf(v.Pos, "%s.num_nodes must be a number of nodes, not %v", name, v.Plain())
		}
		r.nodes = int(max(n, 0))
	}
	sweep(r.NIXLThreads)
	return r
}

func (w *Workload) check(needImage bool, c *source.Complaints) {
	cfg := &w.cfg
	if cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(w.args.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	if cfg.Port < 1024 || cfg.Port > 65535-2*roleStride-plan.Slots {
		c.Addf(w.args.PosOf("port"), "cmd_args.port is %d, must be 1024-%d: the job's slot and %d for the roles are added", cfg.Port, 65535-2*roleStride-plan.Slots, 2*roleStride)
	}
	if strings.ContainsAny(cfg.BenchHost, "/ ") {
		c.Add(source.Errorf(w.args.PosOf("bench_host"), "bench_host %q must be a host, without scheme or path", cfg.BenchHost).
			Hintf("write bench_host = \"node1\""))
	}
	for key, v := range map[string]*string{"healthcheck": cfg.Healthcheck, "serve_healthcheck": cfg.ServeHealthcheck, "proxy_healthcheck": cfg.ProxyHealthcheck} {
		if v != nil && !strings.HasPrefix(*v, "/") {
			c.Add(source.Errorf(w.args.PosOf(key), "%s %q must begin with a slash", key, *v).Hintf("write %s = \"/%s\"", key, *v))
		}
	}
	if w.wait <= 0 {
		c.Addf(w.args.PosOf("serve_wait_seconds"), "serve_wait_seconds is %d, must be 1 or more", *cfg.ServeWaitSeconds)
	}
	if w.disaggregated() && (w.prefill.gpus == nil) != (w.decode.gpus == nil) {
		has, lacks := w.prefill, w.decode
		if has.gpus == nil {
			has, lacks = lacks, has
		}
		c.Add(source.Errorf(has.table.PosOf("gpu_ids"), "%s.gpu_ids is set and %s.gpu_ids is not", has.name, lacks.name).
			Hintf("set both or neither"))
	}
	for _, r := range []role{w.prefill, w.decode} {
		for _, k := range r.engine.Keys() {
			if k == "host" || k == "port" {
				c.Add(source.Errorf(r.engine.PosOf(k), "%s.%s: the plan sets the %s of every server", r.name, k, k).Hintf("set cmd_args.%s", k))
			}
		}
	}
}

func (w *Workload) disaggregated() bool { return w.cfg.Prefill != nil }

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.cfg.Model, Disaggregated: w.disaggregated(),
		ClientHost: w.cfg.BenchHost, ClientNodes: plan.Slice{Offset: 0, Count: 1}, Config: map[string]any{},
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
	p, d, err := w.slices(cl.Nodes)
	if err != nil {
		return s, err
	}
	return s, w.split(&s, p, d, all, cl.Nodes)
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
	w.decode.name = "serve"
	argv := append(w.serveFixed(), serving.Options(w.decode.engine, serving.Negatable)...)
	argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber("serve")})
	s.Ports = append(s.Ports, plan.Port{Name: "serve", Base: w.cfg.Port, Step: 1, Count: 1, Role: "serve"})
	w.addServer(s, w.decode, nodes, gpus, plan.Endpoint{Port: "serve", Path: health}, argv, nil, rayPort)
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "serve"}, "serve"
}

// slices sizes the roles: prefill takes the first nodes, decode the next. On
// one node both share it.
func (w *Workload) slices(nodes int) (p, d plan.Slice, err error) {
	pn, dn := w.prefill.nodes, w.decode.nodes
	shared := plan.Slice{Offset: 0, Count: 1}
	switch {
	case pn == 0 && dn == 0 && nodes == 1, pn == 1 && dn == 1 && nodes == 1:
		return shared, shared, nil
	case pn == 0 && dn == 0 && nodes == 2:
		return shared, plan.Slice{Offset: 1, Count: 1}, nil
	case pn == 0 && dn == 0:
		return p, d, source.Errorf(w.cfg.Prefill.Pos, "%d nodes, and neither prefill.num_nodes nor decode.num_nodes is set", nodes).
			Hintf("set both, so that they sum to %d", nodes)
	case pn == 0 || dn == 0:
		has, lacks := w.prefill, w.decode
		if has.nodes == 0 {
			has, lacks = lacks, has
		}
		return p, d, source.Errorf(has.table.PosOf("num_nodes"), "%s.num_nodes is set and %s.num_nodes is not", has.name, lacks.name).
			Hintf("set both, so that they sum to %d", nodes)
	case pn+dn != nodes:
		return p, d, source.Errorf(w.cfg.Prefill.PosOf("num_nodes"), "prefill has %d nodes and decode %d, together %d, but the test has %d", pn, dn, pn+dn, nodes).
			Hintf("set num_nodes = %d, or change a role's num_nodes", pn+dn)
	}
	return plan.Slice{Offset: 0, Count: pn}, plan.Slice{Offset: pn, Count: dn}, nil
}

// split adds prefill, decode and the proxy before them.
func (w *Workload) split(s *plan.Service, p, d plan.Slice, all []int, nodes int) error {
	pg, dg := all, all
	switch {
	case w.prefill.gpus != nil:
		pg, dg = w.prefill.gpus, w.decode.gpus
	case nodes == 1:
		pg, dg = plan.SplitGPUs(all)
		if len(pg) == 0 {
			return source.Errorf(w.cfg.Prefill.Pos, "one node with %d GPU cannot serve prefill and decode", len(all)).
				Hintf("use 2 nodes, or a node with 2 or more GPUs")
		}
	}
	health := "/health"
	if w.cfg.ServeHealthcheck != nil {
		health = *w.cfg.ServeHealthcheck
	}
	// The side channels lie behind each other, one port for each GPU id, as
	// CloudAI counts them; a slot moves all of them.
	total := len(all)
	if w.prefill.gpus != nil {
		total = len(pg) + len(dg)
	}
	s.Ports = append(s.Ports, plan.Port{Name: "proxy", Base: w.cfg.Port, Step: 1, Count: 1, Role: "prefill"})
	for i, r := range []role{w.prefill, w.decode} {
		nodes, gpus, kv := p, pg, "kv_producer"
		if r.name == "decode" {
			nodes, gpus, kv = d, dg, "kv_consumer"
		}
		nixl := plan.Port{Name: r.name + "_nixl", Base: nixlPort + i*total, Step: 2 * total, Count: len(gpus), Role: r.name}
		s.Ports = append(s.Ports, plan.Port{Name: r.name, Base: w.cfg.Port + (i+1)*roleStride, Step: 1, Count: 1, Role: r.name}, nixl)
		argv := append(w.serveFixed(), plan.Text("--port"), plan.Word{plan.PortNumber(r.name)})
		if !r.engine.Has("kv_transfer_config") {
			argv = append(argv, plan.Text("--kv-transfer-config"), plan.Text(connector(kv, r.NIXLThreads)))
		}
		argv = append(argv, serving.Options(r.engine, serving.Negatable)...)
		env := []plan.Var{
			{Name: "VLLM_NIXL_SIDE_CHANNEL_HOST", Value: plan.Word{plan.Addr(r.name)}},
			{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(nixl.Name)}},
		}
		w.addServer(s, r, nodes, gpus, plan.Endpoint{Port: r.name, Path: health}, argv, env, rayPort+i*1000)
	}
	w.addProxy(s, plan.Slice{Offset: p.Offset, Count: 1})
	return nil
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
func (w *Workload) addServer(s *plan.Service, r role, nodes plan.Slice, gpus []int, health plan.Endpoint, argv []plan.Word, env []plan.Var, ray int) {
	if nodes.Count > 1 && !r.engine.Has("distributed_executor_backend") {
		argv = append(argv, plan.Texts("--distributed-executor-backend", "ray")...)
	}
	if nodes.Count > 1 {
		port := plan.Port{Name: r.name + "_ray", Base: ray, Step: 1, Count: 1, Role: r.name}
		s.Ports = append(s.Ports, port)
		argv = append(w.rayArgs(r, nodes.Count, port.Name), argv...)
	}
	env = append([]plan.Var{
		{Name: "PROFLLM_ROLE", Value: plan.Text(r.name)},
		{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(plan.FormatGPUs(gpus))},
	}, env...)
	if nodes.Count == 1 {
		env = append(env, plan.Var{Name: "VLLM_HOST_IP", Value: plan.Word{plan.Addr(r.name)}})
	}
	size := func(keys ...string) int {
		for _, k := range keys {
			if v := r.engine.Get(k); v != nil {
				if n, ok := v.Int(); ok {
					return int(n)
				}
			}
		}
		return 1
	}
	s.Config[r.name] = r.engine.Plain()
	s.Roles = append(s.Roles, plan.Role{
		Name: r.name, Nodes: nodes, GPUs: gpus, Engine: true, Health: health, Timeout: plan.Seconds(w.wait),
		TP: size("tensor_parallel_size", "tensor-parallel-size"), PP: size("pipeline_parallel_size", "pipeline-parallel-size"),
		DP:   size("data_parallel_size", "data-parallel-size"),
		Step: plan.Step{Name: r.name, Nodes: nodes, Container: true, Env: env, Argv: argv, Log: path.Join("logs", r.name+"-%t.log")},
	})
}

// rayArgs is the part before `vllm serve` that forms a Ray cluster over the
// role's nodes: rank 0 becomes the head and then the server, the others join.
func (w *Workload) rayArgs(r role, nodes int, port string) []plan.Word {
	argv := append([]plan.Word{plan.Self()}, plan.Texts("job", "ray", "--nodes", strconv.Itoa(nodes), "--head")...)
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

// addProxy adds the proxy on the prefill head: the test's script, or ours.
func (w *Workload) addProxy(s *plan.Service, node plan.Slice) {
	health := "/healthcheck"
	switch {
	case w.cfg.ProxyHealthcheck != nil:
		health = *w.cfg.ProxyHealthcheck
	case w.cfg.Healthcheck != nil:
		health = *w.cfg.Healthcheck
	}
	port := plan.Word{plan.PortNumber("proxy")}
	step := plan.Step{
		Name: "proxy", Nodes: node, Log: "logs/proxy-%t.log",
		Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text("proxy")}},
	}
	if w.cfg.ProxyScript == nil {
		step.Argv = append([]plan.Word{plan.Self()}, plan.Texts("proxy", "--host", w.cfg.Host, "--port")...)
		step.Argv = append(step.Argv, port)
		for _, r := range []string{"prefill", "decode"} {
			step.Argv = append(step.Argv, plan.Text("--"+r), plan.Concat("http://", plan.Addr(r), ":", plan.PortNumber(r)))
		}
	} else {
		step.Container = true
		step.Argv = append(plan.Texts("python3", *w.cfg.ProxyScript, "--host", w.cfg.Host, "--port"), port)
		for _, r := range []struct{ flag, role string }{{"prefiller", "prefill"}, {"decoder", "decode"}} {
			step.Argv = append(step.Argv, plan.Text("--"+r.flag+"-hosts"), plan.Word{plan.Addr(r.role)},
				plan.Text("--"+r.flag+"-ports"), plan.Word{plan.PortNumber(r.role)})
		}
	}
	s.Roles = append(s.Roles, plan.Role{
		Name: "proxy", Nodes: node, Health: plan.Endpoint{Port: "proxy", Path: health}, Timeout: plan.Seconds(w.wait), Step: step,
	})
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "proxy"}, "proxy"
}
