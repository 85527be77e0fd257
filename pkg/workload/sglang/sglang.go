// Package sglang turns an SGLang test into roles: one server, one server over
// many nodes, or prefill and decode servers behind SGLang's router.
//
// It writes commands and decides slices, GPUs, ports and readiness endpoints. It
// measures nothing and knows no scheduler.
package sglang

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of an SGLang test.
type Config struct {
	DockerImageURL   string        `toml:"docker_image_url"`   // Image: host#org/name:tag, or a path to a .sqsh file.
	Model            string        `toml:"model"`              // Hugging Face id or path; default Qwen/Qwen3-8B.
	Port             int           `toml:"port"`               // Base of the client-facing port; default 8300. Prefill is 100 above, decode 200.
	Host             string        `toml:"host"`               // Address the servers bind; default 0.0.0.0.
	BenchHost        string        `toml:"bench_host"`         // Address the clients use; default the serving head node.
	Healthcheck      *string       `toml:"healthcheck"`        // Readiness path of the server, or of the router; default /health and /v1/models.
	ServeHealthcheck *string       `toml:"serve_healthcheck"`  // Readiness path of the servers; default /health.
	ServeWaitSeconds *int          `toml:"serve_wait_seconds"` // Time to become ready, each role; default 300.
	Prefill          *source.Table `toml:"prefill"`            // Present: disaggregated serving; the prefill role.
	Decode           *source.Table `toml:"decode"`             // The decode role, or the arguments of the single server.
	ServeModule      string        `toml:"serve_module"`       // Python module of the server; default sglang.launch_server.
	RouterModule     string        `toml:"router_module"`      // Python module of the router; default sglang_router.launch_router.
	BenchModule      string        `toml:"bench_module"`       // Python module of the client; default sglang.bench_serving.
}

// Defaults of CloudAI's SGLang workload.
const (
	defaultModel  = "Qwen/Qwen3-8B"
	defaultPort   = 8300
	defaultHost   = "0.0.0.0"
	defaultWait   = 300 * time.Second
	defaultServe  = "sglang.launch_server"
	defaultRouter = "sglang_router.launch_router"

	roleStride = 100   // between the ports of router, prefill and decode
	distPort   = 20000 // rendezvous of the first role over many nodes; 1000 more for decode
)

// bootstrapPort is SGLang's default of --disaggregation-bootstrap-port.
const bootstrapPort = 8998

// The default readiness paths. SGLang's /health answers 503 until its warm-up
// request is done; /v1/models, CloudAI's default for a single server, answers
// before that. The router has no model of its own: it answers /v1/models once a
// server does.
const (
	serverHealth = "/health"
	routerHealth = "/v1/models"
)

// Workload is a decoded SGLang test.
type Workload struct {
	cfg             Config
	args            *source.Table
	prefill, decode role
	wait            time.Duration
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	w := &Workload{args: t.CmdArgs}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	w.defaults()
	w.prefill = decodeRole("prefill", w.cfg.Prefill, &c)
	w.decode = decodeRole("decode", w.cfg.Decode, &c)
	w.check(needImage, &c)
	return w, c.Err()
}

func (w *Workload) defaults() {
	for _, d := range []struct {
		to    *string
		value string
	}{
		{&w.cfg.Model, defaultModel}, {&w.cfg.Host, defaultHost},
		{&w.cfg.ServeModule, defaultServe}, {&w.cfg.RouterModule, defaultRouter},
	} {
		if *d.to == "" {
			*d.to = d.value
		}
	}
	if w.cfg.Port == 0 {
		w.cfg.Port = defaultPort
	}
	w.wait = defaultWait
	if w.cfg.ServeWaitSeconds != nil {
		w.wait = time.Duration(*w.cfg.ServeWaitSeconds) * time.Second
	}
}

