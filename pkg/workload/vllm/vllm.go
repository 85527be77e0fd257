// Package vllm turns a vLLM test into roles: one server, on one node or over several by one of
// vLLM's ways (Ray, --nnodes, headless data parallelism), data-parallel servers behind a proxy,
// or prefill and decode servers behind one.
//
// It writes commands and decides slices, GPUs, ports and readiness endpoints. It
// measures nothing and knows no scheduler.
package vllm

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Config is [cmd_args] of a vLLM test.
type Config struct {
	serving.Config
	Model string `toml:"model"` // Hugging Face id or path; default Qwen/Qwen3-0.6B.
	// Readiness path of the proxy; default healthcheck, else /healthcheck.
	ProxyHealthcheck *string `toml:"proxy_healthcheck"`
	ProxyScript      *string `toml:"proxy_script"` // A proxy in the container; default profllm's own.
	// How the options of your build differ from those of its release, in the tables serve and bench: what
	// profllm args capture --toml prints.
	Build *source.Table `toml:"build"`
}

// role holds the keys of [cmd_args.prefill] and [cmd_args.decode] that are vLLM's
// and not options of the engine.
type role struct {
	NIXLThreads *source.Value `toml:"nixl_threads"` // num_threads of the NIXL connector.
	RayHead     *source.Table `toml:"ray_head"`     // Options of `ray start` on the head.
	RayWorker   *source.Table `toml:"ray_worker"`   // Options of `ray start` on the workers.
}

const (
	// DefaultModel is served by a test that names no model, as in CloudAI.
	DefaultModel = "Qwen/Qwen3-0.6B"

	nixlPort = 5557 // side channel of the first engine
	rayPort  = 6379 // GCS of the first role; Ray's own default
)

var engine = &serving.Engine{
	Server: "vllm serve", HostIP: "VLLM_HOST_IP", Keys: source.Fields(role{}),
	Known:   arguments.Serve.Names,
	Planned: map[string]string{"host": "set cmd_args.host", "port": "set cmd_args.port"},
	// SGLang's (python/sglang/srt/server_args.py).
	Foreign: map[string]string{
		"tp": "tensor_parallel_size", "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size",
		"dp_size": "data_parallel_size",
		"ep_size": "enable_expert_parallel", "mem_fraction_static": "gpu_memory_utilization",
		"context_length":       "max_model_len",
		"max_running_requests": "max_num_seqs", "chunked_prefill_size": "max_num_batched_tokens",
		"disable_radix_cache": "enable_prefix_caching = false",
		"model_path":          "", "disaggregation_mode": "", "disaggregation_transfer_backend": "",
		"disaggregation_ib_device": "",
	},
	TP: []string{"tensor_parallel_size"}, PP: []string{"pipeline_parallel_size"}, DP: []string{"data_parallel_size"},
}

// Workload is a decoded vLLM test.
type Workload struct {
	serving.Test
	cfg Config
	own map[string]*role // by kind

	build  Build
	server *arguments.Program // vllm serve, with the options of the build

	transferNote string // what to know of how KV blocks move, "" for nothing
}

// New decodes the test's cmd_args. needImage is false where steps run without a
// container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	w := &Workload{own: map[string]*role{}}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	w.cfg.Model = cmp.Or(w.cfg.Model, DefaultModel)
	var err error
	w.build, err = ReadBuild(t.CmdArgs)
	c.Add(err)
	w.server = arguments.Serve.With(w.build.Serve)
	own := *engine
	own.Known = w.server.Names
	w.Test = serving.Read(t, &w.cfg.Config, &own, needImage, &c)
	serving.CheckPath(t.CmdArgs, "proxy_healthcheck", w.cfg.ProxyHealthcheck, &c)
	for _, r := range []*serving.Role{&w.Prefill, &w.Decode} {
		w.own[r.Kind] = &role{}
		r.Take(w.own[r.Kind], &c)
		w.check(r, &c)
	}
	w.checkTransfer(&c)
	return w, c.Err()
}

