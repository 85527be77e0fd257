package validity

import "github.com/profllm/profllm/pkg/result"

// Evidence is what a judgement needs besides the record. The Slurm state, the server's
// counters and the accuracy are read from the record.
type Evidence struct {
	Planned    Planned
	Servers    []Server        // every engine that was planned
	Samples    *result.Samples // of the part that gave the metrics; nil if not saved
	GivenModel string          // that the client says it was given; "" if it does not
	Phases     []Phase         // in order: ready, bench, eval …
	Died       []RoleEnd       // roles that ended while they were needed
	Missing    []string        // planned files that are not there
	Evaluated  *float64        // requests that the engines ended while the evaluation ran; nil: not known
	// every phase of it was over before the job went on with something else: how the job ended
	// is not its own end
	OverBefore bool
	// the job ended when the runs that it accompanied were over, as planned: a phase without
	// an end was ended with it
	EndedWithOthers bool
	Job             *result.JobEnd // what the run's own files say of the job's end; nil: nothing
	Profiled        bool
	Nodes           []NodeCheck // of the preflight; nil if there was none
	Hardware        []NodeGPU   // planned GPUs as the preflight saw them; nil if it saw none
	Limits          Limits      // thresholds that the test has set

	NoGPUSamples string // why the record has none, "" if it has

	Executions, Places Agreement // of the run's files, on what ran and on where
}

// NodeCheck is what a preflight saw on one node.
type NodeCheck struct {
	Node, Check, Seen string
	Made, Bad         bool // whether it could be made, and whether it warned or failed
}

// Planned is what the run was meant to do. A zero number means "not fixed".
type Planned struct {
	NumPrompts    int
	InputTokens   int // per request
	OutputTokens  int // per request
	IgnoreEOS     bool
	Accuracy      bool   // an evaluation is part of the run
	NoBenchmark   bool   // no load client is part of the run
	Disaggregated bool   // KV blocks move from prefill to decode
	Model         string // that the engines were told to load
	EngineVersion string // or its beginning
	GPUs          int    // of all roles on all nodes
	Locked        Locked // what an earlier run that this one repeats had

	Concurrency int      // most requests in flight
	RequestRate float64  // 1/s, the least if it rises
	Warmups     int      // requests of the client before the measured ones
	SharedInput *float64 // share of a prompt that every prompt begins with; nil: not known
}

// Locked is what must be as in an earlier run; "" is not asked.
type Locked struct {
	EngineVersion string
	ImageDigest   string
	ModelRevision string
}

// Server is what an engine said of itself when it was ready.
type Server struct {
	Role    string   // of one instance: prefill_1
	Wanted  []string // names under which clients must find the model
	Names   []string // those that it answers to; nil if it did not say
	Model   string   // where the weights came from, "" if it did not say
	Version string   // of the engine, "" if it did not say
}

// Phase is a part of the job's script with an exit code of its own.
type Phase struct {
	Name  string
	Exit  *int // nil if no end of it is known
	Begun bool // it began, as far as is known
	Lost  bool // it was stopped, because a server that it needs had died
}

// RoleEnd is an early end of a role.
type RoleEnd struct {
	Role   string // of one instance: prefill_1
	Rank   int
	Node   string
	Exit   int     // exit code, 128 plus the signal if killed
	Spared *Spared // the other instances served on; nil if there were none
}

// Spared says how a run continued without one of several instances.
type Spared struct {
	Kind string // prefill, decode
	Of   int    // instances of the kind, with the one that ended
	// BeforeEnd is from the instance's end to the end of the client that
	// measured, s; not positive if that had ended before; nil if not known.
	BeforeEnd *float64
	// Before and After are the paces of the kind's other instances, by their
	// counters: from all ready, and to the client's end. Nil if not known.
	Before, After *Pace
}

// Pace is what instances of a kind did together in a period.
type Pace struct {
	Seconds  float64
	Requests float64
	Latency  float64 // summed over requests, s
}
