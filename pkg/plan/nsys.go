package plan

import (
	"fmt"

	"github.com/profllm/profllm/pkg/source"
)

// nsys is [nsys]: Nsight Systems around every server. The order of its options
// on the command line is CloudAI's; the other options follow.
type nsys struct {
	Enable *bool  `toml:"enable"`      // false: no profiler; default true.
	Binary string `toml:"nsys_binary"` // Program; default nsys.
	Task   string `toml:"task"`        // Its command; default profile.
	Sample string `toml:"sample"`      // -s.
	// Stem of the reports' names, below raw/ unless absolute; role, rank and host are added. Default
	// nsys.
	Output            string   `toml:"output"`
	Trace             string   `toml:"trace"`               // -t.
	ForceOverwrite    *bool    `toml:"force_overwrite"`     // --force-overwrite.
	CaptureRange      string   `toml:"capture_range"`       // --capture-range.
	CaptureRangeEnd   string   `toml:"capture_range_end"`   // --capture-range-end.
	CUDAGraphTrace    string   `toml:"cuda_graph_trace"`    // --cuda-graph-trace.
	GPUMetricsDevices string   `toml:"gpu_metrics_devices"` // --gpu-metrics-devices.
	ExtraArgs         []string `toml:"extra_args"`          // Further options, after the others.

	// "loads": record only the loads, and what servers need it for; sets the other keys unless they
	// are written (profllm).
	Preset              string `toml:"preset"`
	TraceForkBeforeExec *bool  `toml:"trace_fork_before_exec"` // --trace-fork-before-exec (profllm).
	CUDAMemoryUsage     *bool  `toml:"cuda_memory_usage"`      // --cuda-memory-usage (profllm).
	CUDABacktrace       string `toml:"cudabacktrace"`          // --cudabacktrace, such as "all" (profllm).
	// Sample the network adapters of AWS, --enable=efa_metrics (profllm); default false.
	EFAMetrics bool `toml:"efa_metrics"`

	// Profile only these roles, by name or kind (profllm); default: every engine.
	Roles []string `toml:"roles"`
	Ranks []int    `toml:"ranks"` // Profile only these ranks of each server (profllm); default: all.
	Nodes []int    `toml:"nodes"` // Profile only ranks on these nodes of the job, from 0 (profllm); default: all.
}

// byProfilerAPI is the capture range that the program opens by calls of the CUDA profiler.
const byProfilerAPI = "cudaProfilerApi"

// nsys puts nsys around the engines.
func (p *Plan) nsys(in Input, service Service) error {
	if in.Test.Nsys == nil {
		return nil
	}
	var n nsys
	if err := source.Decode(in.Test.Nsys, &n); err != nil {
		return err
	}
	if n.Enable != nil && !*n.Enable {
		return nil
	}
	if err := n.complete(in); err != nil {
		return err
	}
	ranks, err := p.selected(in.Test.Nsys, &n)
	if err != nil {
		return err
	}
	if n.CaptureRangeEnd == "" && (p.captures(service, &n) || n.CaptureRange == byProfilerAPI && len(p.profilable()) > 0) {
		n.CaptureRangeEnd = "repeat" // nsys would end the server with the first range
	}
	err = p.wrapEngines(in.Test.Nsys.Pos, wrapper{name: "nsys", output: n.Output,
		// nsys puts the variables' values there, on the node
		rank: "%q{SLURM_PROCID}", host: "-%q{SLURMD_NODENAME}", ranks: ranks,
		traced: p.captures(service, &n),
		lead:   func(file, mark string) []string { return append(n.options(file), "env", mark) }})
	if err != nil {
		return err
	}
	return p.capture(in, service, &n)
}

// complete sets what the table leaves open.
func (n *nsys) complete(in Input) error {
	if in.Simulated || n.Binary == "" {
		n.Binary = "nsys" // a rehearsal has a stand-in of that name
	}
	fill := func(key *string, value string) {
		if *key == "" {
			*key = value
		}
	}
	on := func(key **bool) {
		if *key == nil {
			*key = new(true)
		}
	}
	fill(&n.Task, "profile")
	fill(&n.Output, "nsys")
	switch n.Preset {
	case "":
	case "loads":
		fill(&n.Trace, "cuda,nvtx,osrt,cudnn,cublas")
		fill(&n.CaptureRange, byProfilerAPI)
		fill(&n.CaptureRangeEnd, "repeat")
		fill(&n.CUDAGraphTrace, "node")
		fill(&n.CUDABacktrace, "true")
		on(&n.ForceOverwrite)
		on(&n.TraceForkBeforeExec)
		on(&n.CUDAMemoryUsage)
	default:
		return source.Errorf(in.Test.Nsys.PosOf("preset"), "nsys.preset %q is not known", n.Preset).
			Hintf("%s", source.Suggest(n.Preset, []string{"loads"}))
	}
	return nil
}

func (n *nsys) options(output string) []string {
	words := []string{n.Binary, n.Task}
	short := func(option, value string) {
		if value != "" {
			words = append(words, option, value)
		}
	}
	long := func(option, value string) {
		if value != "" {
			words = append(words, option+"="+value)
		}
	}
	truth := func(option string, value *bool) {
		if value != nil {
			long(option, fmt.Sprint(*value))
		}
	}
	short("-s", n.Sample)
	short("-o", output)
	short("-t", n.Trace)
	truth("--force-overwrite", n.ForceOverwrite)
	long("--capture-range", n.CaptureRange)
	long("--capture-range-end", n.CaptureRangeEnd)
	long("--cuda-graph-trace", n.CUDAGraphTrace)
	long("--gpu-metrics-devices", n.GPUMetricsDevices)
	truth("--trace-fork-before-exec", n.TraceForkBeforeExec)
	truth("--cuda-memory-usage", n.CUDAMemoryUsage)
	long("--cudabacktrace", n.CUDABacktrace)
	if n.EFAMetrics {
		words = append(words, "--enable=efa_metrics")
	}
	return append(words, n.ExtraArgs...)
}

// wrap puts words before the command proper of a step.
func (s *Step) wrap(words []Word) {
	argv := append([]Word(nil), s.Argv[:s.Inner]...)
	argv = append(argv, words...)
	s.Argv = append(argv, s.Argv[s.Inner:]...)
}
