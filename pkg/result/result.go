// Package result is the standard record of one run: what was asked, what ran
// where, what was measured, and the verdict on the numbers, which package validity makes.
//
// A Result marshals to result.json. Names and units are fixed: seconds unless
// a name ends in _ms, bytes unless it says _gb, _mb or _gib, shares between 0 and 1
// unless a name says percent. What nobody reported is absent, never zero;
// that is why most numbers are pointers.
//
// The package is pure: it reads no file, no clock and no environment. It does
// not run, collect or store anything, and it does not compare two results.
//
//	part, err := parser.Parse(raw)
//	r.Merge(part)
//	r.Validity = validity.Judge(r, evidence)
//	data, err := result.Encode(r)
//	err = result.Validate(data) // against the schema
package result

import (
	"strings"
	"time"
)

// SchemaV1 is the value of a record's "schema" key.
const SchemaV1 = "profllm.result/1"

// Result is one run.
type Result struct {
	Schema    string    `json:"schema" jsonschema:"format and version of this file"`
	RunID     string    `json:"run_id" jsonschema:"exp_YYYYMMDD_HHMMSS_ and six hex digits"`
	Suite     string    `json:"suite" jsonschema:"name of the group of runs that this run belongs to"`
	Timestamp time.Time `json:"timestamp" jsonschema:"start of the run, RFC 3339, UTC"`
	// Duration is that of the whole run, not of the client's window.
	Duration *float64 `json:"duration,omitempty" jsonschema:"duration of the whole run, s"`
	Status   Status   `json:"status"`
	// Simulated is set if an engine was a simulator: never compared, never a baseline.
	Simulated bool `json:"simulated,omitempty" jsonschema:"true if the engine was simulated: the numbers are not measurements"`
	// SimulatedSpeed is how many times faster simulated time passed. All times of the
	// record are real ones.
	SimulatedSpeed int `json:"simulated_speed,omitempty" jsonschema:"factor by which the simulated engine was faster than its settings; absent: 1"`

	Config  Config  `json:"config"`
	Results Metrics `json:"results"`
	// MetricsVersion is that of the definitions behind Results, see MetricsVersion.
	MetricsVersion int         `json:"metrics_version,omitempty" jsonschema:"version of the definitions behind results; absent: 1"`
	Accuracy       *Accuracy   `json:"accuracy,omitempty"`
	System         *System     `json:"system,omitempty"`
	Profiling      *Profiling  `json:"profiling,omitempty"`
	Placement      *Placement  `json:"placement,omitempty"`
	Capacity       []Capacity  `json:"capacity,omitempty" jsonschema:"room and start of each instance of a role, as its logs say (logs/ROLE-RANK.log)"`
	Slurm          *Slurm      `json:"slurm,omitempty"`
	Provenance     *Provenance `json:"provenance,omitempty"`
	Repeats        *Repeats    `json:"repeats,omitempty"`
	Search         []*Search   `json:"search,omitempty" jsonschema:"answers of a search for the highest load within limits, one for each set of limits"`
	APICheck       *APICheck   `json:"api_check,omitempty" jsonschema:"checks of the API before the first load; absent: none were made"`
	Validity       *Validity   `json:"validity,omitempty"`
	Failure        *Failure    `json:"failure,omitempty"`
	Warnings       []Warning   `json:"warnings,omitempty"`
}

// Status says how the run ended.
type Status string

// Every status a record may have.
const (
	Completed Status = "completed" // every phase ended and left its result
	Partial   Status = "partial"   // some result, but a phase or request failed
	Failed    Status = "failed"    // no usable result
	Cancelled Status = "cancelled" // stopped on request
	// Ended is that of a run that was to end when others are over, and did so before its own end.
	Ended   Status = "ended-as-planned"
	Unknown Status = "unknown" // nobody knows yet, or ever will
)

// String is the status in words for a person: ended as planned.
func (s Status) String() string { return strings.ReplaceAll(string(s), "-", " ") }

// APICheck is what came of the checks of the API that gate the loads.
type APICheck struct {
	Passed int           `json:"passed" jsonschema:"number of checks that passed"`
	Failed []FailedCheck `json:"failed,omitempty" jsonschema:"checks that failed; they ended the job"`
}

// FailedCheck is a wrong answer of the API.
type FailedCheck struct {
	Check string `json:"check" jsonschema:"name of the check, such as streaming"`
	Text  string `json:"text" jsonschema:"the request, the expected answer, and what came"`
}

