package dynamo

import (
	"cmp"
	"strings"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// Config is [cmd_args] of an AIDynamo test, as CloudAI has it; keys of profllm's are marked so.
// Keys of its tables may be spelt with dashes.
type Config struct {
	DockerImageURL string        `toml:"docker_image_url"`         // Image of every process but exporters.
	StorageDir     *string       `toml:"storage_cache_dir"`        // Of the caches on each node; default /tmp.
	StartupCmd     *string       `toml:"startup_cmd"`              // Shell text, run on every node before the service.
	StartupImage   *string       `toml:"startup_cmd_docker_image"` // Image in which it runs; default: on the host.
	Dynamo         *source.Table `toml:"dynamo,required"`          // The service.
	LMCache        *source.Table `toml:"lmcache"`                  // Becomes LMCache's file, as it stands.
	Controller     *source.Table `toml:"lmcache_controller"`       // cmd is the command of LMCache's controller.
	HiCache        *source.Table `toml:"hicache"`                  // Becomes SGLang's file of HiCache, as it stands.
	GenAIPerf      *source.Table `toml:"genai_perf"`               // GenAI-Perf, if workloads names it.
	AIPerf         *source.Table `toml:"aiperf"`                   // AIPerf; its options stand in args.
	Phases         *source.Value `toml:"aiperf_phases"`            // Loads one after the other, each with a name.
	Accuracy       *source.Table `toml:"aiperf_accuracy"`          // Program that asks for accuracy after the loads.
	Workloads      *string       `toml:"workloads"`                // Who measures: aiperf or genai-perf; default aiperf.
	// Options that go to AIPerf or to the frontend without a check of their names and values, such as
	// "x, y" (profllm): those of a release that profllm does not know.
	Unchecked string `toml:"unchecked_options"`
}

// service is [cmd_args.dynamo].
type service struct {
	Model string `toml:"model"` // Hugging Face id or path; default Qwen/Qwen3-0.6B.
	// vllm, sglang, sglang_dsr1, whose workers go over all nodes of their role, or mocker, which
	// needs no GPU (profllm); default vllm.
	Backend string `toml:"backend"`
	// Version of Dynamo, whose options the commands have (profllm); default: the tag of the image,
	// else the newest that profllm knows.
	Version  string `toml:"version"`
	Endpoint string `toml:"endpoint"` // Path of the API, read, without effect: clients have one of their own.
	// What moves KV blocks: nixl, lmcache, kvbm or none, or several of them.
	Connector *source.Value `toml:"connector"`
	Workspace *string       `toml:"workspace_path"` // Read, without effect: commands begin in the run's folder.
	Ingress   string        `toml:"ingress_cmd"`    // Command of the frontend; default python3 -m dynamo.frontend.
	NodeSetup *string       `toml:"node_setup_cmd"` // Shell text, run on every node before the service.
	Port      int           `toml:"port"`           // Base of the frontend's port; default 8000.
	// Node of the frontend, from 0 (profllm); default: that of the first worker of decode. One more
	// node than the workers have is its own.
	FrontendNode *int          `toml:"frontend_node"`
	EtcdCmd      string        `toml:"etcd_cmd"`       // Command of etcd, where there is one.
	EtcdPort     int           `toml:"etcd_port"`      // Base of its port; default 2379.
	NATSCmd      string        `toml:"nats_cmd"`       // Command of NATS, where there is one.
	NATSPort     int           `toml:"nats_port"`      // Base of its port; default 4222.
	Exporter     *source.Table `toml:"dcgm_exporter"`  // NVIDIA's exporter of GPU metrics on every node.
	Prefill      *source.Table `toml:"prefill_worker"` // Workers of prefill.
	Decode       *source.Table `toml:"decode_worker"`  // Workers of decode, or of both where prefill has no nodes.

	// How processes find each other: etcd, or file, on a folder of the run (profllm); default etcd
	// over several nodes, since Dynamo watches the folder by inotify, which network file systems do
	// not pass on.
	Discovery string `toml:"discovery"`
	// How requests travel: tcp or nats, before Dynamo 1.3 also http (profllm); default tcp.
	RequestPlane string `toml:"request_plane"`
	// How events travel: zmq or nats (profllm); default zmq, before Dynamo 1.3 nats.
	EventPlane string `toml:"event_plane"`
	// Bases of the workers' ports (profllm).
	Ports *source.Table `toml:"ports"`
	// Time for the workers to become ready and to register, s (profllm); default 1800.
	WaitSeconds *int `toml:"serve_wait_seconds"`
}

// worker is [cmd_args.dynamo.prefill_worker] and decode_worker.
type worker struct {
	Cmd   string        `toml:"cmd"`                       // Command in words; default: the backend's module.
	Regex *string       `toml:"worker_initialized_regex"`  // Read, without effect: profllm counts what registered.
	Multi bool          `toml:"multiple_workers_per_node"` // As many workers on a node as its GPUs suffice for.
	Nodes *source.Value `toml:"num_nodes"`                 // Nodes of the role; default 1. 0 prefill nodes: aggregated serving.
	Hosts *string       `toml:"nodes"`                     // Hosts of the role, in place of num_nodes.
	Args  *source.Table `toml:"args"`                      // Options of the worker.
	Extra *source.Value `toml:"extra_args"`                // Further words of the command.
	// Workers on each node (profllm); default 1, or as many as the GPUs suffice for with
	// multiple_workers_per_node.
	PerNode *int `toml:"workers_per_node"`
	// Nodes that one worker goes over (profllm); default 1: num_nodes are as many workers. With it,
	// num_nodes is a multiple of it, and its parallel sizes are those over all its nodes.
	Span *int `toml:"nodes_per_worker"`
}

// Defaults of CloudAI's workload.
const (
	defaultModel    = "Qwen/Qwen3-0.6B"
	defaultIngress  = "python3 -m dynamo.frontend"
	defaultPort     = 8000
	defaultEndpoint = "v1/chat/completions"
	defaultEtcd     = "etcd"
	defaultEtcdPort = 2379
	defaultNATS     = "nats-server -js"
	defaultNATSPort = 4222
	defaultWait     = 1800
)

// decode reads a table whose keys may be spelt with dashes.
func decode(t *source.Table, into any, c *source.Complaints) *source.Table {
	plain := spelled(t, c)
	c.Add(source.Decode(plain, into))
	return plain
}

// spelled is a table with underscores in its keys. One that is there in both spellings is refused,
// unless nobody listens.
func spelled(t *source.Table, c *source.Complaints) *source.Table {
	if t == nil {
		return source.NewTable(source.Pos{})
	}
	t = serving.Once(t, c)
	plain := source.NewTable(t.Pos)
	for _, key := range t.Keys() {
		plain.Set(strings.ReplaceAll(key, "-", "_"), t.Get(key))
	}
	return plain
}

// defaults fills in what the table of the service does not say.
func (s *service) defaults(image string) {
	s.Model, s.Backend = cmp.Or(s.Model, defaultModel), cmp.Or(s.Backend, "vllm")
	s.Version = strings.TrimPrefix(cmp.Or(s.Version, imageVersion(image), newest), "v")
	s.Ingress, s.Port = cmp.Or(s.Ingress, defaultIngress), cmp.Or(s.Port, defaultPort)
	s.EtcdCmd, s.EtcdPort = cmp.Or(s.EtcdCmd, defaultEtcd), cmp.Or(s.EtcdPort, defaultEtcdPort)
	s.NATSCmd, s.NATSPort = cmp.Or(s.NATSCmd, defaultNATS), cmp.Or(s.NATSPort, defaultNATSPort)
}
