package plan

import (
	"fmt"

	"github.com/profllm/profllm/pkg/source"
)

// nsys is [nsys]: Nsight Systems around every server. The order of its options
// on the command line is CloudAI's.
type nsys struct {
	Enable *bool  `toml:"enable"`      // false: no profiler; default true.
	Binary string `toml:"nsys_binary"` // Program; default nsys.
	Task   string `toml:"task"`        // Its command; default profile.
	Sample string `toml:"sample"`      // -s.
	// Stem of the reports' names, below raw/ unless absolute; role and rank are added. Default
	// nsys.
	Output            string   `toml:"output"`
	Trace             string   `toml:"trace"`               // -t.
	ForceOverwrite    *bool    `toml:"force_overwrite"`     // --force-overwrite.
	CaptureRange      string   `toml:"capture_range"`       // --capture-range.
	CaptureRangeEnd   string   `toml:"capture_range_end"`   // --capture-range-end.
	CUDAGraphTrace    string   `toml:"cuda_graph_trace"`    // --cuda-graph-trace.
	GPUMetricsDevices string   `toml:"gpu_metrics_devices"` // --gpu-metrics-devices.
	ExtraArgs         []string `toml:"extra_args"`          // Further options, after the others.
}

// nsys puts nsys around every engine.
func (p *Plan) nsys(in Input) error {
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
	if in.Simulated || n.Binary == "" {
		n.Binary = "nsys" // a rehearsal has a stand-in of that name
	}
	if n.Task == "" {
		n.Task = "profile"
	}
	if n.Output == "" {
		n.Output = "nsys"
	}
	err := p.wrapEngines(in.Test.Nsys.Pos, wrapper{name: "nsys", output: n.Output,
		rank: "%q{SLURM_PROCID}", // nsys puts the variable's value there
		lead: func(file, mark string) []string { return append(n.options(file), "env", mark) }})
	if err != nil {
		return err
	}
	p.noteCaptureRange(in, n)
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
	short("-s", n.Sample)
	short("-o", output)
	short("-t", n.Trace)
	if n.ForceOverwrite != nil {
		long("--force-overwrite", fmt.Sprint(*n.ForceOverwrite))
	}
	long("--capture-range", n.CaptureRange)
	long("--capture-range-end", n.CaptureRangeEnd)
	long("--cuda-graph-trace", n.CUDAGraphTrace)
	long("--gpu-metrics-devices", n.GPUMetricsDevices)
	return append(words, n.ExtraArgs...)
}

// noteCaptureRange says what a capture range by the CUDA profiler needs: without
// a server that calls it, and a client that asks the server to, the report is
// empty and nobody says so.
func (p *Plan) noteCaptureRange(in Input, n nsys) {
	if n.CaptureRange != "cudaProfilerApi" {
		return
	}
	server, client := true, false
	for _, r := range p.Roles {
		server = server && (!r.Engine || hasOption(r.Step.Argv, "--profiler-config"))
	}
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			client = client || hasOption(c.Argv, "--profile")
		}
	}
	if !server || !client {
		p.Notes = append(p.Notes, in.Test.Nsys.PosOf("capture_range").String()+
			": capture_range cudaProfilerApi records nothing unless every server has profiler_config = { profiler = \"cuda\" } and the client profile = true")
	}
}

// wrap puts words before the command proper of a step.
func (s *Step) wrap(words []Word) {
	argv := append([]Word(nil), s.Argv[:s.Inner]...)
	argv = append(argv, words...)
	s.Argv = append(argv, s.Argv[s.Inner:]...)
}