// planned are options of the server that the plan sets itself.
var planned = map[string]string{
	"host": "set cmd_args.host", "port": "set cmd_args.port", "model_path": "set cmd_args.model", "model": "set cmd_args.model",
	"dist_init_addr": "leave it out", "nnodes": "set num_nodes", "node_rank": "leave it out",
	"disaggregation_mode": "write [cmd_args.prefill] and [cmd_args.decode]",
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
	for _, h := range []struct {
		key  string
		path *string
	}{{"healthcheck", cfg.Healthcheck}, {"serve_healthcheck", cfg.ServeHealthcheck}} {
		if h.path != nil && !strings.HasPrefix(*h.path, "/") {
			c.Add(source.Errorf(w.args.PosOf(h.key), "%s %q must begin with a slash", h.key, *h.path).Hintf("write %s = \"/%s\"", h.key, *h.path))
		}
	}
	if w.wait <= 0 {
		c.Addf(w.args.PosOf("serve_wait_seconds"), "serve_wait_seconds is %d, must be 1 or more", *cfg.ServeWaitSeconds)
	}
	if w.disaggregated() && (w.prefill.gpus == nil) != (w.decode.gpus == nil) {
		has, lacks := oneOf(w.prefill, w.decode, w.prefill.gpus != nil)
		c.Add(source.Errorf(has.table.PosOf("gpu_ids"), "%s.gpu_ids is set and %s.gpu_ids is not", has.name, lacks.name).
			Hintf("set both or neither"))
	}
	for _, r := range []role{w.prefill, w.decode} {
		for _, k := range r.engine.Keys() {
			if mend := planned[strings.ReplaceAll(k, "-", "_")]; mend != "" {
				c.Add(source.Errorf(r.engine.PosOf(k), "%s.%s: the plan sets it for every server", r.name, k).Hintf("%s", mend))
			}
		}
	}
}

// oneOf orders two roles: the one that has something, the one that lacks it.
func oneOf(a, b role, first bool) (has, lacks role) {
	if first {
		return a, b
	}
	return b, a
}

func (w *Workload) disaggregated() bool { return w.cfg.Prefill != nil }

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.cfg.Model, Disaggregated: w.disaggregated(),
		ClientHost: w.cfg.BenchHost, ClientNodes: plan.Slice{Offset: 0, Count: 1}, Config: map[string]any{}, Cache: plan.Cache{Path: "/flush_cache"},
	}
	all := cl.VisibleGPUs
	if all == nil {
		all = plan.CountGPUs(max(cl.GPUsPerNode, 1))
	}
	if w.disaggregated() {
		return s, w.split(&s, all, cl.Nodes)
	}
	if cl.VisibleGPUs == nil && w.decode.gpus != nil {
		all = w.decode.gpus
	}
	r := w.decode
	r.name, r.nodes, r.gpus = "serve", plan.Slice{Offset: 0, Count: cl.Nodes}, all
	w.addServer(&s, r, w.cfg.Port, distPort, first(w.cfg.ServeHealthcheck, w.cfg.Healthcheck, serverHealth), nil)
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "serve"}, "serve"
	return s, nil
}

func first(a, b *string, def string) string {
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	}
	return def
}

// split adds prefill, decode and the router before them.
func (w *Workload) split(s *plan.Service, all []int, nodes int) error {
	p, d := w.prefill, w.decode
	var err error
	if p.nodes, d.nodes, err = w.slices(nodes); err != nil {
		return err
	}
	switch {
	case p.gpus != nil:
	case nodes == 1:
		if p.gpus, d.gpus = plan.SplitGPUs(all); len(p.gpus) == 0 {
			return source.Errorf(w.cfg.Prefill.Pos, "one node with %d GPU cannot serve prefill and decode", len(all)).
				Hintf("use 2 nodes, or a node with 2 or more GPUs")
		}
	default:
		p.gpus, d.gpus = all, all
	}
	s.Ports = append(s.Ports, plan.Port{Name: "proxy", Base: w.cfg.Port, Step: 1, Count: 1, Role: "prefill"})
	// Prefill answers decode's question for its KV cache at this port. Fixed, it
	// would let one job of a node only.
	boot := plan.Port{Name: "prefill_bootstrap", Base: bootstrapPort, Step: 1, Count: 1, Role: "prefill"}
	if p.BootstrapPort != nil {
		boot.Base = *p.BootstrapPort
	}
	health := first(w.cfg.ServeHealthcheck, nil, serverHealth)
	w.addServer(s, p, w.cfg.Port+roleStride, distPort, health,
		append(disaggregation(p), plan.Text("--disaggregation-bootstrap-port"), plan.Word{plan.PortNumber(boot.Name)}))
	s.Ports = append(s.Ports, boot)
	w.addServer(s, d, w.cfg.Port+2*roleStride, distPort+1000, health, disaggregation(d))
	w.addRouter(s, plan.Slice{Offset: p.nodes.Offset, Count: 1}, boot.Name)
	return nil
}

