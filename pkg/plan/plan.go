// Package plan is the plan of one run: which role runs on which slice of nodes with
// which GPUs and ports, the full command of every process, how readiness is seen, and
// what the numbers will be judged against. Make builds it; which runs a scenario has is
// decided by package planner.
//
// A Plan is the contract between planning and everything after it; it is stored
// as plan.json. The package runs nothing and prints no script.
package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/config"
)

// Schema is the version written into plan.json.
const Schema = "profllm.plan/2"

// Plan is one service and what is measured on it: a test, or a point of its
// sweep. It is executed by one job, or by a part of one (see Batch).
type Plan struct {
	Schema    string    `json:"schema"`
	RunID     string    `json:"run_id"`
	Version   string    `json:"version"` // of profllm
	Created   time.Time `json:"created"`
	Scenario  string    `json:"scenario"`
	Test      string    `json:"test"` // the test's id
	Name      string    `json:"name"` // the test's name
	Iteration int       `json:"iteration"`
	Step      int       `json:"step,omitempty"` // first point of a sweep that runs here, from 1; 0: no sweep
	Workload  string    `json:"workload"`
	Dir       string    `json:"dir"`                 // the run directory, absolute
	Binary    string    `json:"binary"`              // profllm on the nodes
	Simulated bool      `json:"simulated,omitempty"` // a rehearsal: stand-ins for every program
	// the engines only behave as if, although they are started as real ones are: Dynamo's mocker
	SimulatedEngine bool `json:"simulated_engine,omitempty"`

	Job        Job         `json:"job"`
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"`   // nil: the run is a job of Slurm, or of this machine
	GPUHourUSD *float64    `json:"gpu_hour_usd,omitempty"` // the site's price of an hour of one GPU

	Launcher    string `json:"launcher"`
	Image       string `json:"image,omitempty"`
	ImageDigest string `json:"image_digest,omitempty"` // of the staged file
	// what the file was imported from: REFERENCE@DIGEST, without @DIGEST if the registry's is
	// not known
	ImageSource string   `json:"image_source,omitempty"`
	Mounts      []string `json:"mounts,omitempty"`
	// sources of mounts that submission makes where they are missing, absolute
	Folders []string `json:"folders,omitempty"`
	// variables of the job whose values must not have a line break
	OneLine []string `json:"one_line,omitempty"`
	// variables of the submitting shell that the job does without
	Unset []string `json:"unset,omitempty"`
	// Hugging Face home of the steps, at the host's path; "" where definitions or the nodes say
	// it
	ModelCache   string        `json:"model_cache,omitempty"`
	CompileCache *CompileCache `json:"compile_cache,omitempty"` // nil: where each engine keeps it
	// interface by which the job's nodes reach each other: a name, or config.AutoInterface;
	// "" where nobody sets it
	SocketInterface string `json:"socket_interface,omitempty"`
	Prologue        string `json:"prologue,omitempty"`    // shell text of the site
	CustomBash      string `json:"custom_bash,omitempty"` // shell texts before commands, which hold them already
	Env             []Var  `json:"env,omitempty"`         // of the whole job
	Files           []File `json:"files,omitempty"`       // that the job writes before its servers start

	PreTest   []Hook   `json:"pre_test,omitempty"`  // gate the rest: all must succeed
	PostTest  []Hook   `json:"post_test,omitempty"` // run once the roles are stopped, whatever happened
	Setup     []Step   `json:"setup,omitempty"`     // one after the other, before any role starts
	Ports     []Port   `json:"ports"`
	Roles     []Role   `json:"roles"`                // none for a test without a service
	Loads     []Load   `json:"loads"`                // one after the other, once every role is ready
	CachePath string   `json:"cache_path,omitempty"` // of the POST that empties the prefix cache of an engine
	CacheMore []string `json:"cache_more,omitempty"` // of POSTs that empty its further caches, if its release has them
	Tracing   *Tracing `json:"tracing,omitempty"`    // of the engines, during each load; nil: none
	APICheck  *Step    `json:"api_check,omitempty"`  // gates the loads once every role is ready; nil: nothing does
	Config    Config   `json:"config"`               // of the service
	Notes     []string `json:"notes,omitempty"`      // what a person should know, e.g. keys without effect

	Source Source  `json:"source,omitzero"`  // where the definitions and the model come from
	Locked *Locked `json:"locked,omitempty"` // what must not differ from an earlier run; nil: nothing

	Rehearsal *Rehearsal `json:"rehearsal,omitempty"` // nil: no rehearsal
	Serve     *Serve     `json:"serve,omitempty"`     // only servers, and nothing is measured; nil: a measurement

	Preflight  *config.Preflight `json:"preflight,omitempty"`  // nil: the defaults
	Telemetry  *Telemetry        `json:"telemetry,omitempty"`  // nil: nothing is sampled of the nodes
	Signatures []Signature       `json:"signatures,omitempty"` // of the site's own failures

	Accept map[string]float64 `json:"accept,omitempty"` // thresholds of checks that the test sets
}

