package plan

// Kubernetes says where a run is deployed, and as what. Its service is a DynamoGraphDeployment, or
// a Deployment for each role; its clients are the containers of one Job.
type Kubernetes struct {
	Kubeconfig string `json:"kubeconfig,omitempty"` // file, absolute; "" for the one that kubectl finds
	Context    string `json:"context,omitempty"`    // of the kubeconfig; "" for its current one
	Namespace  string `json:"namespace"`
	// Name is that of the service; the Job and whatever else the run creates have it with a suffix.
	Name string `json:"name"`
	// Graph is the version of DynamoGraphDeployment: "v1beta1", "v1alpha1"; "" for a service
	// without Dynamo.
	Graph       string   `json:"graph,omitempty"`
	ClientImage string   `json:"client_image"` // of the Job
	PullSecrets []string `json:"pull_secrets,omitempty"`
	TokenSecret string   `json:"token_secret,omitempty"` // holds HF_TOKEN; "" for none
	ModelCache  *Claim   `json:"model_cache,omitempty"`  // nil: every pod fetches the model
	Ready       Seconds  `json:"ready_limit_s"`          // until the service has answered one request
	Limit       Seconds  `json:"limit_s"`                // of the Job, with the time until it is ready
	Pods        Pods     `json:"pods"`
}

// Pods is what the pods of a run have besides their commands.
type Pods struct {
	Backend        string            `json:"backend,omitempty"`         // engine of a graph; "" if the API has no name of it
	RuntimeVersion string            `json:"runtime_version,omitempty"` // of Dynamo, where the image's tag does not say it
	GPUResource    string            `json:"gpu_resource,omitempty"`
	SharedMemory   string            `json:"shared_memory,omitempty"` // of servers; "" for the default
	ClientCPU      string            `json:"client_cpu"`
	ClientMemory   string            `json:"client_memory"`
	NodeSelector   map[string]string `json:"node_selector,omitempty"` // of servers
	Tolerations    []Toleration      `json:"tolerations,omitempty"`   // of servers
	Labels         map[string]string `json:"labels,omitempty"`
	Annotations    map[string]string `json:"annotations,omitempty"`
}

// Toleration is a taint that a pod tolerates. Its fields are Kubernetes' own.
type Toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// Claim is a volume claim that exists before the run.
type Claim struct {
	Name string `json:"name"`
	Path string `json:"path"` // in every container
}

// RunLabel is the label of everything that a run creates in a cluster; its value is the run id.
// Objects are found by it, never by their names.
const RunLabel = "profllm.io/run"

// RunVolume is the folder of the Job's container that stands for the run directory.
const RunVolume = "/profllm"

// JobName is the name of the Job that measures.
func (k *Kubernetes) JobName() string { return k.Name + "-client" }

// The lines by which the Job's container says what it did. All else that it prints is the clients'
// own. An archive is a gzipped tar of the files of the run directory as base64: raw/ and logs/, also
// those in the directories of its loads. It stands between a line that begins with ArchiveBegins and
// one that is ArchiveEnds.
const (
	PhaseEnded    = "profllm: phase "   // NAME exit CODE
	ArchiveBegins = "profllm: archive " // BYTES sha256:HEX, of the file that the base64 stands for
	ArchiveEnds   = "profllm: archive ends"
)
