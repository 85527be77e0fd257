package plan

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// torchProfiler holds the keys of [torch_profiler] that are profllm's own. Every other
// key is one of the engine's profiler configuration.
type torchProfiler struct {
	Enable *bool `toml:"enable"` // false: no profiler; default true.
	// Time that the servers may take to write their traces after a load, such as "10m"; default
	// 30m.
	StopLimit scenario.Limit `toml:"stop_limit"`
}

// Tracing says how the job starts and stops the profiler inside of every engine.
type Tracing struct {
	Start string  `json:"start"`   // path of the POST before a load
	Stop  string  `json:"stop"`    // path of the POST after a load
	Limit Seconds `json:"limit_s"` // for the traces to be written
}

// TraceSuffixes end the names of PyTorch's traces.
var TraceSuffixes = []string{".pt.trace.json.gz", ".pt.trace.json"}

// TraceFiles matches a role's traces, for a message.
const TraceFiles = "*.pt.trace.json*"

// stopLimit is the default of stop_limit. vLLM's documentation speaks of 10 minutes for
// 100 requests to a model of 70 billion parameters.
const stopLimit = 30 * time.Minute

// fewPrompts is how many requests a profiled load should have at most.
const fewPrompts = 100

// trace has every engine write PyTorch's traces into a folder of its own.
func (p *Plan) trace(in Input, service Service) error {
	table := in.Test.Torch
	if table == nil {
		return nil
	}
	own := source.NewTable(table.Pos)
	for _, key := range source.Fields(torchProfiler{}) {
		if v := table.Get(key); v != nil {
			own.Set(key, v)
		}
	}
	var t torchProfiler
	if err := source.Decode(own, &t); err != nil {
		return err
	}
	if t.Enable != nil && !*t.Enable {
		return nil
	}
	if err := p.traceable(in, service); err != nil {
		return err
	}
	limit := time.Duration(t.StopLimit)
	if limit == 0 {
		limit = stopLimit
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Engine {
			continue
		}
		r.TraceDir = path.Join("raw", "torch", r.Name)
		argv, env, err := service.Torch.Configure(table.Without(source.Fields(t)...), path.Join(p.Dir, r.TraceDir), limit)
		if err != nil {
			return err
		}
		r.Step.Argv, r.Step.Env = append(r.Step.Argv, argv...), append(r.Step.Env, p.unset(in, env)...)
	}
	p.traced(service, limit)
	if p.Job.Grace > 0 {
		p.Job.Grace += Seconds(ReportWait) // in which the servers may still write when they end
	}
	p.Notes = append(p.Notes, table.Pos.String()+
		": the torch profiler runs in the servers, so the results cannot be a baseline")
	p.noteManyPrompts(table.Pos)
	return nil
}

// traced has the job start and stop the profilers. At the end of a job, they have ReportWait
// before the servers are told to end.
func (p *Plan) traced(service Service, limit time.Duration) {
	p.Tracing = &Tracing{Start: service.Torch.Start, Stop: service.Torch.Stop, Limit: Seconds(limit)}
	if p.Job.Grace > 0 {
		p.Job.Grace += Seconds(min(limit, ReportWait))
	}
}

// traceable refuses what keeps the profiler from working.
func (p *Plan) traceable(in Input, service Service) error {
	pos := in.Test.Torch.Pos
	if service.Torch == nil {
		return source.Errorf(pos, "torch_profiler works with vLLM servers only, not with a %s", p.Workload).
			Hintf("[nsys] profiles any server")
	}
	if enabled(in.Test.Nsys) {
		return source.Errorf(pos, "nsys and torch_profiler both record the GPU, and CUDA serves one of them at a time").
			Hintf("remove one, or set its enable = false")
	}
	for _, r := range p.Roles {
		if r.Engine && hasOption(r.Step.Argv, "--profiler-config") {
			return source.Errorf(pos, "%s has a profiler_config of its own, which torch_profiler also sets", r.Name).
				Hintf("write its keys in [torch_profiler], or remove torch_profiler")
		}
	}
	if p.clientProfiles() {
		return source.Errorf(pos, "the client has profile = true, but torch_profiler has the job start the profiler").
			Hintf("remove profile")
	}
	return nil
}

// unset leaves out the variables that the test or the site sets.
func (p *Plan) unset(in Input, env []Var) (left []Var) {
	for _, v := range env {
		if !in.Test.Env.Has(v.Name) && !in.System.GlobalEnvVars.Has(v.Name) {
			left = append(left, v)
		}
	}
	return left
}

func (p *Plan) noteManyPrompts(pos source.Pos) {
	most := 0
	for _, l := range p.Loads {
		most = max(most, l.Expect.NumPrompts)
	}
	if most > fewPrompts {
		p.Notes = append(p.Notes, fmt.Sprintf("%s: %d requests make large traces, which take minutes to write; "+
			"a profile needs few, such as num_prompts = 10", pos, most))
	}
}

// hasOption reports whether a command has an option, with its value behind = or not, or
// one of its dotted forms.
func hasOption(argv []Word, option string) bool {
	for _, w := range argv {
		if s, ok := w.Literal(); ok && (s == option || strings.HasPrefix(s, option+"=") ||
			strings.HasPrefix(s, option+".")) {
			return true
		}
	}
	return false
}