// Rehearsal is what a rehearsal changes without planning anything else.
type Rehearsal struct {
	Speed int     `json:"speed"`         // simulated time passes so many times faster; at least 1
	Ready Seconds `json:"ready_limit_s"` // most that a role may take to become ready
}

// HoldStep is the name of the step that keeps the job of a Serve going.
const HoldStep = "hold"

// The names of clients that measure no speed. The pages of an engine's counters are named after
// the client that ended, so that none is called as the pages before and after all clients are.
const (
	EvalStep      = "eval"       // asks questions whose answers are known
	AfterLoadStep = "after-load" // shell text behind the others
)

// Serve says how long the servers of a run stay up that measures nothing.
type Serve struct {
	For Seconds `json:"for_s,omitempty"` // once they are ready; 0: until the job is told to end
}

// Speed is how many times faster simulated time passes; 1 if the engine is real.
func (p *Plan) Speed() int {
	if p.Rehearsal == nil {
		return 1
	}
	return p.Rehearsal.Speed
}

// ReadyLimit is how long a role may take to become ready.
func (p *Plan) ReadyLimit(r *Role) time.Duration {
	if p.Rehearsal == nil {
		return time.Duration(r.Timeout)
	}
	return time.Duration(min(r.Timeout, p.Rehearsal.Ready))
}

// Telemetry is what is sampled of every node of the job while it runs.
type Telemetry struct {
	Interval Seconds `json:"interval_s"` // between two looks at a node and its GPUs
}

// Source is what was seen of files when the run was planned.
type Source struct {
	// commit of the scenario file's repository, with -dirty if files were changed
	Git          string     `json:"git,omitempty"`
	Repositories []Checkout `json:"repositories,omitempty"` // git_repos that were staged
	// snapshot in the Hugging Face home, "" if it cannot be seen from here
	ModelRevision string `json:"model_revision,omitempty"`
}

// Checkout is a clone at a commit.
type Checkout struct {
	URL    string `json:"url"`
	Commit string `json:"commit"` // full hash, with -dirty if files were changed
}

// Locked is what a run that is repeated must find; "" is not checked.
type Locked struct {
	RunID         string `json:"run_id"` // of the run that was locked
	EngineVersion string `json:"engine_version,omitempty"`
	ImageDigest   string `json:"image_digest,omitempty"`
	ModelRevision string `json:"model_revision,omitempty"`
}

// Signature is a line that a failure of the site prints, as its system file has
// it. It travels with the plan, since a run is explained without that file.
type Signature struct {
	ID     string `json:"id"`
	Area   string `json:"area"`
	Kind   string `json:"kind"`
	Regex  string `json:"regex"`
	Sample string `json:"sample"`
	Role   string `json:"role"`
	Next   string `json:"next"`
	Where  string `json:"where,omitempty"` // file:line:col
}

// Signatures returns those of a system file.
func Signatures(s *config.System) []Signature {
	var list []Signature
	for _, x := range s.Signatures {
		list = append(list, Signature{x.ID, x.Area, x.Kind, x.Regex, x.Sample, x.Role, x.Next, x.Pos.String()})
	}
	return list
}