// Config is what was asked.
type Config struct {
	// Server holds the engine's parameters in snake_case, as given. It is the
	// one free-form table: the engine owns its flags.
	Server map[string]any `json:"server" jsonschema:"engine parameters, snake_case"`
	// Roles holds what differs between roles of a disaggregated server.
	Roles []RoleConfig `json:"roles,omitempty"`
	// Resolved is what each role's options came to, with the defaults, as the engine itself says.
	Resolved  []RoleConfig `json:"resolved,omitempty" jsonschema:"what the options of each role came to, by the engine's start-up log: its own names and, where a value is no number or truth value, Python's words"`
	Benchmark Benchmark    `json:"benchmark"`
	// Settings is all that was asked, also what Benchmark has no field for.
	Settings map[string]string `json:"settings,omitempty" jsonschema:"settings of the run, by their key in definition files: NUM_NODES, cmd_args.ROLE.OPTION, bench_cmd_args.OPTION, extra_env_vars.NAME"`
}

// RoleConfig is the engine's parameters of one role, by its name in Placement.
type RoleConfig struct {
	Role   string         `json:"role"`
	Server map[string]any `json:"server"`
}

// Benchmark is the load that was asked for.
type Benchmark struct {
	Kind        string `json:"kind,omitempty" jsonschema:"client, such as vllm-serve"`
	DatasetName string `json:"dataset_name,omitempty"`
	NumPrompts  *int   `json:"num_prompts,omitempty"`
	RequestRate *Rate  `json:"request_rate,omitempty"`
	// MaxConcurrency is nil for no cap, and then null in the file.
	MaxConcurrency *int               `json:"max_concurrency"`
	Burstiness     *Rate              `json:"burstiness,omitempty" jsonschema:"1: a Poisson process; inf: evenly spaced"`
	Arrivals       Arrivals           `json:"arrivals,omitempty" jsonschema:"how the client schedules the sends of a rate: rescaled (the last is due at num_prompts / request_rate), drawn (each gap by itself), rising"`
	InputTokens    *int               `json:"input_tokens,omitempty" jsonschema:"input tokens per request, if fixed"`
	OutputTokens   *int               `json:"output_tokens,omitempty" jsonschema:"output tokens per request, if fixed"`
	IgnoreEOS      *bool              `json:"ignore_eos,omitempty"`
	Seed           *int               `json:"seed,omitempty"`
	Goodput        map[string]float64 `json:"goodput,omitempty" jsonschema:"limits that a good request meets, in ms, for ttft, tpot and e2el"`
	Warmups        *int               `json:"warmups,omitempty"`
	Backend        string             `json:"backend,omitempty"`
	Endpoint       string             `json:"endpoint,omitempty"`
}

// Accuracy is the outcome of an evaluation.
type Accuracy struct {
	Task          string   `json:"task" jsonschema:"task, such as gsm8k"`
	Program       string   `json:"program,omitempty" jsonschema:"program that evaluated, such as lm-eval; absent for the GSM8K scripts of vLLM and SGLang"`
	Metric        string   `json:"metric,omitempty" jsonschema:"metric, such as exact_match, if the evaluation has several"`
	Filter        string   `json:"filter,omitempty" jsonschema:"how the answer was found in the text, such as strict-match"`
	Value         float64  `json:"value" jsonschema:"share of right answers, 0 to 1"`
	Stderr        *float64 `json:"stderr,omitempty" jsonschema:"standard error of the value"`
	InvalidRate   *float64 `json:"invalid_rate,omitempty" jsonschema:"share of answers without a number, 0 to 1"`
	Questions     *int     `json:"questions,omitempty"`
	TaskQuestions *int     `json:"task_questions,omitempty" jsonschema:"questions that the task has, if the evaluation says so; questions is fewer under a limit"`
	Shots         *int     `json:"shots,omitempty"`
	Duration      *float64 `json:"duration_s,omitempty"`
	Tokens        *int64   `json:"output_tokens,omitempty"`
	Answers       *Answers `json:"answers,omitempty" jsonschema:"which questions were answered right, if the evaluation says so"`
	Source        string   `json:"source" jsonschema:"file from which the value was read"`
	FromLog       bool     `json:"from_log,omitempty" jsonschema:"true if the value was read from console text, which is rounded"`
	Others        []Score  `json:"others,omitempty" jsonschema:"further metrics, filters and tasks of the same file"`

	// Time is when the evaluation wrote its result, nil if it does not say so.
	Time *time.Time `json:"-"`
}

// Score is one more number of an evaluation, in its own unit.
type Score struct {
	Task      string   `json:"task"`
	Metric    string   `json:"metric"`
	Filter    string   `json:"filter,omitempty"`
	Value     float64  `json:"value"`
	Stderr    *float64 `json:"stderr,omitempty"`
	Questions *int     `json:"questions,omitempty"`
}

