package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
)

func TestSettingKey(t *testing.T) {
	for path, want := range map[string]string{
		"decode.tensor_parallel_size": "cmd_args.decode.tensor_parallel_size", "NUM_NODES": "NUM_NODES",
		"extra_env_vars.A": "extra_env_vars.A", "bench_cmd_args.num_prompts": "bench_cmd_args.num_prompts",
		"aiperf.args.request-count": "bench_cmd_args.request_count", "genai_perf.args.concurrency": "bench_cmd_args.concurrency",
	} {
		require.Equal(t, want, plan.SettingKey(path))
	}
}
