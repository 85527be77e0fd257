package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A load that its own check will call unsteady is told before it is paid for, with
// the number that mends it.
//
// covers: PL-V15
func TestShortLoadsAreNoted(t *testing.T) {
	const vllm = "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ncmd_args = { model = \"m\", docker_image_url = \"x\" }\n"
	const start, told = "the results will be no-steady-state: ", " (num_prompts = 80 or more is accepted)"
	for more, want := range map[string]string{
		"": "s.toml:2:3: " + start + "30 requests, 16 at a time" + told,
		"bench_cmd_args = { num_prompts = 79 }\n":                                              "s.toml:6:20: " + start + "79 requests, 16 at a time" + told,
		"bench_cmd_args = { num_prompts = 80 }\n":                                              "",
		"bench_cmd_args = { max_concurrency = 6 }\n":                                           "",
		"bench_cmd_args = { request_rate = 2.5 }\n":                                            "",
		"bench_cmd_args = { request_rate = \"inf\" }\n":                                        "s.toml:6:1: " + start + "30 requests, 16 at a time" + told,
		"repeat = 3\nbench_cmd_args = { num_prompts = 4, max_concurrency = 1 }\n":              "s.toml:7:20: " + start + "4 requests, 1 at a time (num_prompts = 5 or more is accepted)",
		"[[Tests.phases]]\nname = \"one\"\n[Tests.phases.bench_cmd_args]\nmax_concurrency = 1": "",
		"[Tests.bench_cmd_args]\nmax_concurrency = [1, 16]\n":                                  "s.toml:6:8: " + start + "30 requests, 16 at a time" + told,
		"[Tests.bench_cmd_args]\nmax_concurrency = [16, 32, 64, 128, 256]\n": "s.toml:6:8: " + start + "30 requests, 16 at a time" + told +
			", 30 requests, 32 at a time (num_prompts = 160 or more is accepted), 30 requests, 64 at a time (num_prompts = 320 or more is accepted), 2 more",
	} {
		plans, err := inline(t, "", vllm+more, options)
		require.NoError(t, err, more)
		require.Equal(t, want, strings.Join(plans[0].Notes, "\n"), more)
	}
	plans, err := inline(t, "", strings.Replace(vllm, `"vllm"`, `"sglang"`, 1), options)
	require.NoError(t, err)
	require.Contains(t, strings.Join(plans[0].Notes, "\n"), "30 requests, 16 at a time"+told)
}
