// Package offline turns a vllm-offline test into a step that runs one of vLLM's benchmarks without
// a server: `vllm bench latency`, `throughput`, `startup` or `mm-processor`, or a program of profllm's that times
// each request, which vLLM has none for.
//
// One engine on one node is one process. Several engines, or one over several nodes, are one process
// for each GPU, which vLLM's external launcher joins, as under torchrun.
package offline

import (
	"cmp"
	_ "embed" // the program that times requests
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Config is [cmd_args] of a vllm-offline test.
type Config struct {
	DockerImageURL string `toml:"docker_image_url"`   // Image: host#org/name:tag, or a path to a .sqsh file.
	Benchmark      string `toml:"benchmark,required"` // latency, throughput, startup, mm-processor or requests.
	Model          string `toml:"model"`              // Hugging Face id or path; default Qwen/Qwen3-0.6B.
	// Version of vLLM, or its beginning, whose options are checked; default: that of the image's tag.
	EngineVersion string `toml:"engine_version"`
	// Options of engine and options that are not checked, such as "x, y": those that profllm does not
	// know.
	UncheckedOptions string `toml:"unchecked_options"`
	// Options of the engine, as of `vllm serve`. data_parallel_size = "auto" uses all GPUs of the nodes.
	Engine  *source.Table `toml:"engine"`
	Options *source.Table `toml:"options"` // Options of the benchmark, such as num_prompts.
	// Processes, one a GPU; default TP x PP x DP. Without data_parallel_size it decides that.
	Processes *int `toml:"processes"`
}

// Name is the value of test_template_name.
const Name = "vllm-offline"

// Program is the text in Python that times the requests of vLLM's engine. `profllm job requests`
// runs it where the engine is, in a container or not.
//
//go:embed requests.py
var Program string

// OwnClient is the client of tests whose benchmark is profllm's own.
const OwnClient = "profllm job requests"

// client is who measures, for the record.
func client(benchmark string) string {
	if benchmark == requests {
		return OwnClient
	}
	return "vllm bench " + benchmark
}

const (
	latency    = "latency"
	throughput = "throughput"
	startup    = "startup"
	requests   = "requests"
	processor  = "mm-processor"

	defaultModel = "Qwen/Qwen3-0.6B"

	tpKey, ppKey, dpKey = "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"
	executorKey         = "distributed_executor_backend"
	external            = "external_launcher"

	rendezvous     = "rendezvous"
	rendezvousPort = 29500
)

// defaultPrompts are the prompts of the benchmarks that several engines share.
var defaultPrompts = map[string]int64{throughput: 1000, requests: 50}

// options are those of each benchmark beside the engine's, in vLLM 0.8 to 0.32.
var options = map[string][]string{
	latency: {"input_len", "output_len", "batch_size", "n", "use_beam_search", "num_iters_warmup", "num_iters",
		"profile", "disable_detokenize"},
	throughput: {"backend", "dataset_name", "dataset", "dataset_path", "no_oversample", "enable_multimodal_chat",
		"custom_output_len", "input_len", "output_len", "n", "num_prompts", "num_warmups", "hf_max_batch_size",
		"hf_enable_torch_compile", "async_engine", "prequeue_requests", "disable_frontend_multiprocessing",
		"disable_detokenize", "lora_path", "lora_assignment", "prefix_len", "hf_subset", "hf_split", "hf_name", "profile",
		"prefix_repetition_prefix_len", "prefix_repetition_suffix_len", "prefix_repetition_num_prefixes",
		"prefix_repetition_output_len", "random_input_len", "random_output_len", "random_range_ratio",
		"random_prefix_len", "random_batch_size", "no_reranker", "random_mm_base_items_per_request",
		"random_mm_num_mm_items_range_ratio", "random_mm_limit_mm_per_prompt", "random_mm_bucket_config",
		"asr_min_audio_len_sec", "asr_max_audio_len_sec"},
	startup: {"num_iters_cold", "num_iters_warmup", "num_iters_warm"},
	processor: {"dataset_name", "num_prompts", "num_warmups", "dataset_path", "hf_subset", "hf_split", "output_len",
		"metric_percentiles", "disable_tqdm", "random_input_len", "random_output_len", "random_range_ratio",
		"random_prefix_len", "random_batch_size", "no_reranker", "random_mm_base_items_per_request",
		"random_mm_num_mm_items_range_ratio", "random_mm_limit_mm_per_prompt", "random_mm_bucket_config"},
	requests: {"num_prompts", "dataset_path", "input_len", "output_len", "max_tokens", "temperature"},
}

// flags are the options that take no value.
var flags = []string{"use_beam_search", "profile", "disable_detokenize", "no_oversample", "enable_multimodal_chat",
	"hf_enable_torch_compile", "async_engine", "prequeue_requests", "disable_frontend_multiprocessing", "no_reranker",
	"disable_tqdm"}

// words are the options whose value is no number.
var words = []string{"backend", "dataset_name", "dataset", "dataset_path", "lora_path", "lora_assignment", "hf_subset",
	"hf_split", "hf_name", "metric_percentiles", "random_range_ratio", "random_mm_limit_mm_per_prompt", "random_mm_bucket_config"}

// Workload is a decoded vllm-offline test.
type Workload struct {
	cfg  Config
	test scenario.Test
}

// New decodes the test's cmd_args. needImage is false where steps run without a container.
func New(t scenario.Test, needImage bool) (plan.Workload, error) {
	var c source.Complaints
	w := &Workload{test: t}
	c.Add(source.Decode(t.CmdArgs, &w.cfg))
	cfg := &w.cfg
	cfg.Model = cmp.Or(cfg.Model, defaultModel)
	if cfg.Engine == nil {
		cfg.Engine = source.NewTable(t.CmdArgs.Pos)
	}
	if cfg.Options == nil {
		cfg.Options = source.NewTable(t.CmdArgs.Pos)
	}
	cfg.Engine, cfg.Options = serving.Once(cfg.Engine, &c), serving.Once(cfg.Options, &c)
	if cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(t.CmdArgs.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	known := []string{latency, throughput, startup, processor, requests}
	if t.CmdArgs.Has("benchmark") && !slices.Contains(known, cfg.Benchmark) {
		c.Add(source.Errorf(t.CmdArgs.PosOf("benchmark"), "unknown benchmark %q", cfg.Benchmark).
			Hintf("%s", source.Suggest(cfg.Benchmark, known)))
	}
	for _, key := range t.ExtraCmdArgs.Keys() {
		c.Add(source.Errorf(t.ExtraCmdArgs.PosOf(key), "extra_cmd_args.%s has no effect on a %s test", key, Name).
			Hintf("write it in cmd_args.engine or cmd_args.options"))
	}
	if c.Err() == nil {
		w.checkEngine(&c)
		w.checkOptions(&c)
	}
	return w, c.Err()
}

// unchecked reports whether an option goes to vLLM as it is.
func (w *Workload) unchecked(key string) bool {
	return slices.Contains(serving.Names(w.cfg.UncheckedOptions), key)
}

// checkEngine refuses what the engine of the test's release would refuse.
func (w *Workload) checkEngine(c *source.Complaints) {
	release := arguments.Declared(w.cfg.EngineVersion, w.cfg.DockerImageURL)
	for _, key := range w.cfg.Engine.Keys() {
		v := w.cfg.Engine.Get(key)
		if auto, _ := v.Text(); w.unchecked(key) || key == dpKey && auto == "auto" {
			continue
		}
		var args []string
		for _, word := range serving.Option(key, v, serving.Negatable) {
			args = append(args, word.String())
		}
		_, refusal := arguments.Serve.Check(release, args[0], args[1:]...)
		switch {
		case refusal == nil:
		case refusal.Unknown:
			near := source.Nearest(key, arguments.Serve.Names())
			hint := "remove it; if your release has it, add it to cmd_args.unchecked_options"
			if near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			c.Add(source.Errorf(w.cfg.Engine.KeyPos(key), "engine.%s is an option of no release of vLLM that profllm knows",
				key).Hintf("%s", hint))
		default:
			c.Add(source.Errorf(v.Pos, "engine.%s: %s", key, refusal.Says()).
				Hintf("%s", cmp.Or(refusal.Hint, "see profllm args show "+key)))
		}
	}
}

// checkOptions refuses what the benchmark would refuse.
func (w *Workload) checkOptions(c *source.Complaints) {
	names := options[w.cfg.Benchmark]
	for _, key := range w.cfg.Options.Keys() {
		v, plain := w.cfg.Options.Get(key), strings.ReplaceAll(key, "-", "_")
		_, isBool := v.Any.(bool)
		_, isInt := v.Int()
		_, isFloat := v.Float()
		text, isText := v.Text()
		switch {
		case w.unchecked(key):
		case plain == "output_json":
			c.Addf(w.cfg.Options.KeyPos(key), "options.%s: profllm sets this option itself", key)
		case !slices.Contains(names, plain):
			c.Add(source.Errorf(w.cfg.Options.KeyPos(key), "options.%s is no option of `%s` that profllm knows", key,
				client(w.cfg.Benchmark)).Hintf("%s", w.known(plain, names)))
		case slices.Contains(flags, plain):
			if !isBool && text != "" || !isBool && !isText {
				c.Addf(v.Pos, "options.%s is a switch: true or false, not %s", key, v.Describe())
			}
		case slices.Contains(words, plain):
		case plain == "temperature" || strings.HasSuffix(plain, "_sec") || strings.HasSuffix(plain, "_ratio"):
			if !isFloat {
				c.Addf(v.Pos, "options.%s must be a number, not %s", key, v.Describe())
			}
		case !isInt:
			c.Addf(v.Pos, "options.%s must be a whole number, not %s", key, v.Describe())
		}
	}
}

// known says what to write in place of an option that the benchmark lacks.
func (w *Workload) known(key string, names []string) string {
	if _, ok := arguments.Serve.Find(key); ok {
		return "an option of the engine belongs into cmd_args.engine"
	}
	return source.Suggest(key, names) + "; if your release has it, add it to cmd_args.unchecked_options"
}

// size is a parallel size, 1 if it is not set.
func (w *Workload) size(key string) (int, error) {
	v := w.cfg.Engine.Get(key)
	if v == nil {
		return 1, nil
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > 1<<16 {
		return 1, source.Errorf(v.Pos, "engine.%s must be 1 or more, not %s", key, v.Shown())
	}
	return int(n), nil
}

// A layout is how the processes lie on the nodes.
type layout struct {
	tp, pp, dp int
	nodes      int
	perNode    int // processes
	joined     bool
}

// gpus are those of each node that the benchmark uses.
func (l layout) gpus() int { return l.tp * l.pp * l.dp / l.nodes }

// layout places the engines on the nodes.
func (w *Workload) layout(cl plan.Cluster) (layout, error) {
	var c source.Complaints
	var err error
	l := layout{nodes: cl.Nodes, perNode: 1}
	l.tp, err = w.size(tpKey)
	c.Add(err)
	l.pp, err = w.size(ppKey)
	c.Add(err)
	gpus := cl.GPUsPerNode
	if cl.VisibleGPUs != nil {
		gpus = len(cl.VisibleGPUs)
	}
	l.dp, err = w.engines(cl.Nodes, gpus, l.tp*l.pp)
	c.Add(err)
	if c.Err() != nil {
		return l, c.Err()
	}
	world := l.tp * l.pp * l.dp
	// Nobody asks for several nodes whose GPUs are not known for an engine that fits on one.
	onSeveral := gpus > 0 && world > gpus || gpus == 0 && cl.Nodes > 1 && world > 1
	if l.joined = l.dp > 1 || onSeveral; !l.joined {
		if cl.Nodes > 1 {
			return l, source.Errorf(w.test.PosOf("num_nodes"), "test %q has %s, but its engine of %s fits on one",
				w.test.ID, quantity.Count(cl.Nodes, "node"), quantity.Count(world, "GPU")).
				Hintf("set num_nodes = 1, or data_parallel_size = \"auto\" for an engine on every GPU")
		}
		return l, w.fits(l, gpus)
	}
	l.perNode = world / cl.Nodes
	return l, cmp.Or(w.even(l, gpus), w.fits(l, gpus), w.several(l))
}

// even refuses nodes with different numbers of processes, and an engine that lies on two nodes
// although it fits on one: its speed would be that of the network.
func (w *Workload) even(l layout, gpus int) error {
	pos := w.cfg.Engine.PosOf(dpKey)
	each := l.tp * l.pp
	world := each * l.dp
	if world%l.nodes != 0 {
		return source.Errorf(pos, "TP %d x PP %d x DP %d is %d processes, which %s cannot share evenly", l.tp, l.pp,
			l.dp, world, quantity.Count(l.nodes, "node")).Hintf("change the sizes, or num_nodes")
	}
	if each <= max(gpus, l.perNode) && l.perNode%each != 0 {
		return source.Errorf(pos, "DP %d on %s puts an engine of %s on two nodes, although it fits on one", l.dp,
			quantity.Count(l.nodes, "node"), quantity.Count(each, "GPU")).
			Hintf("set data_parallel_size to a multiple of %d, or change num_nodes", l.nodes)
	}
	return nil
}

// engines is the data-parallel size: what is set, what the processes are enough for, or on "auto"
// what the GPUs of each node are enough for; those of all nodes, if an engine needs more than a node
// has.
func (w *Workload) engines(nodes, gpus, each int) (int, error) {
	v := w.cfg.Engine.Get(dpKey)
	auto, _ := v.Text()
	n := w.cfg.Processes
	pos := w.test.CmdArgs.PosOf("processes")
	switch {
	case n != nil && *n < 1:
		return 1, source.Errorf(pos, "processes is %d, must be 1 or more", *n)
	case n != nil && (v == nil || auto == "auto"):
		if *n%each != 0 {
			return 1, source.Errorf(pos, "%d processes are no whole number of engines of %s (TP x PP)", *n,
				quantity.Count(each, "GPU")).Hintf("write a multiple of %d", each)
		}
		return *n / each, nil
	case v == nil:
		return 1, nil
	case auto == "auto" && gpus == 0:
		return 1, source.Errorf(v.Pos, "engine.%s is \"auto\", but the number of GPUs is not known", dpKey).
			Hintf("write a number, or gpus_per_node in the system file")
	case auto == "auto":
		if each <= gpus {
			return nodes * (gpus / each), nil
		}
		return max(1, nodes*gpus/each), nil
	}
	dp, err := w.size(dpKey)
	if err == nil && n != nil && *n != dp*each && (dp > 1 || *n != 1) {
		err = source.Errorf(pos, "%d processes are not TP x PP x DP, which is %d", *n, dp*each).Hintf("leave it out")
	}
	return dp, err
}

// fits refuses more GPUs than a node has.
func (w *Workload) fits(l layout, gpus int) error {
	if need := l.gpus(); gpus > 0 && need > gpus {
		return source.Errorf(w.cfg.Engine.PosOf(tpKey),
			"TP %d x PP %d x DP %d needs %s on each of %s, but a node has %d", l.tp, l.pp, l.dp,
			quantity.Count(need, "GPU"), quantity.Count(l.nodes, "node"), gpus).
			Hintf("lower the sizes, or raise num_nodes")
	}
	return nil
}

// several refuses what does not go with several processes.
func (w *Workload) several(l layout) error {
	if l.dp > 1 && defaultPrompts[w.cfg.Benchmark] == 0 {
		return source.Errorf(w.cfg.Engine.PosOf(dpKey), "`%s` measures one engine, not %d",
			client(w.cfg.Benchmark), l.dp).Hintf("set benchmark = \"throughput\" or \"requests\", or data_parallel_size = 1")
	}
	if v := w.cfg.Engine.Get(executorKey); v != nil {
		if name, _ := v.Text(); name != external {
			return source.Errorf(v.Pos, "engine.%s is %q, but several processes need %q", executorKey, name, external).
				Hintf("remove it")
		}
	}
	if v := w.cfg.Options.Get("async_engine"); v != nil && l.dp > 1 {
		return source.Errorf(v.Pos, "options.async_engine does not go with data_parallel_size %d", l.dp).
			Hintf("remove it")
	}
	prompts, pos := defaultPrompts[w.cfg.Benchmark], w.cfg.Options.PosOf("num_prompts")
	if v := w.cfg.Options.Get("num_prompts"); v != nil {
		prompts, _ = v.Int()
	}
	if l.dp > 1 && prompts < int64(l.dp) {
		return source.Errorf(pos, "%d prompts are fewer than the %d engines that share them", prompts, l.dp).
			Hintf("write num_prompts = %d or more", l.dp)
	}
	return nil
}

// Serve implements plan.Workload.
func (w *Workload) Serve(cl plan.Cluster) (plan.Service, error) {
	l, err := w.layout(cl)
	if err != nil {
		return plan.Service{}, err
	}
	argv := append(w.program(), plan.Texts("--model", w.cfg.Model)...)
	argv = append(append(argv, w.engine(l)...), w.own()...)
	file := w.cfg.Benchmark + ".json"
	s := plan.Service{
		Image: w.cfg.DockerImageURL, Model: w.cfg.Model, Client: client(w.cfg.Benchmark), GPUs: l.gpus(),
		Release:   arguments.Serve.Nearest(arguments.Declared(w.cfg.EngineVersion, w.cfg.DockerImageURL)),
		Config:    map[string]any{"engine": w.cfg.Engine.Plain()},
		Benchmark: w.cfg.Options.Plain(),
	}
	step := plan.Step{
		Name: w.cfg.Benchmark, Nodes: cl.All(), Container: true, Env: cl.Visible(), Argv: argv,
		Log:     "logs/" + w.cfg.Benchmark + "-%t.log",
		Profile: w.profilable(s.Release),
	}
	if l.joined {
		file = w.cfg.Benchmark + "-%t.json"
		step.TasksPerNode = l.perNode
		step.Argv = joined(argv, l.tp*l.pp)
		step.Profile.Inner = len(step.Argv) - len(argv)
		s.Ports = []plan.Port{{Name: rendezvous, Base: rendezvousPort, Step: 1, Count: 1}}
	}
	step.Result = &plan.ResultFile{Option: "--output-json", Name: file}
	s.Steps = []plan.Step{step}
	return s, nil
}

// answerLimit bounds what an engine may take to end a profile.
const answerLimit = 5 * time.Minute

// profilable says how profilers go around the benchmark.
func (w *Workload) profilable(release string) *plan.Profilable {
	p := &plan.Profilable{NoRange: "`" + client(w.cfg.Benchmark) + "` leaves no result if it opens the range (--profile)"}
	if w.cfg.Benchmark == startup || w.cfg.Benchmark == processor {
		p.NoRange = "`" + client(w.cfg.Benchmark) + "` cannot open a range"
	}
	if w.cfg.Benchmark == requests {
		p.VizOption = "--viztracer"
	}
	if defaultPrompts[w.cfg.Benchmark] == 0 {
		return p
	}
	p.Range = func() (words []plan.Word, env []plan.Var, err error) {
		options, vars, err := arguments.CUDAProfiler(release, answerLimit)
		for _, v := range vars {
			env = append(env, plan.Var{Name: v.Name, Value: plan.Text(v.Value)})
		}
		if v := w.cfg.Options.Get("profile"); v == nil || v.Any == false { // which own leaves out
			options = append(options, "--profile")
		}
		if err == nil && w.cfg.Engine.Has("profiler_config") {
			err = errors.New("the engine has a profiler_config of its own")
		}
		return plan.Texts(options...), env, err
	}
	return p
}

// program are the first words of the benchmark.
func (w *Workload) program() []plan.Word {
	if w.cfg.Benchmark == requests {
		return append([]plan.Word{plan.Self()}, plan.Texts("job", "requests", "--")...)
	}
	return plan.Texts("vllm", "bench", w.cfg.Benchmark)
}

// joined are the words of a process of several, which is told its rank.
func joined(argv []plan.Word, each int) []plan.Word {
	lead := append([]plan.Word{plan.Self()}, plan.Texts("job", "rank", "--joined", strconv.Itoa(each), "--port")...)
	lead = append(lead, plan.Word{plan.PortNumber(rendezvous)}, plan.Text("--"))
	return append(lead, argv...)
}

// engine are the words of the engine's options.
func (w *Workload) engine(l layout) []plan.Word {
	t := source.Merge(w.cfg.Engine, nil)
	put := func(key string, value any) { t.Set(key, &source.Value{Pos: t.PosOf(key), Any: value}) }
	if t.Has(dpKey) || l.dp > 1 {
		put(dpKey, int64(l.dp))
	}
	if l.joined && !t.Has(executorKey) {
		put(executorKey, external)
	}
	return serving.Options(t, serving.Negatable)
}

// own are the words of the benchmark's options, with those that should not depend on the release.
func (w *Workload) own() []plan.Word {
	t := source.Merge(w.cfg.Options, nil)
	put := func(key string, value any) {
		if !t.Has(key) {
			t.Set(key, &source.Value{Pos: t.Pos, Any: value})
		}
	}
	switch w.cfg.Benchmark {
	case startup:
		put("num_iters_cold", int64(3))
		put("num_iters_warmup", int64(1))
		put("num_iters_warm", int64(3))
	case processor:
		put("metric_percentiles", "50,90,95,99")
	case throughput:
		if !t.Has("dataset_path") && !t.Has("dataset") {
			put("dataset_name", "random") // distinct prompts, drawn from the engine's seed
		}
	}
	return serving.Options(t, serving.StoreTrue)
}