// Load is one thing that is done with a service, and measured: the clients that
// run one after the other, and what they were asked for. Several loads on one
// service are the phases of a test, or points of a sweep that differ in the
// client only; each has a directory, a result and a verdict of its own.
type Load struct {
	Name  string `json:"name,omitempty"` // a path element; "" for the only one
	RunID string `json:"run_id"`         // of its result
	Dir   string `json:"dir"`            // absolute; the plan's own for the only one
	// what is done to the prefix cache before it: CacheReset, or "" for nothing
	Cache     string         `json:"cache,omitempty"`
	Step      int            `json:"step,omitempty"`   // of the sweep, from 1; 0: no sweep
	Values    []Assignment   `json:"values,omitempty"` // what the sweep chose here, for all of the run
	Repeat    *Repeat        `json:"repeat,omitempty"` // nil for a load that is measured once
	Clients   []Step         `json:"clients"`
	Expect    Expect         `json:"expect"`
	Client    string         `json:"client,omitempty"`    // who measures, "" for nobody
	Benchmark map[string]any `json:"benchmark,omitempty"` // the client's arguments
	// if it fails, it is the last
	StopOnFailure bool `json:"stop_on_failure,omitempty"`
}

// Repeat places a load among those that measure the same thing.
type Repeat struct {
	Group string `json:"group"` // shared by all of them
	Index int    `json:"index"` // 0 for the first
	Of    int    `json:"of"`

	Until *Until `json:"until,omitempty"` // nil: all of them run
}

// Until says when a series of repeats is over before its last.
type Until struct {
	Percent float64  `json:"percent"`          // half the width of the interval of each median, of the median
	Metrics []string `json:"metrics"`          // keys of results
	Time    Seconds  `json:"time_s,omitempty"` // that the series may take; 0: no limit
}

// CacheReset empties the engines' prefix caches before a load.
const CacheReset = "reset"

// Assignment is a value that a sweep chose.
type Assignment struct {
	Path  string `json:"path"` // as CloudAI spells it: decode.tensor_parallel_size, NUM_NODES
	Value any    `json:"value"`
	Zip   int    `json:"zip,omitempty"` // from 1: settings with the same number change together (sweep.zip)
}

// Hook is a run of its own inside the job of another, before or after it.
type Hook struct {
	Name string `json:"name"` // a path element
	Dir  string `json:"dir"`  // absolute: <run>/pre_test/<name>
	Plan *Plan  `json:"-"`    // stored in its own directory
}

// Job is what the batch scheduler is asked for.
type Job struct {
	Name          string   `json:"name"`    // ends in the run ID
	Comment       string   `json:"comment"` // "profllm:<run ID>"
	Nodes         int      `json:"nodes"`
	NodeList      []string `json:"nodelist,omitempty"` // exact hosts; len == nodes
	Exclude       []string `json:"exclude,omitempty"`  // host lists
	Partition     string   `json:"partition,omitempty"`
	Account       string   `json:"account,omitempty"`
	QOS           string   `json:"qos,omitempty"`
	Reservation   string   `json:"reservation,omitempty"`
	Constraint    string   `json:"constraint,omitempty"`
	Distribution  string   `json:"distribution,omitempty"`
	Exclusive     bool     `json:"exclusive,omitempty"`
	GPUsPerNode   int      `json:"gpus_per_node,omitempty"` // asked for as GRES; 0: not asked for
	GPUIDs        []int    `json:"gpu_ids,omitempty"`       // on one machine: these, if the test names them
	NTasksPerNode int      `json:"ntasks_per_node,omitempty"`
	TimeLimit     Seconds  `json:"time_limit_s,omitempty"`
	Grace         Seconds  `json:"grace_s,omitempty"` // TERM comes this long before the limit
	SbatchArgs    []string `json:"sbatch_args,omitempty"`
	SrunArgs      []string `json:"srun_args,omitempty"`
	// variables of the submitting shell that the job gets besides the usual ones; ExportAll:
	// every one
	Export []string `json:"export,omitempty"`

	After []After  `json:"after,omitempty"` // jobs that this one waits for
	Until []string `json:"until,omitempty"` // run directories: this job ends when all of these are over
}

// After orders two jobs through the scheduler.
type After struct {
	Type string `json:"type"` // Slurm's word: after (has started), afterok, afterany
	Dir  string `json:"dir"`  // the run directory that is waited for
}

// Kinds of a Batch.
const (
	Array    = "array"    // a job array: one task for each run
	Sequence = "sequence" // one allocation: one run after the other
)

