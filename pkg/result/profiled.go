package result

import (
	"encoding/json"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// wrapper matches a profiler in front of a command, also inside a shell's text: Nsight
// Systems and Compute, AMD's rocprof in its versions, perf, and VizTracer with its output.
var wrapper = lazyregexp.New(`(?:^|[\s;&|(/])(nsys\s+(?:profile|launch|start)|ncu|rocprof(?:v[23]|-compute|-sys-\w+)?|perf\s+(?:record|stat)|viztracer\s+-o)\s`)

// profilerVars are variables by which old releases of vLLM load a profiler: its
// directory, or CUDA's for nsys. SGLang's name a directory only, which its client uses
// when it is told to profile.
var profilerVars = []string{"VLLM_TORCH_PROFILER_DIR", "VLLM_TORCH_CUDA_PROFILE"}

// profilerOf names what profiles a command of a server or a client, "" if nothing does:
// a profiler in front of it, an option of the engine that configures one (profiler_config,
// of which nothing is set by default), or the client's order to start it (--profile of
// vLLM's and SGLang's benchmarks).
func profilerOf(argv []string) string {
	if m := wrapper.FindStringSubmatch(strings.Join(argv, " ") + " "); m != nil {
		return strings.TrimSuffix(m[1], " -o")
	}
	for i, word := range argv {
		name, value, given := strings.Cut(word, "=")
		switch name = strings.ReplaceAll(name, "_", "-"); {
		case name == "--profile" && (!given || value == "true" || value == "True"):
			return "--profile"
		case strings.HasPrefix(name, "--profiler-config.profiler"):
			return "--profiler-config"
		case name == "--profiler-config":
			if !given && i+1 < len(argv) {
				value = argv[i+1]
			}
			if configured(value) {
				return "--profiler-config"
			}
		}
	}
	return ""
}

// configured reports whether a profiler_config names a profiler. One that cannot be read
// is taken for one that does.
func configured(config any) bool {
	text, ok := config.(string)
	if ok {
		if config = nil; json.Unmarshal([]byte(text), &config) != nil {
			return strings.TrimSpace(text) != ""
		}
	}
	switch c := config.(type) {
	case nil:
		return false
	case map[string]any:
		p := c["profiler"]
		return p != nil && p != ""
	}
	return true
}

// profilerVar names the variable of an environment that loads a profiler, "" for none.
func profilerVar(get func(name string) string) string {
	for _, name := range profilerVars {
		if v := get(name); v != "" && v != "0" {
			return name
		}
	}
	return ""
}

// FindProfiler notes what the record itself shows of a profiler: commands, options and
// environment of the servers, the client's command, and the options that an imported
// file has.
func (r *Result) FindProfiler() {
	by := ""
	note := func(what string) {
		if by == "" {
			by = what
		}
	}
	options := []map[string]any{r.Config.Server}
	for _, role := range r.Config.Roles {
		options = append(options, role.Server)
	}
	for _, o := range options {
		if configured(o["profiler_config"]) {
			note("profiler_config")
		}
	}
	note(profilerVar(func(name string) string { return r.Config.Settings["extra_env_vars."+name] }))
	if p := r.Provenance; p != nil {
		for _, c := range p.Commands {
			note(profilerOf(c.Argv))
			note(profilerVar(func(name string) string { return assigned(c.Argv, name) }))
		}
		for _, e := range p.Environment {
			note(profilerVar(func(name string) string { return e.Vars[name] }))
		}
		if i := p.Imported; i != nil && asksToProfile(i.Fields) {
			note("profile")
		}
	}
	if by == "" {
		return
	}
	if r.Profiling == nil {
		r.Profiling = &Profiling{}
	}
	r.Profiling.Enabled, r.Profiling.By = true, by
}

// assigned is the value of NAME=VALUE among the words of a command.
func assigned(argv []string, name string) string {
	for _, word := range argv {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// asksToProfile looks for a client's profile = true, at any depth of what an imported
// file says beyond the record.
func asksToProfile(fields map[string]any) bool {
	for key, v := range fields {
		if below, ok := v.(map[string]any); ok && asksToProfile(below) {
			return true
		}
		if key == "profile" && (v == true || v == "true" || v == "True") || key == "profiler_config" && configured(v) {
			return true
		}
	}
	return false
}
