package plan

import (
	"slices"

	"github.com/profllm/profllm/pkg/source"
)

// viztracer is [viztracer]: VizTracer around every server, for its Python calls.
type viztracer struct {
	Enable *bool  `toml:"enable"` // false: no profiler; default true.
	Binary string `toml:"binary"` // Program, where the server runs; default viztracer.
	// Stem of the traces' names, below raw/ unless absolute; role, rank and .json are added. Default
	// viztracer.
	Output    string   `toml:"output"`
	ExtraArgs []string `toml:"extra_args"` // Further options, such as ["--tracer_entries", "4000000"].
}

// viztracer puts VizTracer around every engine. It runs the server in its own process, so that
// process is the marked one.
func (p *Plan) viztracer(in Input) error {
	if in.Test.Viz == nil {
		return nil
	}
	var v viztracer
	if err := source.Decode(in.Test.Viz, &v); err != nil {
		return err
	}
	if v.Enable != nil && !*v.Enable {
		return nil
	}
	if i := slices.IndexFunc(p.profilable(), func(s *Step) bool { return s.Profile.VizOption != "" }); i >= 0 {
		for _, key := range []string{"binary", "extra_args"} {
			if in.Test.Viz.Has(key) {
				return source.Errorf(in.Test.Viz.KeyPos(key), "viztracer.%s has no effect: %s runs VizTracer itself, "+
					"around its requests only", key, p.profilable()[i].Name).Hintf("remove it")
			}
		}
	}
	if in.Simulated || v.Binary == "" {
		v.Binary = "viztracer" // a rehearsal has a stand-in of that name
	}
	if v.Output == "" {
		v.Output = "viztracer"
	}
	return p.wrapEngines(in.Test.Viz.Pos, wrapper{name: "viztracer", kind: VizReport, output: v.Output, traced: p.Tracing != nil,
		suffix: reportSuffixes[VizReport], lead: func(file, mark string) []string {
			return slices.Concat([]string{"env", mark, v.Binary, "-o", file}, v.ExtraArgs, []string{"--"})
		}})
}
