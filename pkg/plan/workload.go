package plan

import (
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// A Workload turns one test into the service that is measured.
type Workload interface {
	Serve(Cluster) (Service, error)
}

// A Deployer is a Workload whose service can be pods of Kubernetes: each role is all instances of its
// kind.
type Deployer interface {
	Deploy(Cluster) (Service, error)
}

// A Client is a command that measures a service, once every role is ready.
type Client interface {
	Command(Target) (Step, error)
}

// A Launcher rewrites a step to run inside a container runtime. It is called
// once for each step whose Container is set.
type Launcher interface {
	Wrap(Step, Container) (Step, error)
}

// Cluster is what a workload may know of the place it will run at.
type Cluster struct {
	Nodes        int    // of the allocation
	GPUsPerNode  int    // 0: not known
	TasksPerNode int    // the site's ntasks_per_node, 0: not said
	MPI          string // the site's mpi, "": not said
	VisibleGPUs  []int  // from CUDA_VISIBLE_DEVICES, nil if not set
	Shared       bool   // others use the nodes' GPUs as well: take no more than are needed
	Dir          string // of the run, absolute, as every step sees it
	RunID        string
	Simulated    bool
	API          string // version of DynamoGraphDeployment; for a Deployer only
	ProxyImage   string // image with profllm, "": none; for a Deployer only
}

// All is the whole allocation.
func (c Cluster) All() Slice { return Slice{Count: c.Nodes} }

// MPIOptions are srun's options for ranks that find each other: the site's mpi,
// else fallback. None if both are "", which leaves the script's --mpi=none, and in
// a simulated run, whose stand-ins look for nobody.
func (c Cluster) MPIOptions(fallback string) []Word {
	if c.MPI != "" {
		fallback = c.MPI
	}
	if fallback == "" || c.Simulated {
		return nil
	}
	return Texts("--mpi=" + fallback)
}

// Visible sets the GPUs that the environment names inside a step; none where it
// names none, which leaves them to Slurm.
func (c Cluster) Visible() []Var {
	if c.VisibleGPUs == nil {
		return nil
	}
	return []Var{{Name: "CUDA_VISIBLE_DEVICES", Value: Text(FormatGPUs(c.VisibleGPUs))}}
}

// Program is the command line of a program that is not there in a simulated run:
// there a stand-in of that name is given the same arguments.
func (c Cluster) Program(argv []Word) []Word {
	if !c.Simulated {
		return argv
	}
	return append([]Word{Self(), Text("sim")}, argv...)
}

// Service is what a workload answers.
type Service struct {
	Steps         []Step         // of a test without a service: what is run, one after the other
	Client        string         // who measures in these steps, for the record; "" for nobody
	Benchmark     map[string]any // its options
	GPUs          int            // of each node that these steps use; 0: not known
	Setup         []Step         // before any role starts
	Files         []File         // that the job writes before
	Mounts        []string       // that containers need besides the test's own
	Roles         []Role
	Ports         []Port
	Image         string
	Model         string
	Served        string   // what requests call the model, "" for Model
	EngineVersion string   // that every engine must say, "" for any
	Release       string   // whose options the engines have: a version, "" if that is not known
	OwnOptions    []string // that the engines have besides those of the release
	Endpoint      Endpoint // where clients send requests
	EndpointRole  string   // the role that answers there
	ClientHost    string   // overrides the address of that role, "" for none
	ClientNodes   Slice    // where clients run
	MetricsURLs   []Word   // of the servers' counters; nil: of the endpoint and of every engine
	Disaggregated bool

	SimulatedEngine bool           // see Plan
	Config          map[string]any // kind of role → engine arguments
	Cache           Cache
	Torch           *Torch   // nil: profllm cannot start PyTorch's profiler in the engines
	Graph           *Graph   // on Kubernetes: it is deployed as one of Dynamo's; nil: as Deployments
	Notes           []string // what a person should know, e.g. keys without effect
}

// Graph is a DynamoGraphDeployment beside its components.
type Graph struct {
	API            string // its version
	Backend        string // name of the engine in that API, "" if it has none
	RuntimeVersion string // of Dynamo, where the tag of the image does not say it
}

// Cache says how the engines of a service are told to empty their prefix caches.
type Cache struct {
	Path string // of a POST, "" if they cannot be told
	// More are paths of POSTs that empty further caches, in releases that have them: of images that
	// were preprocessed, or encoded.
	More []string
	Env  []Var // what an engine needs to listen to it
	Off  bool  // the engines have none
}

// Torch says how PyTorch's profiler runs inside the engines of a service.
type Torch struct {
	Start, Stop string // paths of the POSTs that start and stop it
	// Configure returns what makes an engine write traces into a folder: options of its command
	// and its environment. config has the user's settings; limit is how long an engine may write.
	Configure func(config *source.Table, dir string, limit time.Duration) ([]Word, []Var, error)
	// Range returns what makes the same POSTs open and close a capture range of CUDA's profiler,
	// for nsys; nil: the engines have no such thing. limit is how long an engine may take to answer.
	Range func(limit time.Duration) ([]Word, []Var, error)
}

// Target is what a client measures.
type Target struct {
	Host   Word // address, without scheme
	Port   Word
	Model  string
	Served string // what requests call the model, "" for Model
	Nodes  Slice  // where a client of one process runs: one node
	All    Slice  // the nodes of clients, for one of several processes
	Dir    string // where it writes, absolute
	GPUs   int    // of all servers

	Disaggregated bool
	Simulated     bool   // the client is a stand-in
	MetricsURLs   []Word // of the pages with the servers' counters
}

// Container is what a launcher needs to know.
type Container struct {
	Image     string
	Mounts    []string // SRC:DST or SRC:DST:OPTIONS
	MountHome bool
	Binary    string   // profllm itself, which must be visible inside
	Dir       string   // where the command starts; it is mounted at its own path
	Env       []string // names of the job's variables
	Args      []string // of the runtime, from the site
	RDMA      bool     // steps with GPUs get the node's devices of RDMA, where they are not there anyway
	Security  string   // of steps with GPUs: config.Unconfined, config.Privileged, or "" for the runtime's default
}