// Batch is one submission that carries several runs. Each run keeps its
// directory, its script and its verdict.
type Batch struct {
	Schema      string    `json:"schema"` // profllm.batch/1
	RunID       string    `json:"run_id"` // in the job's name, as for a run
	Version     string    `json:"version"`
	Created     time.Time `json:"created"`
	Scenario    string    `json:"scenario"`
	Dir         string    `json:"dir"`                    // absolute; holds batch.json and job.sh
	Kind        string    `json:"kind"`                   // Array or Sequence
	MaxParallel int       `json:"max_parallel,omitempty"` // tasks at once; 0: no limit
	Binary      string    `json:"binary"`
	Job         Job       `json:"job"`
	Runs        []string  `json:"runs"`   // run directories, absolute, in the order of tasks
	Limits      []Seconds `json:"limits"` // time limit of each run; len == len(Runs)
}

// Part is a batch of those runs that keep says, by their index, under another
// name. A sequence gets less time by the limits of the runs that are left out.
func (b *Batch) Part(dir, runID string, created time.Time, keep func(i int) bool) *Batch {
	part := *b
	part.Dir, part.RunID, part.Created, part.Runs, part.Limits = dir, runID, created.UTC(), nil, nil
	part.Job.Name, part.Job.Comment = strings.TrimSuffix(b.Job.Name, b.RunID)+runID, "profllm:"+runID
	for i := range b.Runs {
		switch {
		case keep(i):
			part.Runs, part.Limits = append(part.Runs, b.Runs[i]), append(part.Limits, b.Limits[i])
		case b.Kind == Sequence && part.Job.TimeLimit > b.Limits[i]:
			part.Job.TimeLimit -= b.Limits[i]
		}
	}
	return &part
}

// BatchSchema is the version written into batch.json.
const BatchSchema = "profllm.batch/1"

// Seconds is a duration that JSON holds in seconds.
type Seconds time.Duration

// MarshalJSON writes seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

// UnmarshalJSON reads seconds.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*s = Seconds(f * float64(time.Second))
	return nil
}

// Slice is a contiguous part of the allocation, in allocation order.
type Slice struct {
	Offset int `json:"offset"`
	Count  int `json:"count"`
}

// End is the first node behind the slice.
func (s Slice) End() int { return s.Offset + s.Count }

func (s Slice) String() string {
	if s.Count == 1 {
		return fmt.Sprintf("%d", s.Offset)
	}
	return fmt.Sprintf("%d-%d", s.Offset, s.End()-1)
}

// Role is a part of the service: it stays up until the clients are done.
type Role struct {
	// serve, prefill, decode, proxy; with replicas prefill_0, prefill_1, ...
	Name    string `json:"name"`
	Kind    string `json:"kind,omitempty"`    // the role without its replica's number, "" if it is the name
	Replica int    `json:"replica,omitempty"` // 0 for the first of its kind
	// on Kubernetes one role is all instances of its kind, each on nodes of its own; 0: 1
	Replicas int      `json:"replicas,omitempty"`
	Nodes    Slice    `json:"nodes"`
	GPUs     []int    `json:"gpus,omitempty"` // local ids, the same on each node
	TP       int      `json:"tp,omitempty"`
	PP       int      `json:"pp,omitempty"`
	DP       int      `json:"dp,omitempty"`
	EP       int      `json:"ep,omitempty"` // GPUs over which whole experts are spread; the engine computes it
	Health   Endpoint `json:"health"`
	Timeout  Seconds  `json:"timeout_s"`        // for becoming ready
	Poll     Seconds  `json:"poll_s,omitempty"` // between two looks at whether it is; 0: 0.2 s
	Engine   bool     `json:"engine"`           // an inference engine with /metrics, not a proxy
	Proxy    bool     `json:"proxy,omitempty"`  // profllm's own proxy, whose /metrics count what failed
	Router   bool     `json:"router,omitempty"` // another's, which says what is served and has /metrics of its own
	Helper   bool     `json:"helper,omitempty"` // a process beside the servers, which start once it is ready
	Ray      bool     `json:"ray,omitempty"`    // Ray runs on its nodes
	// the instances of its kind are ranks of one group: none serves on without the others
	Group bool `json:"group,omitempty"`
	// how its processes reach each other over its nodes, and why: "ray, because …"; "" for one alone
	Executor string `json:"executor,omitempty"`
	// what a profiler around its first rank writes, below the run directory or absolute; "" for
	// none
	Report     string `json:"report,omitempty"`
	ReportKind string `json:"report_kind,omitempty"` // VizReport, or "" for that of nsys
	// ranks that the profiler is around, in order; nil: all
	ReportRanks []int `json:"report_ranks,omitempty"`
	// folder of the traces that the engine's own profiler writes, below the run directory; ""
	// for none
	TraceDir string `json:"trace_dir,omitempty"`
	Step     Step   `json:"step"`

	Sizes []Sized `json:"-"` // the keys that TP, PP and DP come from; while planning
	IDs   Sized   `json:"-"` // the key that GPUs come from, "" if they are all of a node; while planning
}

