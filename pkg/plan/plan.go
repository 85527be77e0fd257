// Package plan decides everything that can be decided before an allocation
// exists: which role runs on which slice of nodes with which GPUs and ports, the
// full command of every process, how readiness is seen, and what the numbers
// will be judged against.
//
// A Plan is the contract between planning and everything after it; it is stored
// as plan.json. The package runs nothing and prints no script.
package plan

import (
	"encoding/json"
	"fmt"
	"time"
)

// Schema is the version written into plan.json.
const Schema = "profllm.plan/1"

// Plan is one run: one test, one iteration, one job.
type Plan struct {
	Schema    string    `json:"schema"`
	RunID     string    `json:"run_id"`
	Version   string    `json:"version"` // of profllm
	Created   time.Time `json:"created"`
	Scenario  string    `json:"scenario"`
	Test      string    `json:"test"` // the test's id
	Name      string    `json:"name"` // the test's name
	Iteration int       `json:"iteration"`
	Workload  string    `json:"workload"`
	Dir       string    `json:"dir"`    // the run directory, absolute
	Binary    string    `json:"binary"` // profllm on the nodes
	Simulated bool      `json:"simulated,omitempty"`

	Job      Job      `json:"job"`
	Launcher string   `json:"launcher"`
	Image    string   `json:"image,omitempty"`
	Mounts   []string `json:"mounts,omitempty"`
	Prologue string   `json:"prologue,omitempty"` // shell text of the site
	Env      []Var    `json:"env,omitempty"`      // of the whole job

	Ports   []Port   `json:"ports"`
	Roles   []Role   `json:"roles"`
	Clients []Step   `json:"clients"` // run one after the other, once every role is ready
	Expect  Expect   `json:"expect"`
	Config  Config   `json:"config"`
	Notes   []string `json:"notes,omitempty"` // what a person should know, e.g. keys without effect
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
	NTasksPerNode int      `json:"ntasks_per_node,omitempty"`
	TimeLimit     Seconds  `json:"time_limit_s,omitempty"`
	Grace         Seconds  `json:"grace_s,omitempty"` // TERM comes this long before the limit
	SbatchArgs    []string `json:"sbatch_args,omitempty"`
	SrunArgs      []string `json:"srun_args,omitempty"`
}

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
	Name    string   `json:"name"` // serve, prefill, decode, proxy
	Nodes   Slice    `json:"nodes"`
	GPUs    []int    `json:"gpus,omitempty"` // local ids, the same on each node
	TP      int      `json:"tp,omitempty"`
	PP      int      `json:"pp,omitempty"`
	DP      int      `json:"dp,omitempty"`
	Health  Endpoint `json:"health"`
	Timeout Seconds  `json:"timeout_s"` // for becoming ready
	Engine  bool     `json:"engine"`    // an inference engine with /metrics, not a proxy
	Step    Step     `json:"step"`
}

// Endpoint is where a role answers HTTP, on its first node.
type Endpoint struct {
	Port string `json:"port"` // name of the port
	Path string `json:"path"`
}

// Step is one srun: the same command once on every node of its slice.
type Step struct {
	Name      string `json:"name"`
	Nodes     Slice  `json:"nodes"`
	Container bool   `json:"container"`     // run inside the image
	Env       []Var  `json:"env,omitempty"` // set inside the step, where Slurm no longer changes it
	Argv      []Word `json:"argv"`
	Log       string `json:"log"`            // below the run directory; %t is the rank
	Srun      []Word `json:"srun,omitempty"` // options that the launcher adds
}

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
}

// Config is what the run was configured with, for the record.
type Config struct {
	Model     string         `json:"model"`
	Client    string         `json:"client"`
	Server    map[string]any `json:"server"`    // role → engine arguments
	Benchmark map[string]any `json:"benchmark"` // the client's arguments
}

// Role returns the role of that name, or nil.
func (p *Plan) Role(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return nil
}

// Encode writes plan.json: indented, ending in a newline.
func (p *Plan) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	return append(data, '\n'), err
}

// Decode reads plan.json.
func Decode(data []byte) (*Plan, error) {
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("decode plan: schema %q, this program reads %q", p.Schema, Schema)
	}
	return &p, nil
}
