// Package sglang turns an SGLang test into roles: one server, one server over
// many nodes, or prefill and decode servers behind SGLang's router.
//
// It writes commands and decides ports and readiness endpoints. It measures
// nothing and knows no scheduler.
package sglang

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of an SGLang test.
type Config struct {
	serving.Config
	Model        string `toml:"model"`         // Hugging Face id or path; default Qwen/Qwen3-8B.
	ServeModule  string `toml:"serve_module"`  // Python module of the server; default sglang.launch_server.
	RouterModule string `toml:"router_module"` // Python module of the router; default sglang_router.launch_router.
	// Python module of the client; default sglang.bench_serving, or sglang.benchmark.serving where engine_version
	// or the tag of the image says 0.5.15 or later.
	BenchModule string        `toml:"bench_module"`
	Router      *source.Table `toml:"router"` // Options of the router, such as policy = "round_robin" (profllm).
}

// role holds the keys of [cmd_args.prefill] and [cmd_args.decode] that are
// SGLang's and not options of the engine as they stand.
type role struct {
	TransferBackend *string `toml:"disaggregation_transfer_backend"` // How KV blocks move; default nixl.
	BootstrapPort   *int    `toml:"disaggregation_bootstrap_port"`   // Base of prefill's bootstrap port; default 8998.
}

// DefaultModel is served by a test that names no model, as in CloudAI.
const DefaultModel = "Qwen/Qwen3-8B"

// Defaults of CloudAI's SGLang workload.
const (
	defaultServe  = "sglang.launch_server"
	defaultRouter = "sglang_router.launch_router"

	distPort = 20000 // rendezvous of the first role over many nodes; 1000 more for decode
)

// bootstrapPort is SGLang's default of --disaggregation-bootstrap-port.
const bootstrapPort = 8998

// routerHealth is the default readiness path of the router: it answers 200 once a prefill and a
// decode server are registered. Its /health always does, and its /v1/models, CloudAI's default, once
// any server is (sglang-router 0.1.9 to 0.3.2, smg 1.13). A server's own /v1/models answers before
// its warm-up request is done; its /health then.
const routerHealth = "/readiness"

// miniHealth is the same of the small router in Python that --mini-lb runs: it answers 200 once every
// server does (sglang_router/mini_lb.py, 0.3.2).
const miniHealth = "/health_generate"

// metricsPort is where SGLang's router serves its own metrics, unless told otherwise. Fixed, it would
// let one router of a node only.
const metricsPort = 29000

// knownOptions are SGLang's: one near to them is misspelt.
var knownOptions = []string{
	"attention_backend", "chunked_prefill_size", "context_length", "disable_cuda_graph", "disable_overlap_schedule",
	"disable_radix_cache",
	"enable_dp_attention", "enable_mixed_chunk", "enable_torch_compile", "expert_parallel_size", "ep_size",
	"kv_cache_dtype", "max_prefill_tokens",
	"max_running_requests", "max_total_tokens", "mem_fraction_static", "quantization", "random_seed",
	"schedule_policy", "served_model_name",
	"skip_server_warmup", "tokenizer_path", "trust_remote_code",
}

// plannedOfRouter are options of the router that the plan sets, and what to do instead.
var plannedOfRouter = map[string]string{
	"host": "set cmd_args.host", "port": "set cmd_args.port", "prefill": "write [cmd_args.prefill]",
	"decode": "write [cmd_args.decode]", "pd_disaggregation": "leave it out", "worker_urls": "leave it out",
	"prometheus_port": "leave it out", "worker_startup_timeout_secs": "set cmd_args.serve_wait_seconds",
	"worker_startup_check_interval": "leave it out",
}