// Endpoint is where a role answers HTTP, on its first node.
type Endpoint struct {
	Port string `json:"port"` // name of the port
	Path string `json:"path"` // "" if it is enough that the port takes connections
	// An endpoint of a worker of Dynamo that the answer must call ready, whatever its status: the
	// mocker's is never that of success.
	Serves string `json:"serves,omitempty"`
	// Instances of each component that the answer of Dynamo's frontend must list; its status is that
	// of success before any has registered.
	Instances map[string]int `json:"instances,omitempty"`
	// The model of a request that must be answered then: a frontend knows it only some time after its
	// workers. "" for none.
	Model string `json:"model,omitempty"`
}

// Step is one srun: the same command on every node of its slice.
type Step struct {
	Name         string `json:"name"`
	Nodes        Slice  `json:"nodes"`
	TasksPerNode int    `json:"tasks_per_node,omitempty"` // 0: 1
	// each rank ends by itself, in its own time; else the first end is the end of all
	Ends      bool   `json:"ends,omitempty"`
	Container bool   `json:"container"`          // run inside the image
	Image     string `json:"image,omitempty"`    // another than the plan's
	Optional  bool   `json:"optional,omitempty"` // of Setup: its failure ends nothing
	Env       []Var  `json:"env,omitempty"`      // set inside the step, where Slurm no longer changes it
	Argv      []Word `json:"argv"`
	Log       string `json:"log"`            // below the run directory; %t is the rank
	Srun      []Word `json:"srun,omitempty"` // further options of srun: the workload's, the launcher's
	// regular expression that a line of the log of one rank must match, "" for none
	Success string `json:"success,omitempty"`

	Secrets []Secret `json:"secrets,omitempty"` // variables that this step alone is given, by its own processes

	// what a profiler around the step's first rank writes, as of a role; "" for none
	Report      string `json:"report,omitempty"`
	ReportKind  string `json:"report_kind,omitempty"`
	ReportRanks []int  `json:"report_ranks,omitempty"` // ranks that the profiler is around, in order; nil: all

	Profile *Profilable `json:"-"` // how a profiler goes around the step, nil: not at all; while planning

	Result *ResultFile `json:"-"` // the file in raw that a measuring step writes, nil: none; while planning
	Inner  int         `json:"-"` // where in Argv the command proper begins, behind what only starts it; while planning
}

// A ResultFile is what a step writes below raw in the directory of its load.
type ResultFile struct {
	Option string // that takes the path
	Name   string
}

// Tasks is the number of ranks.
func (s *Step) Tasks() int { return s.Nodes.Count * max(s.TasksPerNode, 1) }

// Expect is what the clients were asked for, so that a result can be judged.
// Zero means not fixed by the plan.
type Expect struct {
	NumPrompts    int  `json:"num_prompts,omitempty"`
	InputTokens   int  `json:"input_tokens,omitempty"`  // of each request
	OutputTokens  int  `json:"output_tokens,omitempty"` // of each request
	Concurrency   int  `json:"concurrency,omitempty"`
	IgnoreEOS     bool `json:"ignore_eos,omitempty"`
	Accuracy      bool `json:"accuracy,omitempty"` // an accuracy must be there
	Disaggregated bool `json:"disaggregated,omitempty"`
	GPUs          int  `json:"gpus"` // used by all roles on all nodes

	Warmups     int     `json:"warmups,omitempty"`      // requests before the measured ones
	RequestRate float64 `json:"request_rate,omitempty"` // 1/s, the least if it rises; 0: as fast as the cap allows
	// share of a prompt that every prompt begins with; nil: not known
	SharedInput *float64 `json:"shared_input,omitempty"`

	Goodput map[string]float64 `json:"goodput,omitempty"` // limits that a good request meets, ms by ttft, tpot and e2el
}