func disaggregation(r role) []plan.Word {
	backend := "nixl"
	if r.TransferBackend != nil {
		backend = *r.TransferBackend
	}
	return plan.Texts("--disaggregation-mode", r.name, "--disaggregation-transfer-backend", backend)
}

// addServer adds a role that runs the server: once, or over many nodes as one
// step of one task for each node.
func (w *Workload) addServer(s *plan.Service, r role, port, dist int, health string, mode []plan.Word) {
	s.Ports = append(s.Ports, plan.Port{Name: r.name, Base: port, Step: 1, Count: 1, Role: r.name})
	argv := plan.Texts("python3", "-m", w.cfg.ServeModule, "--model-path", w.cfg.Model, "--host", w.cfg.Host, "--port")
	argv = append(append(argv, plan.Word{plan.PortNumber(r.name)}), mode...)
	argv = append(argv, serving.Options(r.engine, serving.StoreTrue)...)
	env := []plan.Var{
		{Name: "PROFLLM_ROLE", Value: plan.Text(r.name)},
		{Name: "CUDA_VISIBLE_DEVICES", Value: plan.Text(plan.FormatGPUs(r.gpus))},
	}
	if n := r.nodes.Count; n > 1 {
		rendezvous := plan.Port{Name: r.name + "_dist", Base: dist, Step: 1, Count: 1, Role: r.name}
		s.Ports = append(s.Ports, rendezvous)
		argv = append(argv, plan.Text("--dist-init-addr"), plan.Concat(plan.Addr(r.name), ":", plan.PortNumber(rendezvous.Name)),
			plan.Text("--nnodes"), plan.Text(strconv.Itoa(n)))
		// The rank and the own address are known to each task only.
		argv = append(append([]plan.Word{plan.Self()}, plan.Texts("job", "rank", "--option=--node-rank", "--address=SGLANG_HOST_IP", "--")...), argv...)
	} else {
		env = append(env, plan.Var{Name: "SGLANG_HOST_IP", Value: plan.Word{plan.Addr(r.name)}})
	}
	s.Config[r.name] = r.engine.Plain()
	tp, pp, dp := r.parallel()
	s.Roles = append(s.Roles, plan.Role{
		Name: r.name, Nodes: r.nodes, GPUs: r.gpus, Engine: true, Health: plan.Endpoint{Port: r.name, Path: health},
		Timeout: plan.Seconds(w.wait), TP: tp, PP: pp, DP: dp,
		Step: plan.Step{Name: r.name, Nodes: r.nodes, Container: true, Env: env, Argv: argv, Log: path.Join("logs", r.name+"-%t.log")},
	})
}

// addRouter adds SGLang's router on the prefill head. It starts with the
// servers, so it must wait for them as long as we do; its own limit was 300 to
// 1,800 s over the releases, and the pause between two looks up to 30 s.
func (w *Workload) addRouter(s *plan.Service, node plan.Slice, boot string) {
	argv := plan.Texts("python3", "-m", w.cfg.RouterModule, "--pd-disaggregation", "--prefill")
	argv = append(argv, plan.Concat("http://", plan.Addr("prefill"), ":", plan.PortNumber("prefill")), plan.Word{plan.PortNumber(boot)},
		plan.Text("--decode"), plan.Concat("http://", plan.Addr("decode"), ":", plan.PortNumber("decode")))
	argv = append(argv, plan.Texts("--host", w.cfg.Host, "--port")...)
	argv = append(argv, plan.Word{plan.PortNumber("proxy")})
	argv = append(argv, plan.Texts("--worker-startup-timeout-secs", strconv.Itoa(int(w.wait.Seconds())), "--worker-startup-check-interval", "2")...)
	s.Roles = append(s.Roles, plan.Role{
		Name: "proxy", Nodes: node, Health: plan.Endpoint{Port: "proxy", Path: first(w.cfg.Healthcheck, nil, routerHealth)},
		Timeout: plan.Seconds(w.wait),
		Step: plan.Step{
			Name: "proxy", Nodes: node, Container: true, Log: "logs/proxy-%t.log", Argv: argv,
			Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text("proxy")}},
		},
	})
	s.Endpoint, s.EndpointRole = plan.Endpoint{Port: "proxy"}, "proxy"
}
