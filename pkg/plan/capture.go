package plan

import (
	"strings"
	"time"
)

// rangeLimit bounds the answer of an engine that closes a capture range.
const rangeLimit = 5 * time.Minute

// capture has the job open and close the capture range of nsys in every profiled engine, around
// each load. Otherwise the reports would be empty and nobody would say so. A client that asks for
// the profile itself (--profile) is left to it.
func (p *Plan) capture(in Input, service Service, n *nsys) error {
	if n.CaptureRange != byProfilerAPI {
		return nil
	}
	pos := in.Test.Nsys.PosOf("capture_range")
	if !in.Test.Nsys.Has("capture_range") {
		pos = in.Test.Nsys.PosOf("preset")
	}
	if len(p.profilable()) > 0 {
		return p.captureSteps(in, pos)
	}
	note := func(text string) { p.Notes = append(p.Notes, pos.String()+": "+text) }
	if service.Torch == nil || service.Torch.Range == nil {
		note("capture_range cudaProfilerApi records nothing unless the servers call the CUDA profiler, " +
			"which profllm cannot have a " + p.Workload + " do")
		return nil
	}
	argv, env, err := service.Torch.Range(rangeLimit)
	if err != nil {
		note("capture_range cudaProfilerApi records nothing: " + err.Error())
		return nil
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		switch own, text := optionText(r.Step.Argv, "--profiler-config"); {
		case r.Report == "":
		case !own:
			r.Step.Argv, r.Step.Env = append(r.Step.Argv, argv...), append(r.Step.Env, p.unset(in, env)...)
		case !strings.Contains(text, "cuda"):
			note("capture_range cudaProfilerApi records nothing of " + r.Name +
				", whose own profiler_config lacks profiler = \"cuda\"")
		}
	}
	if !p.captures(service, n) {
		return nil // the client does
	}
	p.traced(service, rangeLimit)
	if len(p.Loads) > 1 && !strings.HasPrefix(n.CaptureRangeEnd, "repeat") {
		note("without capture_range_end = \"repeat\", nsys records the first load only")
	}
	return nil
}

// captures reports whether the job opens and closes the capture range.
func (p *Plan) captures(service Service, n *nsys) bool {
	return n.CaptureRange == byProfilerAPI && service.Torch != nil && service.Torch.Range != nil && !p.clientProfiles()
}

// clientProfiles reports whether a client asks the server for a profile.
func (p *Plan) clientProfiles() bool {
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			if hasOption(c.Argv, "--profile") {
				return true
			}
		}
	}
	return false
}

// Profiles reports whether a profiler runs in an engine or around one, so that the end of the
// engines takes longer.
func (p *Plan) Profiles() bool {
	return p.Tracing != nil || len(p.Reporters(nil)) > 0
}

// Traces reports whether the job starts and stops a profiler inside of the role's engine.
func (p *Plan) Traces(r *Role) bool {
	return p.Tracing != nil && (r.TraceDir != "" || r.Report != "" && r.ReportKind == NsysReport)
}

// optionText joins the words of an option and of its dotted forms, with their values; false if the
// command does not have it.
func optionText(argv []Word, option string) (has bool, text string) {
	for i, w := range argv {
		if !hasOption(argv[i:i+1], option) {
			continue
		}
		has, text = true, text+" "+w.String()
		if i+1 < len(argv) {
			text += " " + argv[i+1].String()
		}
	}
	return has, text
}