// Config is what the run was configured with, for the record.
type Config struct {
	Model  string         `json:"model,omitempty"`
	Engine string         `json:"engine_version,omitempty"` // that every engine must say, "" for any
	Server map[string]any `json:"server"`                   // kind of role → engine arguments
	// The release of the engine whose options these arguments are, "" if that is not known.
	Release string `json:"release,omitempty"`
	// Options that the engine has besides those of the release, with underscores.
	OwnOptions []string `json:"own_options,omitempty"`
}

// Option is an option of a role's server that is a text, "" if it is not given.
func (c *Config) Option(r *Role, name string) string {
	args, _ := c.Server[r.KindName()].(map[string]any)
	for _, key := range []string{name, strings.ReplaceAll(name, "_", "-")} {
		if text, ok := args[key].(string); ok {
			return text
		}
	}
	return ""
}

// KindName is what the role is one of: prefill for prefill_1.
func (r *Role) KindName() string { return cmp.Or(r.Kind, r.Name) }

// Replicas counts the roles of that kind.
func (p *Plan) Replicas(kind string) int {
	n := 0
	for i := range p.Roles {
		if p.Roles[i].KindName() == kind {
			n += p.Roles[i].Count()
		}
	}
	return n
}

// Count is how many instances the role stands for.
func (r *Role) Count() int { return max(r.Replicas, 1) }

// Role returns the role of that name, or nil.
func (p *Plan) Role(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return nil
}

// Load returns the load of that name, or nil.
func (p *Plan) Load(name string) *Load {
	for i := range p.Loads {
		if p.Loads[i].Name == name {
			return &p.Loads[i]
		}
	}
	return nil
}

// Phase is the name of a client's phase in the job: unique over all loads.
func (l *Load) Phase(client string) string {
	if l.Name == "" {
		return client
	}
	return l.Name + "/" + client
}

// World is how many GPUs an engine's parallel sizes make use of.
func (r *Role) World() int { return max(r.TP, 1) * max(r.PP, 1) * max(r.DP, 1) }

// Idle counts the GPUs that engines are given and, by their parallel sizes, leave
// alone. Rates per GPU count them, since nobody else can have them.
func (p *Plan) Idle() int {
	n := 0
	for i := range p.Roles {
		if r := &p.Roles[i]; r.Engine {
			n += max(len(r.GPUs)*r.Nodes.Count-r.World(), 0) * r.Count()
		}
	}
	return n
}

// GPUs counts the GPUs of all roles on all nodes.
func (p *Plan) GPUs() int {
	n := 0
	for _, r := range p.Roles {
		n += len(r.GPUs) * r.Nodes.Count * r.Count()
	}
	return n
}

// Encode writes plan.json: indented, ending in a newline.
func (p *Plan) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	return append(data, '\n'), err
}

// Decode reads plan.json, also one of the first version, whose only load stood
// in the plan itself.
func Decode(data []byte) (*Plan, error) {
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	switch p.Schema {
	case Schema:
		return &p, nil
	case "profllm.plan/1":
		return &p, p.fromFirst(data)
	}
	return nil, fmt.Errorf("decode plan: the schema is %q, but this program reads %q", p.Schema, Schema)
}

func (p *Plan) fromFirst(data []byte) error {
	var old struct {
		Clients []Step `json:"clients"`
		Expect  Expect `json:"expect"`
		Config  struct {
			Client    string         `json:"client"`
			Benchmark map[string]any `json:"benchmark"`
		} `json:"config"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("decode plan: %w", err)
	}
	p.Schema = Schema
	p.Loads = []Load{{
		RunID: p.RunID, Dir: p.Dir, Clients: old.Clients, Expect: old.Expect, Client: old.Config.Client,
		Benchmark: old.Config.Benchmark,
	}}
	return nil
}

// RoleVar is the variable of a step that says which role or client it is of.
const RoleVar = "PROFLLM_ROLE"
