package planner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/scenario"
)

// A rate at which no client can send is refused at its place, alone and in a list.
func TestImpossibleRate(t *testing.T) {
	for _, client := range []string{"vllm", "sglang", "profllm"} {
		for rate, want := range map[string]string{
			"-1":      "s.toml:9:1: bench_cmd_args.request_rate is -1, must be above 0",
			"[2, -1]": "s.toml:9:20: bench_cmd_args.request_rate is -1, must be above 0",
			`"-2.5"`:  `bench_cmd_args.request_rate is "-2.5", must be above 0`,
			"0":       "bench_cmd_args.request_rate is 0, must be above 0",
			"-inf":    "must be above 0", "nan": "must be above 0",
			"0.5": "", `"inf"`: "", "[2, 4.5]": "",
		} {
			s, err := scenario.Load(scenario.File{Name: "s.toml", Data: fmt.Appendf(nil, `name = "s"
[[Tests]]
id = "a"
test_template_name = "vllm"
client = %q
[Tests.cmd_args]
model = "m"
[Tests.bench_cmd_args]
request_rate = %s
`, client, rate)}, nil, scenario.HookFiles{})
			require.NoError(t, err)
			err = planner.Check(s.Tests[0])
			if want == "" {
				require.NoError(t, err, "%s %s", client, rate)
				continue
			}
			require.ErrorContains(t, err, want, "%s %s", client, rate)
			require.ErrorContains(t, err, "\thint: write requests per second", client)
		}
	}
}
