package vllm

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/source"
)

// Up to 0.12, variables configure the profiler, and from 0.13 --profiler-config does. What the
// release of the test cannot set is refused.
//
// covers: PRF-1, PRF-2, PRF-12, LBEN-4
func TestProfilerOfARelease(t *testing.T) {
	const keys = "torch_profiler_with_stack = false\ndelay-iterations = 3\n"
	configure := func(release, keys string) (string, error) {
		table, err := source.Parse("t.toml", []byte(keys))
		require.NoError(t, err)
		words, env, err := torch(release).Configure(table, "/run/raw/torch/serve", 2*time.Minute)
		var parts []string
		for _, w := range words {
			parts = append(parts, w.String())
		}
		for _, v := range env {
			parts = append(parts, v.Name+"="+v.Value.String())
		}
		return strings.Join(parts, " "), err
	}
	const option = `--profiler-config {"delay_iterations":3,"profiler":"torch","torch_profiler_dir":"/run/raw/torch/serve","torch_profiler_with_stack":false}`
	for _, c := range []struct{ release, keys, want string }{
		{"", keys, option}, {"0.33.0", keys, option}, {"0.13.0", keys, option},
		{"0.12.0", keys, "VLLM_TORCH_PROFILER_DIR=/run/raw/torch/serve VLLM_RPC_TIMEOUT=120000 " +
			"VLLM_TORCH_PROFILER_WITH_STACK=0 VLLM_PROFILER_DELAY_ITERS=3"},
		{"0.6.0", "", "VLLM_TORCH_PROFILER_DIR=/run/raw/torch/serve VLLM_RPC_TIMEOUT=120000"},
		{"0.10.2", "torch_profiler_record_shapes = true", "VLLM_TORCH_PROFILER_DIR=/run/raw/torch/serve " +
			"VLLM_RPC_TIMEOUT=120000 VLLM_TORCH_PROFILER_RECORD_SHAPES=1"},
	} {
		got, err := configure(c.release, c.keys)
		require.NoError(t, err, c)
		require.Equal(t, c.want, got, c)
	}
	for _, c := range []struct{ release, keys, want string }{
		{"0.11.0", "max_iterations = 4", "t.toml:1:1: torch_profiler.max_iterations: vLLM 0.11.0 cannot set it, vLLM 0.12.0 can"},
		{"0.12.0", "warmup_iterations = 4", "vLLM 0.12.0 cannot set it, vLLM 0.18.0 can"},
		{"0.12.0", "delay_iterations = \"few\"", "must be true, false or a number"},
		{"0.16.0", "active_iterations = 4", "vLLM 0.16.0 does not have it, vLLM 0.18.0 does"},
		{"", "torch_profiler_with_stak = 4", "did you mean \"torch_profiler_with_stack\"?"},
		{"", "torch_profiler_dir = \"/x\"", "torch_profiler.torch_profiler_dir is no key of vLLM's profiler_config for torch"},
	} {
		_, err := configure(c.release, c.keys)
		require.ErrorContains(t, err, c.want, c)
	}
}

// From 0.13 on, an option has the server call the CUDA profiler, in 0.12 a variable does, and
// before, nothing can. Workers are spawned, so that nsys follows them.
//
// covers: PRF-4, PRF-12
func TestCaptureRangeOfARelease(t *testing.T) {
	for release, want := range map[string]string{
		"":       `--profiler-config {"profiler":"cuda"} VLLM_WORKER_MULTIPROC_METHOD=spawn`,
		"0.13.0": `--profiler-config {"profiler":"cuda"} VLLM_WORKER_MULTIPROC_METHOD=spawn`,
		"0.12.0": "VLLM_WORKER_MULTIPROC_METHOD=spawn VLLM_TORCH_CUDA_PROFILE=1 VLLM_RPC_TIMEOUT=60000",
	} {
		words, env, err := torch(release).Range(time.Minute)
		require.NoError(t, err)
		var parts []string
		for _, w := range words {
			parts = append(parts, w.String())
		}
		for _, v := range env {
			parts = append(parts, v.Name+"="+v.Value.String())
		}
		require.Equal(t, want, strings.Join(parts, " "), release)
	}
	_, _, err := torch("0.11.2").Range(time.Minute)
	require.ErrorContains(t, err, "vLLM 0.11.2 cannot call the CUDA profiler, vLLM 0.12.0 can")
}