// System is what the nodes are, what they looked like before the start, and what was
// sampled on them during the window.
type System struct {
	PeakGPUMemoryGB   *float64    `json:"peak_gpu_memory_gb,omitempty" jsonschema:"highest memory use of any GPU that served"`
	AvgGPUUtilization *float64    `json:"avg_gpu_utilization,omitempty" jsonschema:"percent, mean over the time and the GPUs that served"`
	GPUSamples        *GPUSamples `json:"gpu_samples,omitempty"`
	Host              []HostUse   `json:"host,omitempty" jsonschema:"what each node did in the client's window, if it was sampled"`
	HardwareInfo      *Hardware   `json:"hardware_info,omitempty"`
	// Nodes is there only if the nodes are not alike.
	Nodes     []NodeHardware `json:"nodes,omitempty" jsonschema:"each node, if the nodes differ"`
	Preflight string         `json:"preflight,omitempty" jsonschema:"worst verdict on the nodes before servers started: ok, not possible, warn or fail; preflight.json has all of them"`
}

// NodeHardware is one node of a run whose nodes are not alike.
type NodeHardware struct {
	Host string `json:"host"`
	Hardware
}

// Hardware describes the nodes of a run; one value where all are alike.
type Hardware struct {
	GPU            string   `json:"gpu,omitempty"`
	GPUs           *int     `json:"gpus,omitempty" jsonschema:"number of GPUs per node"`
	GPUMemoryGB    *float64 `json:"gpu_memory_gb,omitempty"`
	Driver         string   `json:"driver,omitempty"`
	GPUReader      string   `json:"gpu_reader,omitempty" jsonschema:"program that read the GPUs: nvml and its version, which has the energy counter, or nvidia-smi, which has none"`
	CUDA           string   `json:"cuda,omitempty" jsonschema:"newest CUDA version that the driver supports"`
	GPUPowerLimitW *float64 `json:"gpu_power_limit_w,omitempty"`
	GPUMaxClockMHz *float64 `json:"gpu_max_clock_mhz,omitempty" jsonschema:"highest clock of the SMs"`
	GPUPersistence string   `json:"gpu_persistence,omitempty" jsonschema:"the driver's value, such as Enabled"`
	GPUMIG         string   `json:"gpu_mig,omitempty" jsonschema:"the driver's value, such as Disabled"`
	CPU            string   `json:"cpu,omitempty"`
	CPUs           *int     `json:"cpus,omitempty" jsonschema:"number of logical CPUs per node"`
	NUMANodes      *int     `json:"numa_nodes,omitempty" jsonschema:"number of NUMA nodes per node"`
	MemoryGB       *float64 `json:"memory_gb,omitempty" jsonschema:"memory per node"`
	Kernel         string   `json:"kernel,omitempty"`
	OS             string   `json:"os,omitempty"`
}

// Trace is a file that a profiler of a server left.
type Trace struct {
	Kind    string   `json:"kind" jsonschema:"torch (PyTorch's profiler in the server), nsys or viztracer"`
	Path    string   `json:"path" jsonschema:"below the run directory, or absolute"`
	SizeMB  *float64 `json:"size_mb,omitempty" jsonschema:"10^6 bytes"`
	Role    string   `json:"role,omitempty" jsonschema:"the server, such as prefill_1"`
	Rank    *int     `json:"rank,omitempty" jsonschema:"rank of the worker, or of the process that was wrapped, if it is known"`
	Process string   `json:"process,omitempty" jsonschema:"worker or frontend (the API server), if it is known"`
}

// Kinds of a Trace.
const (
	TorchTrace = "torch"
	NsysTrace  = "nsys"
	VizTrace   = "viztracer"
)

// Profiling says whether a profiler ran; a profiled run is never compared.
type Profiling struct {
	Enabled         bool     `json:"enabled"`
	By              string   `json:"by,omitempty" jsonschema:"what shows that the run was profiled, such as nsys profile, --profile or profiler_config"`
	TraceFilePath   string   `json:"trace_file_path,omitempty"`
	TraceFileSizeMB *float64 `json:"trace_file_size_mb,omitempty"`
	Traces          []Trace  `json:"traces,omitempty" jsonschema:"what the profilers of the servers left"`
}

// Placement says what ran where.
type Placement struct {
	Nodes []string     `json:"nodes" jsonschema:"nodes in allocation order"`
	Roles []PlacedRole `json:"roles"`
}

// GPUs returns the number of GPUs that roles were given, over all nodes.
func (p *Placement) GPUs() int {
	n := 0
	for _, r := range p.Roles {
		n += r.GPUsPerNode * r.Slice.Count
	}
	return n
}