func (w *Workload) check(r *serving.Role, c *source.Complaints) {
	w.checkOptions(r, c)
	if v := w.own[r.Kind].NIXLThreads; v != nil {
		if n, ok := v.Int(); !ok || n < 1 {
			c.Add(source.Errorf(v.Pos, "%s.nixl_threads must be a number of threads, not %s", r.Kind, v.Shown()).
				Hintf("%s", v.Integer("nixl_threads = ")))
		}
	}
	// CloudAI's constraint: this backend does not go with data and expert parallelism together.
	backend := r.Option("all2all_backend")
	name, _ := backend.Text()
	if _, _, dp := r.Parallel(); name == "flashinfer_all2allv" && dp > 1 && r.Flag("enable_expert_parallel") {
		c.Add(source.Errorf(backend.Pos,
			"%s: all2all_backend %q does not work with data_parallel_size %d and enable_expert_parallel", r.Kind, name,
			dp).
			Hintf("set another all2all_backend, or data_parallel_size = 1"))
	}
}

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	s := w.Service(w.cfg.Model)
	s.Release = arguments.Serve.Nearest(w.release())
	s.OwnOptions = append(serving.Names(w.UncheckedOptions), w.build.has()...)
	s.Torch = torch(s.Release)
	// vLLM has the endpoint in its development mode only (vllm/envs.py, 0.32).
	s.Cache = plan.Cache{Path: "/reset_prefix_cache", More: []string{"/reset_mm_cache", "/reset_encoder_cache"},
		Env: []plan.Var{{Name: "VLLM_SERVER_DEV_MODE", Value: plan.Text("1")}}, Off: w.Every(cacheOff)}
	list, all, err := w.Place(cl)
	if err == nil {
		err = w.checkLayouts(list)
	}
	switch {
	case err != nil:
		return s, err
	case w.Disaggregated():
		w.addPrefillDecode(&s, list, len(all))
		return s, nil
	}
	one := list[0]
	if balanced(one) != "" {
		w.addBalanced(&s, one)
		return s, nil
	}
	argv := append(w.serveFixed(), serving.Options(one.Options, serving.Negatable)...)
	argv = append(argv, plan.Text("--port"), plan.Word{plan.PortNumber(one.Name)})
	s.Ports = append(s.Ports, w.PortOf(one))
	w.addServer(&s, one, argv)
	return s, nil
}

func cacheOff(r *serving.Role) bool {
	v := r.Option("enable_prefix_caching")
	if v == nil {
		return r.Flag("no_enable_prefix_caching")
	}
	on, isBool := v.Bool()
	return isBool && !on
}

// addPrefillDecode adds prefill, decode and the proxy before them.
func (w *Workload) addPrefillDecode(s *plan.Service, list []serving.Instance, total int) {
	// The side channels lie behind each other, one port for each GPU id, as
	// CloudAI counts them; a slot moves all of them.
	if w.Prefill.IDs != nil {
		total = len(w.Prefill.IDs) + len(w.Decode.IDs)
	}
	s.Ports = append(s.Ports, w.ProxyPort(list[0]))
	for _, one := range list {
		kv := "kv_producer"
		if one.Kind == serving.Decode {
			kv = "kv_consumer"
		}
		nixl := plan.Port{Name: one.Name + "_nixl", Base: nixlPort + one.Order*total + one.First, Step: 2 * total,
			Count: len(one.GPUs), Role: one.Name}
		s.Ports = append(s.Ports, w.PortOf(one), nixl)
		argv := append(w.serveFixed(), plan.Text("--port"), plan.Word{plan.PortNumber(one.Name)})
		if one.Option("kv_transfer_config") == nil {
			argv = append(argv, plan.Text("--kv-transfer-config"),
				plan.Text(connector(kv, w.own[one.Kind].NIXLThreads)))
		}
		argv = append(argv, serving.Options(one.Options, serving.Negatable)...)
		w.addServer(s, one, argv,
			plan.Var{Name: sideChannelHost, Value: plan.Word{plan.Addr(one.Name)}},
			plan.Var{Name: "VLLM_NIXL_SIDE_CHANNEL_PORT", Value: plan.Word{plan.PortNumber(nixl.Name)}})
	}
	w.addProxy(s, list)
	if w.transferNote != "" {
		s.Notes = append(s.Notes, w.transferNote)
	}
}

func (w *Workload) serveFixed() []plan.Word {
	return plan.Texts("vllm", "serve", w.cfg.Model, "--host", w.Host)
}

func connector(kvRole string, threads *source.Value) string {
	extra := ""
	if threads != nil {
		extra = fmt.Sprintf(`,"kv_connector_extra_config":{"num_threads":%v}`, threads.Plain())
	}
	return `{"kv_connector":"NixlConnector","kv_role":"` + kvRole + `"` + extra + `}`
}

