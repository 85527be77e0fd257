package arguments

import (
	"fmt"
	"strconv"
	"time"
)

// ProfilerConfigRelease is the first release with --profiler-config.
const ProfilerConfigRelease = "0.13.0"

// rangeRelease is the first release whose engine calls the CUDA profiler when it is asked for a
// profile, if a variable says so (vllm/envs.py and vllm/entrypoints/openai/api_server.py, 0.12.0).
const rangeRelease = "0.12.0"

// A Variable is set in the environment of an engine.
type Variable struct{ Name, Value string }

// CUDAProfiler has an engine of a release, "" for the newest, call the CUDA profiler where it is
// asked for a profile. The limit is for its answer. vLLM's documentation has nsys follow spawned
// workers, not forked ones.
func CUDAProfiler(release string, limit time.Duration) (options []string, env []Variable, err error) {
	env = []Variable{{"VLLM_WORKER_MULTIPROC_METHOD", "spawn"}}
	switch {
	case release == "" || !Before(release, ProfilerConfigRelease):
		return []string{"--profiler-config", `{"profiler":"cuda"}`}, env, nil
	case !Before(release, rangeRelease):
		return nil, append(env, Variable{"VLLM_TORCH_CUDA_PROFILE", "1"},
			Variable{"VLLM_RPC_TIMEOUT", strconv.FormatInt(limit.Milliseconds(), 10)}), nil
	}
	return nil, nil, fmt.Errorf("vLLM %s cannot call the CUDA profiler, vLLM %s can", release, rangeRelease)
}