// PlacedRole is a role on its slice of the nodes.
type PlacedRole struct {
	Role        string         `json:"role"`
	Replica     int            `json:"replica" jsonschema:"0 for the first"`
	Slice       Slice          `json:"slice"`
	Hosts       []string       `json:"hosts" jsonschema:"one per node of the slice"`
	GPUsPerNode int            `json:"gpus_per_node"`
	Ports       map[string]int `json:"ports,omitempty" jsonschema:"ports by purpose, such as http"`
}

// Slice is a run of neighbouring nodes of the allocation.
type Slice struct {
	Offset int `json:"offset"`
	Count  int `json:"count"`
}

// Slurm is what the scheduler said about the job.
type Slurm struct {
	JobID     string     `json:"job_id"`
	Partition string     `json:"partition,omitempty"`
	Account   string     `json:"account,omitempty"`
	State     string     `json:"state" jsonschema:"Slurm's state, such as COMPLETED; UNKNOWN if it gives none"`
	ExitCode  string     `json:"exit_code,omitempty" jsonschema:"exit code and signal, as CODE:SIGNAL"`
	NodeList  string     `json:"nodelist,omitempty"`
	Start     *time.Time `json:"start,omitempty"`
	End       *time.Time `json:"end,omitempty"`
	Elapsed   *float64   `json:"elapsed_s,omitempty"`
}

// Provenance says what exactly ran. What nobody could see is absent.
type Provenance struct {
	Profllm         string     `json:"profllm" jsonschema:"version of profllm"`
	Engine          string     `json:"engine,omitempty"`
	EngineVersion   string     `json:"engine_version,omitempty" jsonschema:"version that the servers report"`
	EngineInstalled string     `json:"engine_installed,omitempty" jsonschema:"version of the package that the servers run"`
	Launcher        string     `json:"launcher,omitempty"`
	Image           string     `json:"image,omitempty"`
	ImageDigest     string     `json:"image_digest,omitempty"`
	ImageSource     string     `json:"image_source,omitempty" jsonschema:"reference that a staged image was imported from, with the digest of its manifest at the registry if that is known"`
	ModelRevision   string     `json:"model_revision,omitempty" jsonschema:"snapshot of the model at Hugging Face"`
	TokenizerDigest string     `json:"tokenizer_digest,omitempty" jsonschema:"SHA-256 of the tokenizer's file beside the model"`
	Git             string     `json:"git,omitempty" jsonschema:"revision of the definitions, with -dirty if changed"`
	Repositories    []Checkout `json:"repositories,omitempty" jsonschema:"git_repos as they were when the run was planned"`
	Simulated       bool       `json:"simulated,omitempty"`
	Foreign         string     `json:"foreign,omitempty" jsonschema:"client whose files were found alone, without a run of profllm or CloudAI around them"`
	Imported        *Imported  `json:"imported,omitempty"`
	Fingerprint     string     `json:"fingerprint,omitempty" jsonschema:"hash of everything that should make two runs give the same numbers"`
	Series          string     `json:"series,omitempty" jsonschema:"hash of model, engine, topology, load, precision and GPU model, equal for all runs of a time series"`
	Commands        []RoleArgv `json:"commands,omitempty"`
	Packages        []Package  `json:"packages,omitempty" jsonschema:"versions of relevant Python packages that the servers run with"`
	Environment     []RoleEnv  `json:"environment,omitempty" jsonschema:"variables that matter to engines, as the processes had them"`
}

// From names the other program that measured, or that wrote the files which the
// record is of; "" if they are of a run of profllm or CloudAI.
func (p *Provenance) From() string {
	switch {
	case p == nil:
		return ""
	case p.Imported != nil:
		return p.Imported.From
	}
	return p.Foreign
}

// Imported says where a record of another program's result comes from. Such a run
// is no baseline by default.
type Imported struct {
	From    string         `json:"from" jsonschema:"the program that measured, or wrote the file"`
	Format  string         `json:"format" jsonschema:"name of the format in the reference"`
	Version string         `json:"version,omitempty" jsonschema:"version of the format, as in the file"`
	File    string         `json:"file" jsonschema:"unchanged copy of the file, below raw"`
	Digest  string         `json:"digest" jsonschema:"sha256 of the file"`
	Index   int            `json:"index,omitempty" jsonschema:"position of the result in the file, 0 for the first"`
	Fields  map[string]any `json:"fields,omitempty" jsonschema:"everything in the file that has no place in the record, by its own keys"`
}