var engine = &serving.Engine{
	Server: defaultServe, HostIP: "SGLANG_HOST_IP", Keys: source.Fields(role{}),
	Planned: map[string]string{
		"host": "set cmd_args.host", "port": "set cmd_args.port", "model_path": "set cmd_args.model",
		"model":          "set cmd_args.model",
		"dist_init_addr": "leave it out", "nnodes": "set num_nodes", "node_rank": "leave it out",
		"disaggregation_mode": "write [cmd_args.prefill] and [cmd_args.decode]",
	},
	// Those that decide over memory, batches and caches (python/sglang/srt/server_args.py).
	Known: func() []string { return knownOptions },
	// vLLM's (vllm/engine/arg_utils.py).
	Foreign: map[string]string{
		"gpu_memory_utilization": "mem_fraction_static", "max_model_len": "context_length",
		"max_num_seqs":           "max_running_requests",
		"max_num_batched_tokens": "chunked_prefill_size", "enable_prefix_caching": "disable_radix_cache = false",
		"no_enable_prefix_caching": "disable_radix_cache",
		"enable_expert_parallel":   "ep_size", "kv_transfer_config": "", "all2all_backend": "",
	},
	TP: []string{"tensor_parallel_size", "tp_size", "tp"}, PP: []string{"pipeline_parallel_size", "pp_size", "pp"},
	DP: []string{"data_parallel_size", "dp_size", "dp"}, Attention: "enable_dp_attention",
}

// Workload is a decoded SGLang test.
type Workload struct {
	serving.Test
	cfg Config
	own map[string]*role // by kind
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	w := &Workload{own: map[string]*role{}}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	w.cfg.Model = cmp.Or(w.cfg.Model, DefaultModel)
	w.cfg.ServeModule = cmp.Or(w.cfg.ServeModule, defaultServe)
	w.cfg.RouterModule = cmp.Or(w.cfg.RouterModule, defaultRouter)
	w.Test = serving.Read(t, &w.cfg.Config, engine, needImage, &c)
	for _, r := range []*serving.Role{&w.Prefill, &w.Decode} {
		own := &role{}
		w.own[r.Kind] = own
		r.Take(own, &c)
		if p := own.BootstrapPort; p != nil && (*p < 1024 || *p > 65535-plan.Slots) {
			c.Addf(r.PosOf("disaggregation_bootstrap_port"),
				"%s.disaggregation_bootstrap_port is %d, must be 1024-%d: the job's slot is added", r.Kind, *p,
				65535-plan.Slots)
		}
	}
	w.checkBackends(&c)
	w.checkRouter(&c)
	return w, c.Err()
}

// checkRouter refuses options of the router that profllm sets, and a router that nothing needs.
func (w *Workload) checkRouter(c *source.Complaints) {
	w.cfg.Router = serving.Once(w.cfg.Router, c)
	for _, key := range w.cfg.Router.Keys() {
		pos := w.cfg.Router.KeyPos(key)
		if instead, ok := plannedOfRouter[strings.ReplaceAll(key, "-", "_")]; ok {
			c.Add(source.Errorf(pos, "router.%s: profllm sets this option itself", key).Hintf("%s", instead))
		} else if !w.Disaggregated() {
			c.Add(source.Errorf(pos, "router.%s: without [cmd_args.prefill] there is no router", key).
				Hintf("remove it, or add [cmd_args.prefill]"))
		}
	}
}

// backend is how a role's KV blocks move.
func (w *Workload) backend(kind string) string {
	if own := w.own[kind]; own.TransferBackend != nil {
		return *own.TransferBackend
	}
	return "nixl"
}

// checkBackends refuses prefill and decode that cannot hand KV blocks to each other.
func (w *Workload) checkBackends(c *source.Complaints) {
	prefill, decode := w.backend(serving.Prefill), w.backend(serving.Decode)
	if !w.Disaggregated() || prefill == decode {
		return
	}
	const key = "disaggregation_transfer_backend"
	at := w.Prefill.PosOf(key)
	if w.own[serving.Prefill].TransferBackend == nil {
		at = w.Decode.PosOf(key)
	}
	c.Add(source.Errorf(at, "prefill transfers KV blocks with %q, but decode with %q", prefill, decode).
		Hintf("set the same %s for both roles (default nixl)", key))
}

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	s := w.Service(w.cfg.Model)
	s.Cache = plan.Cache{Path: "/flush_cache",
		Off: w.Every(func(r *serving.Role) bool { return r.Flag("disable_radix_cache") })}
	list, _, err := w.Place(cl)
	switch {
	case err != nil:
		return s, err
	case w.Disaggregated():
		w.addPrefillDecode(&s, list)
	default:
		w.addServer(&s, list[0])
	}
	return s, nil
}