// sideChannelHost tells an engine the address of its side channel for KV transfers.
const sideChannelHost = "VLLM_NIXL_SIDE_CHANNEL_HOST"

// addServer adds a role that runs `vllm serve`, with the layout of its nodes.
func (w *Workload) addServer(s *plan.Service, one serving.Instance, argv []plan.Word, env ...plan.Var) {
	if one.Nodes.Count == 1 {
		w.AddServer(s, one, argv, 0, env...)
		s.Roles[len(s.Roles)-1].EP = experts(one)
		return
	}
	l, _ := layoutOf(one) // checkLayouts refused what has none
	inner := 0
	if l.name == onRay {
		argv = append(argv, rayOverNodes(one)...)
		port := plan.Port{Name: one.Name + "_ray", Base: rayPort + one.Order*1000, Step: 1, Count: 1, Role: one.Name}
		s.Ports = append(s.Ports, port)
		lead := w.rayArgs(one, port.Name)
		argv, inner = append(lead, argv...), len(lead)
		if spansNodes(one) {
			env = append(env, plan.Var{Name: packStrategy, Value: plan.Text("span")})
		}
	} else {
		argv = w.overNodes(s, one, l, argv, env)
	}
	w.AddServer(s, one, argv, inner, env...)
	r := &s.Roles[len(s.Roles)-1]
	r.Ray, r.Executor, r.EP = l.name == onRay, l.name+", because "+l.why, experts(one)
}

// experts is how many GPUs hold the experts of a model, each of them whole: vLLM has no option for
// it. 0 without expert parallelism.
func experts(one serving.Instance) int {
	if !one.Flag("enable_expert_parallel") {
		return 0
	}
	tp, _, dp := one.Parallel()
	return tp * dp
}

// rayArgs is the part before `vllm serve` that forms a Ray cluster over the
// role's nodes: rank 0 becomes the head and then the server, the others join.
func (w *Workload) rayArgs(one serving.Instance, port string) []plan.Word {
	argv := append([]plan.Word{plan.Self()},
		plan.Texts("job", "ray", "--nodes", strconv.Itoa(one.Nodes.Count), "--head")...)
	argv = append(argv, plan.Word{plan.Addr(one.Name)}, plan.Text("--port"), plan.Word{plan.PortNumber(port)},
		plan.Text("--timeout"), plan.Text(w.Wait.String()))
	own := w.own[one.Kind]
	for _, side := range []struct {
		flag  string
		table *source.Table
	}{{"--head-arg", own.RayHead}, {"--worker-arg", own.RayWorker}} {
		for _, option := range rayOptions(side.table) {
			argv = append(argv, plan.Text(side.flag+"="+option))
		}
	}
	return append(argv, plan.Text("--"))
}

// proxyHealth is the readiness path of the proxy.
func (w *Workload) proxyHealth() string {
	switch {
	case w.cfg.ProxyHealthcheck != nil:
		return *w.cfg.ProxyHealthcheck
	case w.Healthcheck != nil && w.Disaggregated():
		return *w.Healthcheck
	}
	return "/healthcheck"
}

// addProxy adds the test's script, or our proxy.
func (w *Workload) addProxy(s *plan.Service, list []serving.Instance) {
	script := w.cfg.ProxyScript
	argv := []plan.Word{plan.Self(), plan.Text("proxy")}
	if script != nil {
		argv = plan.Texts("python3", *script)
	}
	argv = append(append(argv, plan.Texts("--host", w.Host, "--port")...), plan.Word{plan.PortNumber("proxy")})
	for _, kind := range []struct{ name, script string }{{serving.Prefill, "--prefiller"},
		{serving.Decode, "--decoder"}} {
		var urls, hosts, ports []plan.Word
		for _, one := range list {
			if one.Kind == kind.name {
				urls = append(urls, plan.Text("--"+one.Kind), one.URL())
				hosts = append(hosts, plan.Word{plan.Addr(one.Name)})
				ports = append(ports, plan.Word{plan.PortNumber(one.Name)})
			}
		}
		if script == nil {
			argv = append(argv, urls...)
			continue
		}
		// vLLM's toy_proxy_server.py takes lists: one host and one port for each instance.
		argv = append(append(argv, plan.Text(kind.script+"-hosts")), hosts...)
		argv = append(append(argv, plan.Text(kind.script+"-ports")), ports...)
	}
	w.AddProxy(s, list[0], w.proxyHealth(), argv, script != nil)
}