// Checkout is a repository at a commit.
type Checkout struct {
	URL    string `json:"url"`
	Commit string `json:"commit" jsonschema:"full hash, with -dirty if files were changed"`
}

// Package is an installed package. Role and Node are named where versions differ.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Role    string `json:"role,omitempty"`
	Node    string `json:"node,omitempty"`
}

// RoleEnv is variables of a role, without secrets. Node is named where a node's
// values are not those of the role's first.
type RoleEnv struct {
	Role string            `json:"role"`
	Node string            `json:"node,omitempty"`
	Vars map[string]string `json:"vars"`
}

// RoleArgv is the command line of one role, without secrets.
type RoleArgv struct {
	Role string   `json:"role"`
	Argv []string `json:"argv"`
}

// Repeats places the run among its repeats. Every repeat keeps its own record.
type Repeats struct {
	Group  string  `json:"group" jsonschema:"id that all repeats share"`
	Index  int     `json:"index" jsonschema:"0 for the first"`
	Of     int     `json:"of" jsonschema:"number of repeats; the largest possible number, if the series may end early"`
	Series *Series `json:"series,omitempty" jsonschema:"present if the number of repeats was not fixed"`
}

// Series is what became of repeats that go on until their numbers are precise.
type Series struct {
	Percent          float64  `json:"precision_percent" jsonschema:"largest half-width of each median's 95 % interval, in percent of the median"`
	Metrics          []string `json:"metrics" jsonschema:"metrics, by their keys in results"`
	Done             int      `json:"done" jsonschema:"number of repeats that ran"`
	Stopped          string   `json:"stopped,omitempty" jsonschema:"why the series stopped: precise, max, time or hopeless; absent if the job ended first"`
	Why              string   `json:"why,omitempty"`
	SavedRepeats     int      `json:"saved_repeats"`
	SavedNodeMinutes float64  `json:"saved_node_minutes" jsonschema:"node-minutes saved by stopping early, estimated from the repeats that ran"`
}

// Why a series ended.
const (
	Precise   = "precise"
	AllRan    = "max"
	OutOfTime = "time"
	Hopeless  = "hopeless"
)

// Failure names why a run failed.
type Failure struct {
	Cause      string       `json:"cause" jsonschema:"id of a signature, or unknown"`
	Kind       string       `json:"kind,omitempty" jsonschema:"kind of the cause: configuration, file, model, environment, resource, network or defect"`
	About      string       `json:"about,omitempty" jsonschema:"option, file, address, module or place in the program that the line names"`
	Line       string       `json:"line,omitempty" jsonschema:"log line that shows the cause, redacted, at most 500 characters"`
	File       string       `json:"file,omitempty"`
	LineNumber int          `json:"line_number,omitempty" jsonschema:"1 for the first"`
	Role       string       `json:"role,omitempty"`
	Node       string       `json:"node,omitempty"`
	Rank       string       `json:"rank,omitempty"`
	Next       string       `json:"next" jsonschema:"what to do about the failure"`
	Command    Command      `json:"-"` // that does so; collect writes it behind Next
	Confidence Confidence   `json:"confidence" jsonschema:"what the cause rests on: exact is a log line that names a root cause, job-state the scheduler's word, symptom a log line that shows a consequence, unknown nothing"`
	Tail       []string     `json:"tail,omitempty" jsonschema:"last lines of the log, if the cause is unknown"`
	Others     []OtherCause `json:"others,omitempty" jsonschema:"further causes that were found, in order of time"`
}

// Command is what does the next step about a cause: one of these, "" for none. DIR stands for the
// run, and JobID for the id of its job.
type Command string

// The commands of causes.
const (
	Resume       Command = "profllm slurm resume DIR"
	ResumeFailed Command = "profllm slurm resume --failed DIR"
	ReleaseJob   Command = "scontrol release JOB"
	AskJob       Command = "sacct -j JOB, scontrol show job JOB"
)

// JobID stands for the id of a job in a Command.
const JobID = "JOB"

// OtherCause is a further cause, without details.
type OtherCause struct {
	Cause      string `json:"cause"`
	Line       string `json:"line,omitempty"`
	File       string `json:"file,omitempty"`
	LineNumber int    `json:"line_number,omitempty"`
	Role       string `json:"role,omitempty"`
	Node       string `json:"node,omitempty"`
}

// Confidence says on what a cause rests.
type Confidence string

// The confidences, best first.
const (
	Exact       Confidence = "exact"     // a line that names a root cause
	FromState   Confidence = "job-state" // the scheduler's word
	FromSymptom Confidence = "symptom"   // a line that shows a consequence
	NoCause     Confidence = "unknown"   // nothing in the table matched
)
