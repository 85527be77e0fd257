package vllm

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// configRelease is the first release with --profiler-config. Before, variables configure
// the profiler (vllm/envs.py, 0.12.0); 0.13 and 0.14 still read them, 0.16 does not.
const configRelease = arguments.ProfilerConfigRelease

// A profilerKey is a key of vLLM's profiler configuration that concerns PyTorch's profiler
// (vllm/config/profiler.py, 0.13.0 to 0.33.0), with the releases that have it.
type profilerKey struct {
	name  string
	since string // first release whose --profiler-config has it
	env   string // its variable before configRelease, "" for none
	from  string // first release that reads the variable
}

var profilerKeys = []profilerKey{
	{"torch_profiler_with_stack", configRelease, "VLLM_TORCH_PROFILER_WITH_STACK", "0.10.1"},
	{"torch_profiler_with_flops", configRelease, "VLLM_TORCH_PROFILER_WITH_FLOPS", "0.10.1"},
	{"torch_profiler_record_shapes", configRelease, "VLLM_TORCH_PROFILER_RECORD_SHAPES", "0.10.1"},
	{"torch_profiler_with_memory", configRelease, "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY", "0.10.1"},
	{"torch_profiler_use_gzip", configRelease, "VLLM_TORCH_PROFILER_USE_GZIP", "0.12.0"},
	{"torch_profiler_dump_cuda_time_total", configRelease, "VLLM_TORCH_PROFILER_DUMP_CUDA_TIME_TOTAL", "0.12.0"},
	{"ignore_frontend", configRelease, "VLLM_TORCH_PROFILER_DISABLE_ASYNC_LLM", "0.12.0"},
	{"delay_iterations", configRelease, "VLLM_PROFILER_DELAY_ITERS", "0.12.0"},
	{"max_iterations", configRelease, "VLLM_PROFILER_MAX_ITERS", "0.12.0"},
	{"wait_iterations", "0.18.0", "", ""},
	{"warmup_iterations", "0.18.0", "", ""},
	{"active_iterations", "0.18.0", "", ""},
	{"capture_torch_profiler", "0.26.0", "", ""},
	{"detailed_trace_annotation", "0.26.0", "", ""},
	{"torch_profiler_activities", "0.31.0", "", ""},
}

// torch says how PyTorch's profiler runs in the servers of a release, "" for the newest.
func torch(release string) *plan.Torch {
	return &plan.Torch{Start: "/start_profile", Stop: "/stop_profile",
		Configure: func(config *source.Table, dir string, limit time.Duration) ([]plan.Word, []plan.Var, error) {
			old := release != "" && arguments.Before(release, configRelease)
			if err := checkProfiler(config, release, old); err != nil {
				return nil, nil, err
			}
			if old {
				return nil, profilerVars(config, dir, limit), nil
			}
			words, err := profilerConfig(config, dir)
			return words, nil, err
		}, Range: func(limit time.Duration) ([]plan.Word, []plan.Var, error) { return captureRange(release, limit) }}
}

// captureRange makes a server call the CUDA profiler, which opens and closes a capture range of
// nsys.
func captureRange(release string, limit time.Duration) (words []plan.Word, env []plan.Var, err error) {
	options, vars, err := arguments.CUDAProfiler(release, limit)
	for _, v := range vars {
		env = append(env, plan.Var{Name: v.Name, Value: plan.Text(v.Value)})
	}
	return plan.Texts(options...), env, err
}

// checkProfiler refuses keys that the release does not have.
func checkProfiler(config *source.Table, release string, old bool) error {
	var c source.Complaints
	for _, name := range config.Keys() {
		v, key := config.Get(name), findProfilerKey(name)
		switch {
		case key == nil:
			var known []string
			for _, k := range profilerKeys {
				known = append(known, k.name)
			}
			c.Add(source.Errorf(config.KeyPos(name), "torch_profiler.%s is no key of vLLM's profiler_config for torch", name).
				Hintf("%s", source.Suggest(name, known)))
		case old && (key.env == "" || arguments.Before(release, key.from)):
			c.Addf(config.KeyPos(name), "torch_profiler.%s: vLLM %s cannot set it, vLLM %s can", name, release, key.first())
		case release != "" && !old && arguments.Before(release, key.since):
			c.Addf(config.KeyPos(name), "torch_profiler.%s: vLLM %s does not have it, vLLM %s does", name, release, key.since)
		case old:
			if _, isBool := v.Bool(); isBool {
				continue
			}
			if _, isInt := v.Int(); !isInt {
				c.Addf(v.Pos, "torch_profiler.%s must be true, false or a number, not %s", name, v.Describe())
			}
		}
	}
	return c.Err()
}

// first is the first release in which the key can be set.
func (k *profilerKey) first() string {
	if k.env != "" {
		return k.from
	}
	return k.since
}

// findProfilerKey takes dashes for underscores, as vLLM does; nil if it is not known.
func findProfilerKey(name string) *profilerKey {
	for i := range profilerKeys {
		if profilerKeys[i].name == strings.ReplaceAll(name, "-", "_") {
			return &profilerKeys[i]
		}
	}
	return nil
}

// profilerConfig is the option that configures the profiler.
func profilerConfig(config *source.Table, dir string) ([]plan.Word, error) {
	keys := map[string]any{"profiler": "torch", "torch_profiler_dir": dir}
	for _, name := range config.Keys() {
		keys[findProfilerKey(name).name] = config.Get(name).Plain()
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	return plan.Texts("--profiler-config", string(text)), nil
}

// profilerVars are the variables that configure the profiler before configRelease. The front
// end of those releases gives the engine VLLM_RPC_TIMEOUT to answer, 10 s if it is not set,
// and the answer to /stop_profile comes when the traces are written.
func profilerVars(config *source.Table, dir string, limit time.Duration) []plan.Var {
	env := []plan.Var{{Name: "VLLM_TORCH_PROFILER_DIR", Value: plan.Text(dir)},
		{Name: "VLLM_RPC_TIMEOUT", Value: plan.Text(fmt.Sprint(limit.Milliseconds()))}}
	for _, name := range config.Keys() {
		v := config.Get(name)
		text := fmt.Sprint(v.Plain())
		if on, isBool := v.Bool(); isBool {
			text = map[bool]string{true: "1", false: "0"}[on]
		}
		env = append(env, plan.Var{Name: findProfilerKey(name).env, Value: plan.Text(text)})
	}
	return env
}