// addPrefillDecode adds prefill, decode and the router before them.
func (w *Workload) addPrefillDecode(s *plan.Service, list []serving.Instance) {
	s.Ports = append(s.Ports, w.ProxyPort(list[0]))
	for _, one := range list {
		own := w.own[one.Kind]
		mode := plan.Texts("--disaggregation-mode", one.Kind, "--disaggregation-transfer-backend", w.backend(one.Kind))
		if one.Kind == serving.Decode {
			w.addServer(s, one, mode...)
			continue
		}
		// Prefill answers decode's question for its KV cache at this port. Fixed, it
		// would let one job of a node only. In steps of Slots it never meets the
		// other ports of instances that share a node.
		boot := plan.Port{Name: bootstrap(one), Base: bootstrapPort + one.Place*plan.Slots, Step: 1, Count: 1,
			Role: one.Name}
		if own.BootstrapPort != nil {
			boot.Base = *own.BootstrapPort + one.Place*plan.Slots
		}
		w.addServer(s, one, append(mode, plan.Text("--disaggregation-bootstrap-port"),
			plan.Word{plan.PortNumber(boot.Name)})...)
		s.Ports = append(s.Ports, boot)
	}
	w.addRouter(s, list)
}

func bootstrap(one serving.Instance) string { return one.Name + "_bootstrap" }

// addServer adds a role that runs the server: once, or over many nodes as one
// step of one task for each node.
func (w *Workload) addServer(s *plan.Service, one serving.Instance, mode ...plan.Word) {
	s.Ports = append(s.Ports, w.PortOf(one))
	argv := plan.Texts("python3", "-m", w.cfg.ServeModule, "--model-path", w.cfg.Model, "--host", w.Host, "--port")
	argv = append(append(argv, plan.Word{plan.PortNumber(one.Name)}), mode...)
	argv = append(argv, serving.Options(one.Options, serving.StoreTrue)...)
	if n := one.Nodes.Count; n > 1 {
		rendezvous := plan.Port{Name: one.Name + "_dist", Base: distPort + one.Order*1000, Step: 1, Count: 1,
			Role: one.Name}
		s.Ports = append(s.Ports, rendezvous)
		argv = append(argv, plan.Text("--dist-init-addr"),
			plan.Concat(plan.Addr(one.Name), ":", plan.PortNumber(rendezvous.Name)),
			plan.Text("--nnodes"), plan.Text(strconv.Itoa(n)))
		// The rank and the own address are known to each task only.
		argv = append(append([]plan.Word{plan.Self()},
			plan.Texts("job", "rank", "--option=--node-rank", "--address="+engine.HostIP, "--")...), argv...)
	}
	w.AddServer(s, one, argv, 0)
}

// addRouter adds SGLang's router. It starts with the servers, so it must wait for
// them as long as we do; its own limit was 300 to 1,800 s over the releases, and
// the pause between two looks up to 30 s.
func (w *Workload) addRouter(s *plan.Service, list []serving.Instance) {
	argv := plan.Texts("python3", "-m", w.cfg.RouterModule, "--pd-disaggregation")
	for _, one := range list {
		argv = append(argv, plan.Text("--"+one.Kind), one.URL())
		if one.Kind == serving.Prefill {
			argv = append(argv, plan.Word{plan.PortNumber(bootstrap(one))})
		}
	}
	argv = append(argv, plan.Texts("--host", w.Host, "--port")...)
	argv = append(argv, plan.Word{plan.PortNumber("proxy")})
	s.Ports = append(s.Ports, plan.Port{Name: "proxy_metrics", Base: metricsPort, Step: 1, Count: 1, Role: list[0].Name})
	argv = append(argv, plan.Text("--prometheus-port"), plan.Word{plan.PortNumber("proxy_metrics")})
	argv = append(argv, plan.Texts("--worker-startup-timeout-secs", strconv.Itoa(int(w.Wait.Seconds())),
		"--worker-startup-check-interval", "2")...)
	if w.cfg.Router != nil {
		argv = append(argv, serving.Options(w.cfg.Router, serving.StoreTrue)...)
	}
	health := routerHealth
	if w.mini() {
		health = miniHealth
	}
	if w.Healthcheck != nil {
		health = *w.Healthcheck
	}
	w.AddProxy(s, list[0], health, argv, true)
}

// mini reports whether the router is the small one.
func (w *Workload) mini() bool {
	return slices.ContainsFunc(w.cfg.Router.Keys(), func(key string) bool {
		return strings.ReplaceAll(key, "-", "_") == "mini_lb" && w.cfg.Router.Get(key).Any == true
	})
}
