package dynamo

import (
	"slices"
	"strconv"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// newest is the version whose options the commands have where a test declares none.
const newest = "1.6.1"

// Versions from which Dynamo differs.
const (
	modes       = "1.0.0" // --disaggregation-mode; prefill of vLLM needs --kv-transfer-config, and --connector is gone
	zmqEvents   = "1.3.0" // events travel by ZMQ unless told otherwise, so that nothing needs NATS
	statelessKV = "1.4.0" // neither --router-reset-states nor --durable-kv-events
)

// before reports whether the service has an older Dynamo.
func (s *service) before(version string) bool { return arguments.Before(s.Version, version) }

// imageTag is an image of Dynamo's releases, whose tag is a version.
var imageTag = lazyregexp.New(`(?:^|[/#+])(?:vllm|sglang|tensorrtllm|dynamo)-(?:runtime|frontend)(?:-[a-z0-9]+)?` +
	`[:+]v?(\d+\.\d+\.\d+)`)

// imageVersion is the version that an image says it has, "" if it does not.
func imageVersion(image string) string {
	if tag := imageTag.FindStringSubmatch(image); tag != nil {
		return tag[1]
	}
	return ""
}

// The roles of workers. An aggregated one does the work of both.
const (
	prefill    = serving.Prefill
	decodeRole = serving.Decode
	aggregated = "worker"
)

// A backend is an engine as a worker of Dynamo.
type backend struct {
	module     string
	model      []string // options that take the model; a path, and the name to serve
	tp, pp, dp []string // names of the options of the parallel sizes
	attention  string   // the flag with which dp shares the ranks of tp, "" for none
	noGPU      bool     // it only behaves as if
	port       string   // an option with a port that each worker of a node needs for itself, "" for none
	bootstrap  string   // option of prefill that takes the port at which decode finds it, with underscores, "" for none
	registers  string   // the option that says how many instances one process registers, "" for one
	booleans   serving.Booleans
	planned    map[string]string // options that the plan sets, with underscores → what to do instead
	role       func(s *service, role string) []plan.Word
}

var backends = map[string]*backend{
	"vllm": {
		module: vllmModule, model: []string{"--model"},
		tp: []string{"tensor_parallel_size", "tp"}, pp: []string{"pipeline_parallel_size", "pp"},
		dp:      []string{"data_parallel_size", "dp"},
		planned: vllmPlanned, role: vllmRole,
	},
	"sglang": sglang, dsr1: sglang,
	"mocker": {
		module: "dynamo.mocker", model: []string{"--model-path", "--model-name"}, bootstrap: "bootstrap_ports",
		noGPU: true, registers: "num_workers",
		planned: plannedModes, role: mockerRole,
	},
}

var sglang = &backend{
	module: "dynamo.sglang", model: []string{"--model-path", "--served-model-name"}, port: "port",
	bootstrap: "disaggregation_bootstrap_port", booleans: serving.StoreTrue,
	tp: []string{"tensor_parallel_size", "tp_size", "tp"}, pp: []string{"pipeline_parallel_size", "pp_size", "pp"},
	dp: []string{"data_parallel_size", "dp_size", "dp"}, attention: "enable_dp_attention",
	planned: withPlanes(map[string]string{"nnodes": spanHint, "node_rank": spanHint, "dist_init_addr": spanHint,
		"disaggregation_mode": saidByTable}),
	role: sglangRole,
}

// spelt is an option as the engine knows it: vLLM has the short names of sizes with one dash only.
func (b *backend) spelt(key string) string {
	for _, names := range [][]string{b.tp, b.pp, b.dp} {
		if b.module == vllmModule && slices.Contains(names, key) {
			return names[0]
		}
	}
	return key
}

// vllmModule is Dynamo's worker of vLLM.
const vllmModule = "dynamo.vllm"

const (
	saidByTable = "remove it: [prefill_worker] and [decode_worker] say it"
	spanHint    = "leave it out; nodes_per_worker says it"
)

var vllmPlanned = withPlanes(map[string]string{
	"disaggregation_mode": saidByTable, "is_prefill_worker": saidByTable, "is_decode_worker": saidByTable,
	"nnodes": spanHint, "node_rank": spanHint, "master_addr": spanHint, "master_port": spanHint, "headless": spanHint,
})

// withPlanes are options that the plan sets, and those that say how processes find each other: one
// process that differs from the others is never found.
func withPlanes(planned map[string]string) map[string]string {
	for option, key := range map[string]string{"discovery_backend": "discovery", "store_kv": "discovery",
		"request_plane": "request_plane", "event_plane": "event_plane"} {
		planned[option] = "remove it, and write dynamo." + key + " for all processes"
	}
	return planned
}

// modelKeys are options of workers that dynamo.model says.
var modelKeys = []string{"model", "model_path", "served_model_name", "model_name"}

var plannedModes = withPlanes(map[string]string{
	"disaggregation_mode": saidByTable, "is_prefill_worker": saidByTable, "is_decode_worker": saidByTable,
})

// vllmRole are the options that make a worker of vLLM prefill or decode.
func vllmRole(s *service, role string) []plan.Word {
	switch {
	case role == aggregated:
		return nil
	case !s.before(modes):
		return plan.Texts("--disaggregation-mode", role)
	case role == prefill:
		return plan.Texts("--is-prefill-worker")
	}
	return nil
}

// sglangRole is the same for SGLang, whose own options say how blocks travel.
func sglangRole(_ *service, role string) []plan.Word {
	if role == aggregated {
		return nil
	}
	return plan.Texts("--disaggregation-mode", role)
}

// mockerRole is the same for the mocker.
func mockerRole(s *service, role string) []plan.Word {
	switch {
	case role == aggregated:
		return nil
	case !s.before(modes):
		return plan.Texts("--disaggregation-mode", role)
	}
	return plan.Texts("--is-" + role + "-worker")
}

// component is the name under which a worker registers.
func component(role string) string {
	if role == prefill {
		return prefill
	}
	return "backend"
}

// maxSize is far above what a worker can have of anything.
const maxSize = 1 << 16

// size is a parallel size of a worker, by the only one of its names that is there.
func (r *role) size(names []string, c *source.Complaints) int {
	found, n := "", 1
	for _, name := range names {
		v := r.args.Get(name)
		if v == nil {
			continue
		}
		if found != "" {
			c.Add(source.Errorf(v.Pos, "%s.args has %s and %s, which are one option", r.label(), found, name).
				Hintf("remove one of them"))
		}
		found = name
		x, ok := intOf(v)
		if !ok || x < 1 || x > maxSize {
			c.Add(source.Errorf(v.Pos, "%s.args.%s is %s, must be 1 to %d", r.label(), name, v.Shown(), maxSize).
				Hintf("write a whole number: %s = 1", name))
			continue
		}
		n = x
	}
	return n
}

// intOf is a number, also one that is written as a text.
func intOf(v *source.Value) (int, bool) {
	if v == nil {
		return 0, false
	}
	if text, isText := v.Text(); isText {
		n, err := strconv.Atoi(text)
		return n, err == nil
	}
	n, ok := v.Int()
	return int(n), ok
}
